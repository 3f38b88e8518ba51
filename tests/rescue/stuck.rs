//! What is stuck is listed, ended, or left with its reason.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Rule, Verb};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::{
    Cluster, EXIT, WITH_EXIT_IMAGE, job, job_of_three, job_with_own_program, main_has_ended, start,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_lists_what_is_stuck_and_writes_nothing() {
    let mut running = job("running", "Never");
    running["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["run=forever"]);
    let cluster = Cluster::with_stuck(&[
        job("report", "Never"),
        job_of_three(),
        job_with_own_program("own"),
    ])
    .await;
    cluster.create(&running).await;
    let ran = cluster
        .rescue(&["--dry-run", "-A", "--exit-image", EXIT, "--finish", "never"])
        .await
        .exits(0);
    assert!(ran.out.starts_with("NAMESPACE   POD"), "{}", ran.out);
    assert!(
        ran.line("report").contains(" log ")
            && ran
                .line("report")
                .contains("SidecarSwapped   changes the image of log"),
        "{}",
        ran.out
    );
    assert!(
        ran.line("own").contains("NeedsImage") && ran.line("own").contains("/opt/own/server"),
        "{}",
        ran.out
    );
    let of_three: Vec<_> = ran
        .out
        .lines()
        .filter(|line| line.contains("pack-"))
        .collect();
    // They are ended in turn: nothing is under way yet that one of them would wait for.
    let swapped = of_three
        .iter()
        .filter(|line| line.contains("SidecarSwapped"))
        .count();
    assert!(of_three.len() == 3 && swapped == 3, "{}", ran.out);
    assert!(!ran.out.contains("running-"), "{}", ran.out);
    // Without any exit image, and for programs.
    let ran = cluster
        .rescue(&["--dry-run", "-n", "default", "-o", "json"])
        .await
        .exits(0);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        ran.err.contains("note: no --exit-image is given"),
        "{}",
        ran.err
    );
    assert!(
        json["pods"]
            .as_array()
            .unwrap()
            .iter()
            .all(|pod| pod["sidecars"] == json!(["log"])),
        "{json}"
    );
    assert_eq!(cluster.writes().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_jobs_complete() {
    let cluster = Cluster::with_stuck(&[job("report", "Never"), job_of_three()]).await;
    let ran = cluster.rescue(WITH_EXIT_IMAGE).await.exits(0);
    for name in ["report", "pack"] {
        cluster.job_completes(name).await;
        assert!(
            ran.line(name).contains("Succeeded")
                && ran.line(name).contains("exit image exit code 0"),
            "{}",
            ran.out
        );
    }
    assert!(
        ran.err.contains("4 of 4 pods ended in") && ran.err.contains("0 of 4 left"),
        "{}",
        ran.err
    );
    let failed = cluster
        .server
        .peek("jobs.batch", "default", "pack")
        .unwrap()["status"]["failed"]
        .as_u64()
        .unwrap_or_default();
    assert_eq!(failed, 0);
    // The next one has nothing to do.
    let ran = cluster.rescue(WITH_EXIT_IMAGE).await.exits(0);
    assert!(
        ran.out.is_empty()
            && ran
                .err
                .contains("No pod of namespace default waits for its sidecars."),
        "{}{}",
        ran.out,
        ran.err
    );
}

/// A webhook denies the swap, and the first try to write the phase meets a change of the node's: it
/// is tried again half a second later.
#[tokio::test(flavor = "multi_thread")]
async fn u160_a_phase_that_is_not_written_at_once_is_written_after_a_denied_swap() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    let patch = |code: u16, words: &str, subresource: &str| {
        Rule::new(Effect::reply(code).message(words))
            .user_agent("swaplet/")
            .verb(Verb::Patch)
            .resource("pods")
            .subresource(subresource)
    };
    let faults = cluster.server.faults();
    faults.add(patch(
        403,
        "admission webhook \"w\" denied the request: no",
        "",
    ));
    faults.add(patch(409, "the object has been modified", "status").times(1));
    let ran = cluster.rescue(WITH_EXIT_IMAGE).await.exits(0);
    assert!(ran.line("report").contains("Succeeded"), "{}", ran.out);
}

/// No waiting for what only a hand from outside can change.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_ended_is_left_with_its_reason() {
    let cluster = Cluster::with_stuck(&[job("report", "Never"), job_with_own_program("own")]).await;
    let start = Instant::now();
    let ran = cluster
        .rescue(&["--exit-image", EXIT, "--finish", "never"])
        .await
        .exits(1);
    // Who waits for such a pod gives up after five minutes.
    assert!(start.elapsed() < Duration::from_secs(240), "{}", ran.err);
    assert!(ran.line("report").contains("Succeeded"), "{}", ran.out);
    assert!(
        ran.line("own").contains("NeedsImage")
            && ran.line("own").contains("--path /opt/own/server"),
        "{}",
        ran.out
    );
    assert_eq!(cluster.images("own"), ["log:1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn finish_needs_no_exit_image() {
    let cluster = Cluster::with_stuck(&[job("report", "Never"), job_with_own_program("own")]).await;
    let ran = cluster
        .rescue(&["--prefer", "finish", "-o", "json"])
        .await
        .exits(0);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        json["pods"]
            .as_array()
            .unwrap()
            .iter()
            .all(|pod| pod["ended"] == true && pod["result"]["reason"] == "Succeeded"),
        "{json}"
    );
    assert_eq!(
        [cluster.images("report"), cluster.images("own")].concat(),
        ["log:1", "log:1"]
    );
    cluster.job_completes("report").await;
    cluster.job_completes("own").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_become_stuck_later_are_left_alone() {
    let mut slow = job("slow", "Never");
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 6.into();
    slow["spec"]["template"]["spec"]["containers"][1]["args"] =
        json!(["run=forever", "term=ignore"]);
    let cluster = Cluster::with_stuck(&[slow]).await;
    let mut child = start(&cluster, WITH_EXIT_IMAGE).await;
    cluster.create(&job("later", "Never")).await;
    assert!(child.wait().await.unwrap().success());
    assert!(cluster.pods().iter().all(main_has_ended));
    assert_eq!(
        (cluster.images("slow"), cluster.images("later")),
        (vec![EXIT.to_owned()], vec!["log:1".to_owned()])
    );
    assert_eq!(
        cluster
            .writes()
            .iter()
            .filter(|write| write.resource == "pods")
            .count(),
        1
    );
}

/// While it ends a sidecar that takes 20 s to stop.
async fn ending_slowly() -> (Cluster, Child) {
    let mut slow = job("slow", "Never");
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 20.into();
    slow["spec"]["template"]["spec"]["containers"][1]["args"] =
        json!(["run=forever", "term=ignore"]);
    let cluster = Cluster::with_stuck(&[slow]).await;
    let child = start(&cluster, WITH_EXIT_IMAGE).await;
    (cluster, child)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_interrupted_and_gives_up_in_time() {
    let (cluster, child) = ending_slowly().await;
    let id = child.id().unwrap().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .await
            .unwrap()
            .success()
    );
    let code = child.wait_with_output().await.unwrap().status.code();
    assert_eq!(code, Some(130), "as for every command");
    let ran = cluster
        .rescue(&["--exit-image", EXIT, "--timeout", "2"])
        .await
        .exits(1);
    assert!(
        ran.err.contains("giving up after 2 s") && ran.err.contains("0 of 1 pod ended in"),
        "{}",
        ran.err
    );
    assert!(ran.line("slow").contains("SwapPending"), "{}", ran.out);
    assert!(
        ran.err
            .contains("swaplet has written Events about some of these pods"),
        "{}",
        ran.err
    );
    assert_eq!(
        cluster
            .writes()
            .iter()
            .filter(|write| write.resource == "pods")
            .count(),
        1,
        "the second goes on where the first was"
    );
}

/// The terminal is closed: commands clean up as after Ctrl-C.
#[tokio::test(flavor = "multi_thread")]
async fn a8_a_hangup_stops_it_like_an_interrupt() {
    let (_cluster, child) = ending_slowly().await;
    let id = child.id().unwrap().to_string();
    let sent = Command::new("kill").args(["-HUP", &id]).status().await;
    assert!(sent.unwrap().success());
    let code = child.wait_with_output().await.unwrap().status.code();
    assert_eq!(code, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn u235_a_list_that_a_busy_server_refuses_is_asked_for_again() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    let busy = |times| {
        let rule = Rule::new(Effect::reply(429).retry_after(1).message("later"));
        let rule = rule.user_agent("swaplet/").verb(Verb::List);
        cluster
            .server
            .faults()
            .add(rule.resource("pods").times(times))
    };
    let refused = busy(2);
    let ran = cluster.rescue(&["--dry-run", "--exit-image", EXIT]).await;
    assert!(cluster.server.faults().hits(refused) > 2);
    assert!(ran.exits(0).line("report").contains("Swap"));
    let refused = busy(100);
    let ran = cluster.rescue(&["--dry-run", "--exit-image", EXIT]).await;
    assert_eq!(cluster.server.faults().hits(refused), 6, "not without end");
    assert!(ran.exits(2).err.contains("later"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_said_and_costs_no_more_than_it_must() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    for resource in ["nodes", "configmaps", "events"] {
        cluster.forbid(|rule| rule.resource(resource));
    }
    let ran = cluster
        .rescue(&["--dry-run", "--exit-image", EXIT])
        .await
        .exits(0);
    // One line, however many there are.
    let unread = "note: your rights do not allow to read nodes, ConfigMaps of all namespaces, Events: a controller with these rights may decide otherwise; pass its flags, or ask for the rights (docs/rights.md)\n";
    assert!(ran.err.contains(unread), "{}", ran.err);
    let notes = ran.err.lines().filter(|line| line.contains("your rights"));
    assert!(
        notes.count() == 1 && !ran.err.contains("forbidden for jane"),
        "{}",
        ran.err
    );
    assert!(
        ran.line("report").contains("PhaseWritten"),
        "a node that nobody sees may be a virtual one: {}",
        ran.out
    );
    cluster.forbid(|rule| rule.resource("pods").verb(Verb::Patch));
    let ran = cluster.rescue(WITH_EXIT_IMAGE).await.exits(1);
    assert!(
        ran.line("report").contains("WriteDenied")
            && ran.line("report").contains("forbidden for jane"),
        "{}",
        ran.out
    );
    cluster.forbid(|rule| rule.resource("pods").verb(Verb::List));
    let ran = cluster.rescue(&["-A", "--exit-image", EXIT]).await.exits(2);
    assert!(
        ran.err.contains(
            "cannot list the pods of all namespaces: that is forbidden for jane; -n NAMESPACE needs"
        ),
        "{}",
        ran.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_exit_code_2() {
    let cluster = Cluster::start().await;
    for (arguments, words) in [
        (
            &["--prefer", "finish", "--finish", "never"][..],
            "exclude each other",
        ),
        (&["-A", "-n", "batch"], "cannot be used with"),
        (&["--timeout", "0"], "0 s is not at least 1 s"),
    ] {
        let ran = cluster.rescue(arguments).await.exits(2);
        assert!(ran.out.is_empty() && ran.err.contains(words), "{}", ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_image_is_asked_for_once_something_is_to_be_ended() {
    let cluster = Cluster::start().await;
    let ran = cluster.rescue(&[]).await.exits(0);
    assert!(ran.err.contains("No pod of"), "{}", ran.err);
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    let ran = cluster.rescue(&[]).await.exits(2);
    assert!(!ran.line("report").is_empty(), "it is listed: {}", ran.out);
    assert!(
        ran.err.contains("swaplet exit-image push IMAGE"),
        "{}",
        ran.err
    );
    assert_eq!(cluster.writes().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_the_jobs_of_a_cron_job_are_explained() {
    let mut nightly = job("nightly-1", "Never");
    nightly["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "CronJob",
        "name": "nightly", "uid": "c0ffee", "controller": true}]);
    let cluster = Cluster::with_stuck(&[nightly, job("other", "Never")]).await;
    let ran = cluster
        .explain(&["cronjob/nightly", "-o", "json"])
        .await
        .exits(0);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    let pods = said["pods"].as_array().unwrap();
    let names: Vec<_> = pods.iter().map(|pod| pod["name"].as_str()).collect();
    assert_eq!(names, [Some(&*cluster.pod_of("nightly-1"))], "{said}");
    let ran = cluster.explain(&["cj", "weekly"]).await.exits(2);
    assert!(
        ran.err
            .contains("there is no CronJob weekly in namespace default"),
        "{}",
        ran.err
    );
}

/// The node judges the pod by a sidecar that has failed by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_has_failed_after_its_main_containers_succeeded_is_no_success() {
    let mut report = job("report", "Never");
    let containers = report["spec"]["template"]["spec"]["containers"].as_array_mut();
    let containers = containers.unwrap();
    let mut metrics = containers[1].clone();
    metrics["name"] = "metrics".into();
    metrics["args"] = json!(["run=100ms", "exit=1"]);
    containers.push(metrics);
    let cluster = Cluster::with_stuck(&[report]).await;
    let ran = cluster.rescue(&["--exit-image", EXIT]).await.exits(1);
    assert!(ran.line("report").contains("Failed"), "{}", ran.out);
}
