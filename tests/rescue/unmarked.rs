//! Jobs whose sidecars nobody has marked: listed with what ends them, and ended when that is said.

use serde_json::{Value, json};

use super::policies::unmarked;
use super::{Cluster, EXIT, Ran, WITH_EXIT_IMAGE, job};

const BOTH: [&str; 4] = ["--preset", "fluent-bit", "--sidecar", "my-agent"];

#[tokio::test(flavor = "multi_thread")]
async fn b1_what_nothing_marks_is_listed_with_the_flags_that_end_it() {
    let sidecars = ["fluent-bit", "my-agent"];
    let cluster =
        Cluster::with_stuck(&[unmarked("report", &sidecars), job("marked", "Never")]).await;
    let ran = cluster
        .rescue(&["--dry-run", "-n", "default"])
        .await
        .exits(0);
    assert!(ran.line("marked").contains("SidecarSwapped"), "{}", ran.out);
    let (_, list) = ran
        .out
        .split_once("Nothing marks these as sidecars:\n")
        .unwrap();
    for parts in [
        [
            "fluent-bit",
            "--preset fluent-bit",
            "a sidecar, by its name",
        ],
        ["my-agent", "--sidecar my-agent", "not known"],
    ] {
        let is_it = |line: &&str| parts.iter().all(|part| line.contains(part));
        assert!(list.lines().any(|line| is_it(&line)), "{parts:?}: {list}");
    }
    assert!(
        ran.err
            .contains("1 pod waits for containers that nothing marks as sidecars: swaplet rescue -n default --preset fluent-bit --sidecar my-agent ends them, if you know that nothing is left to do for my-agent"),
        "{}",
        ran.err
    );
    let ran = cluster
        .rescue(&["--dry-run", "-n", "default", "-o", "json"])
        .await
        .exits(0);
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        value["unmarked"][0]["flag"], "--preset fluent-bit",
        "{value}"
    );
    assert_eq!(cluster.writes().len(), 0);

    // Of one that is named the same is listed, and it is left.
    let by_hand = format!("--exit-image={EXIT} ");
    for (more, flags, code) in [(&["--dry-run"][..], "", 0), (WITH_EXIT_IMAGE, &*by_hand, 1)] {
        let named = cluster.rescue(&[&["job/report"], more].concat()).await;
        let named = named.exits(code);
        let advice = format!(
            "swaplet rescue job/report -n default {flags}--preset fluent-bit --sidecar my-agent ends them"
        );
        assert!(
            named.err.contains(&advice) && !named.err.contains("not stuck"),
            "{}{}",
            named.out,
            named.err
        );
    }
    let none = cluster
        .rescue(&["--dry-run", "-l", "app=other"])
        .await
        .exits(0);
    assert!(
        none.err
            .contains("No pod of namespace default that -l app=other matches waits"),
        "{}",
        none.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_named_and_left_beside_one_that_is_ended_is_no_success() {
    let cluster =
        Cluster::with_stuck(&[unmarked("report", &["my-agent"]), job("marked", "Never")]).await;
    let both = [&["job/report", "job/marked"], WITH_EXIT_IMAGE].concat();
    let ran = cluster.rescue(&both).await.exits(1);
    assert!(ran.line("marked").contains("Succeeded"), "{}", ran.out);
}

/// The command that is advised, and then again, leads to the end.
#[tokio::test(flavor = "multi_thread")]
async fn b1_the_advice_keeps_what_was_given() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["fluent-bit", "my-agent"])]).await;
    for given in [["--preset", "fluent-bit"], ["--sidecar", "my-agent"]] {
        let ran = cluster
            .rescue(&[&["job/report", "--dry-run"], &given[..]].concat())
            .await
            .exits(0);
        let err = ran.err.replace('=', " ");
        assert!(
            err.contains("--preset fluent-bit") && err.contains("--sidecar my-agent"),
            "{}",
            ran.err
        );
        assert!(
            ran.err
                .contains("No pod of namespace default among job/report"),
            "{}",
            ran.err
        );
    }
}

/// Whoever pastes it asks the same cluster, by the same rules.
#[tokio::test(flavor = "multi_thread")]
async fn u186_the_advice_is_the_call_with_all_that_was_typed() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["my-agent"])]).await;
    let file = cluster.folder.path().join("of a team");
    std::fs::copy(cluster.kubeconfig(), &file).unwrap();
    let file = file.to_str().unwrap();
    let swaplet = |shell: &[&str]| {
        let mut command = tokio::process::Command::new(shell[0]);
        command
            .args(&shell[1..])
            .env("KUBECONFIG", "/nosuch")
            .env_remove("RUST_LOG")
            .env("SWAPLET_EXIT_IMAGE_IS_PUBLIC", "true")
            .kill_on_drop(true);
        command
    };
    let program = env!("CARGO_BIN_EXE_swaplet");
    let call = [
        program,
        "--kubeconfig",
        file,
        "--context",
        "swaplet",
        "rescue",
        "-A",
    ];
    let rules = [
        "--prefer=finish",
        "--state-namespace",
        "default",
        "--dry-run",
    ];
    let dry = swaplet(&[&call[..], &rules].concat()).output().await;
    let dry = Ran::of(dry.unwrap()).exits(0);
    let advice = dry.err.split_once("marks as sidecars: swaplet ");
    let (advice, _) = advice
        .and_then(|(_, rest)| rest.split_once(" ends them"))
        .unwrap();
    assert_eq!(
        advice,
        format!(
            "rescue -A --state-namespace=default --prefer=finish '--kubeconfig={file}' --context=swaplet --sidecar my-agent"
        )
    );
    let pasted = format!("exec \"$0\" {advice}");
    let ran = swaplet(&["sh", "-c", pasted.as_str(), program])
        .output()
        .await;
    let ran = Ran::of(ran.unwrap()).exits(0);
    assert!(ran.line("report").contains("Succeeded"), "{}", ran.out);
    cluster.job_completes("report").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_what_the_command_line_names_is_ended() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["fluent-bit", "my-agent"])]).await;
    let ran = cluster
        .rescue(&[&["job/report"], WITH_EXIT_IMAGE, &BOTH].concat())
        .await
        .exits(0);
    assert!(ran.line("report").contains("Succeeded"), "{}", ran.out);
    cluster.job_completes("report").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_a_flag_that_names_nothing_is_told_and_so_are_pods_that_are_left() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["my-agent"])]).await;
    let flags = ["--sidecar", "my-agnet", "--preset", "istio"];
    let ran = cluster.rescue(&flags).await.exits(0);
    for flag in ["--sidecar my-agnet", "--preset istio"] {
        let words = format!("note: {flag}: no container of these pods is a sidecar by it");
        assert!(ran.err.contains(&words), "{words}: {}", ran.err);
    }
    assert!(
        ran.err
            .contains("swaplet rescue -n default --sidecar=my-agnet --preset=istio --sidecar my-agent ends them, if you know"),
        "{}",
        ran.err
    );
    assert_eq!(cluster.writes().len(), 0);
    let flags = ["--dry-run", "--sidecar", "my-agent"];
    let ran = cluster.rescue(&flags).await.exits(0);
    assert!(!ran.err.contains("is a sidecar by it"), "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_suggested_policies_are_taken_from_a_file() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["istio-proxy", "shipper"])]).await;
    let suggest = ["suggest", "-A", "--stuck-for", "0s"];
    let suggested = cluster.command("policy", &suggest).output().await.unwrap();
    let file = cluster.folder.path().join("policies.yaml");
    std::fs::write(&file, suggested.stdout).unwrap();
    let file = file.to_str().unwrap();
    let ran = cluster
        .rescue(&["-A", "--exit-image", EXIT, "--policy", file])
        .await
        .exits(0);
    assert!(ran.line("report").contains("Succeeded"), "{}", ran.out);
    cluster.job_completes("report").await;
    std::fs::write(file, "kind: Job\n").unwrap();
    let wrong = cluster
        .rescue(&["--dry-run", "--policy", file])
        .await
        .exits(2);
    assert!(
        wrong.err.contains("it has no SidecarPolicy"),
        "{}",
        wrong.err
    );
}

/// The work itself is named: nothing would be left to wait, and nothing be listed.
#[tokio::test(flavor = "multi_thread")]
async fn a_main_container_is_not_taken_for_the_sidecar() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["fluent-bit"])]).await;
    for more in [&[][..], &["--preset", "fluent-bit"]] {
        let flags = [&["job/report", "--sidecar", "main"], WITH_EXIT_IMAGE, more].concat();
        let ran = cluster.rescue(&flags).await.exits(2);
        let words = "error: --sidecar main: it has ended by itself in all of these pods";
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    assert_eq!(cluster.writes().len(), 0);
    for flag in ["--sidecar=", "--sidecar=nosuch"] {
        let ran = cluster.rescue(&["--dry-run", flag]).await;
        let (code, words) = match flag {
            "--sidecar=" => (2, "a value is required for '--sidecar <NAME>'"),
            _ => (
                0,
                "--sidecar nosuch: no container of these pods is a sidecar by it",
            ),
        };
        let ran = ran.exits(code);
        assert!(ran.err.contains(words), "{}", ran.err);
        assert_eq!(
            code == 0,
            ran.out.contains("--preset fluent-bit"),
            "{}",
            ran.out
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_what_is_not_there_or_never_ends_is_not_called_what_does_not_wait() {
    let mut running = job("running", "Never");
    running["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["run=forever"]);
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    cluster.create(&running).await;
    let mut always = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}});
    always["spec"] = running["spec"]["template"]["spec"].clone();
    always["spec"]["restartPolicy"] = "Always".into();
    cluster.create(&always).await;
    let found = || cluster.pods().len() == 3;
    cluster.eventually("all pods", found).await;
    for (target, words) in [
        ("nosuch", "there is no pod nosuch in namespace default"),
        ("job/nosuch", "there is no Job nosuch in namespace default"),
        (
            "cronjob/nosuch",
            "there is no CronJob nosuch in namespace default",
        ),
        (
            "pod/web",
            "pod web restarts its containers always (restartPolicy Always)",
        ),
        ("job/running", "Job running does not wait for sidecars"),
    ] {
        let ran = cluster
            .rescue(&[&[target], WITH_EXIT_IMAGE].concat())
            .await
            .exits(2);
        assert!(ran.err.contains(words), "{target}: {}", ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_cron_job_are_rescued() {
    let mut of_cron = job("nightly-29", "Never");
    of_cron["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "CronJob",
        "name": "nightly", "uid": "7c1c1d6e", "controller": true}]);
    let cluster = Cluster::with_stuck(&[of_cron, job("other", "Never")]).await;
    let ran = cluster
        .rescue(&[&["cronjob/nightly"], WITH_EXIT_IMAGE].concat())
        .await
        .exits(0);
    assert!(ran.line("nightly").contains("Succeeded"), "{}", ran.out);
    assert!(!ran.out.contains("other"), "{}", ran.out);
}
