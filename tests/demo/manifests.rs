//! Manifests that are given to the demo: they run, or it is said why not.

use std::path::Path;

use crate::{JOB, demo, manifest, text};

/// That of the README.
#[test]
fn a_users_own_job_completes() {
    let readme = include_str!("../../README.md");
    let (_, job) = readme.split_once("```yaml\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = demo()
        .arg("-f")
        .arg(manifest(folder.path(), job.split_once("```").unwrap().0))
        .output()
        .unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.lines()
            .any(|line| line.starts_with("report") && line.contains("Complete")),
        "{text}"
    );
    assert!(text.contains("SidecarEnded"), "{text}");
}

/// Sidecars that nobody has marked.
#[test]
fn the_examples_of_policies_end() {
    for (file, ending, ended) in [
        ("cronjob-collector", "report", 1),
        ("job-injected-proxy", "import", 1),
        ("indexed-job", "train", 2),
        ("bare-pod", "migrate", 1),
        ("custom-owner", "flow-main-1234", 1),
    ] {
        let path = format!(
            "{}/../../docs/examples/{file}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let output = demo().args(["-f", &path]).output().unwrap();
        let text = text(&output);
        assert!(output.status.success(), "{file}: {text}");
        assert!(
            text.lines()
                .any(|line| line.contains(ending) && line.contains(" Succeeded ")),
            "{file}: {text}"
        );
        assert_eq!(
            text.matches("SidecarEnded").count(),
            ended,
            "{file}: {text}"
        );
    }
}

/// Its main runs for ever.
#[test]
fn a_job_that_does_not_end_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let file = manifest(folder.path(), &JOB.replace("run=500ms", "run=forever"));
    let output = demo()
        .args(["--timeout", "6", "-f"])
        .arg(file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("giving up"), "{}", text(&output));
}

const ALL_SORTS: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: nightly, namespace: reports}
  spec:
    schedule: '0 3 * * *'
    jobTemplate:
      spec:
        template:
          spec:
            restartPolicy: Never
            containers: [{name: main, image: registry.example/app:v1, args: [run=500ms]}]
            volumes: [{name: scripts, configMap: {name: scripts, defaultMode: 0755}}]
- apiVersion: batch/v1
  kind: Job
  metadata: {name: train}
  spec:
    completionMode: Indexed
    completions: 2
    parallelism: 2
    template:
      spec:
        restartPolicy: Never
        containers: [{name: main, image: registry.example/app:v1, args: [run=500ms]}]
- apiVersion: batch/v1
  kind: Job
  metadata: {name: queued}
  spec:
    managedBy: kueue.x-k8s.io/multikueue
    template: {spec: {restartPolicy: Never, containers: [{name: main, image: registry.example/app:v1}]}}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: reader}
";

/// Nothing is marked, nothing is skipped without a word.
#[test]
fn a3_a4_what_kubectl_takes_runs_in_the_demo_or_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo()
        .args(["--timeout", "30", "-f"])
        .arg(manifest(folder.path(), ALL_SORTS))
        .output()
        .unwrap();
    let text = text(&output);
    for said in [
        "created once, now, from cronjob/nightly",
        "job/reports/nightly-1",
        "it is left alone: spec.managedBy names another controller, kueue.x-k8s.io/multikueue",
        "Role reader is left out",
        "No container is marked as a sidecar",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    for pod in ["train-0-", "train-1-", "nightly-1-"] {
        let row = text.lines().rfind(|line| line.contains(pod)).unwrap();
        assert!(
            row.contains("Complete") && row.contains("Succeeded"),
            "{text}"
        );
    }
    assert!(!text.contains("giving up"), "{text}");
}

const FAILING_MAIN: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: failing-main}
spec:
  backoffLimit: 1
  template:
    spec:
      restartPolicy: OnFailure
      terminationGracePeriodSeconds: 3
      containers:
      - {name: main, image: registry.example/work:v1, args: [run=1s, exit=3]}
      - {name: proxy, image: registry.example/work:v1, env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: "true"}]}
"#;

/// What users have reported elsewhere (`tests/cases`): a sidecar crashes before the work is done, with
/// its exit code ignored or not, or no swap fits; and a main that fails.
#[test]
fn a_crash_fails_a_job_only_where_its_exit_code_counts_and_is_told_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let mut demo = demo();
    demo.args(["--timeout", "120", "-f"])
        .arg(manifest(folder.path(), FAILING_MAIN));
    for case in [
        "ignored-exit-code-of-a-crash",
        "crashed-sidecar-under-never",
        "advice-in-phase-written",
    ] {
        demo.arg("-f").arg(cases.join(format!("{case}.yaml")));
    }
    let output = demo.output().unwrap();
    let text = text(&output);
    for (pod, ends) in [
        ("ignored-crash-", "Complete"),
        ("crashed-sidecar-", "Failed"),
        ("small-limit-", "Complete"),
        ("failing-main-", "Failed"),
    ] {
        let row = text.lines().rfind(|line| line.contains(pod)).unwrap();
        assert!(row.contains(ends), "{pod}: {text}");
    }
    let why = text.split_once("metrics ended by itself (exit code 1, ");
    let before = why.and_then(|(_, rest)| rest.split_once(" s before the main containers)"));
    let seconds = before.and_then(|(seconds, _)| seconds.parse::<u32>().ok());
    // The node reports whole seconds: a gap of six may be read as five or as seven.
    assert!(
        seconds.is_some_and(|seconds| (5..=7).contains(&seconds)),
        "{text}"
    );
    for wrong in ["PodFailedAfterSwap", "end the sidecars yourself"] {
        assert!(!text.contains(wrong), "{wrong}: {text}");
    }
    let mut restarted = text.lines().filter(|line| line.contains("failing-main-"));
    assert!(
        restarted.all(|line| !line.contains("exit image")),
        "nothing was swapped: {text}"
    );
}

/// The scheduler has said why.
#[test]
fn a3_who_gives_up_says_what_pods_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let windows = JOB.replace(
        "restartPolicy: Never",
        "restartPolicy: Never\n      nodeSelector: {kubernetes.io/os: windows}",
    );
    let output = demo()
        .args(["--timeout", "2", "-f"])
        .arg(manifest(folder.path(), &windows))
        .output()
        .unwrap();
    let text = text(&output);
    let why =
        "is Pending: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector";
    assert!(text.contains(why), "{text}");
}

/// In words, once, without the insides of the client.
#[test]
fn a4_a_refusal_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = JOB.replace("restartPolicy: Never", "restartPolicy: Always");
    let output = demo()
        .arg("-f")
        .arg(manifest(folder.path(), &wrong))
        .output()
        .unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("error: Job mine: "), "{text}");
    assert_eq!(text.matches("is invalid").count(), 1, "{text}");
    assert!(
        !text.contains("Status {") && !text.contains("ApiError"),
        "{text}"
    );
}

/// Nobody knows what these nodes do with a swap, and a pod under Never does not find out.
#[test]
fn a_job_completes_on_virtual_nodes_that_would_lose_it() {
    for profile in ["inert", "rejects"] {
        let folder = tempfile::tempdir().unwrap();
        let output = demo()
            .args(["--profile", profile, "-f"])
            .arg(manifest(folder.path(), JOB))
            .output()
            .unwrap();
        let text = text(&output);
        assert!(output.status.success(), "{text}");
        assert!(
            text.contains("PhaseWritten") && !text.contains("  swaps "),
            "{text}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let output = demo().args(["-f", "/no/such/file.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("/no/such/file.yaml"),
        "{}",
        text(&output)
    );
    let output = demo().args(["--serve", "192.0.2.1:80"]).output().unwrap();
    assert!(text(&output).contains("loopback"), "{}", text(&output));
}

/// Jobs for virtual nodes: the demo has one node, whatever it is called.
#[test]
fn b7_a_job_that_is_made_for_a_virtual_node_runs() {
    let folder = tempfile::tempdir().unwrap();
    let directed = JOB.replace(
        "      restartPolicy: Never\n",
        "      restartPolicy: Never\n      nodeSelector: {type: virtual-kubelet}\n      tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]\n",
    );
    let output = demo()
        .arg("-f")
        .arg(manifest(folder.path(), &directed))
        .output()
        .unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("Job mine: nodeSelector is left out, because the demo has one node"),
        "{text}"
    );
}

#[test]
fn b8_a_job_without_a_marked_sidecar_is_told_at_once_why_it_will_not_end() {
    let folder = tempfile::tempdir().unwrap();
    let unmarked = JOB
        .replace(
            "          env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: 'true'}]\n",
            "",
        )
        .replace("name: log", "name: fluent-bit")
        .replace("registry.example/log:v1", "fluent/fluent-bit:3");
    let output = demo()
        .args(["--timeout", "6", "-f"])
        .arg(manifest(folder.path(), &unmarked))
        .output()
        .unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let told = text.find("Job mine: nothing marks a container as a sidecar (fluent-bit looks like Fluent Bit): set env");
    assert!(told.unwrap() < text.find("giving up").unwrap(), "{text}");
    // Without a limit it is not waited for either.
    let output = demo()
        .arg("-f")
        .arg(manifest(folder.path(), &unmarked))
        .output()
        .unwrap();
    let silent = String::from_utf8_lossy(&output.stdout);
    assert!(
        silent.contains("not all ended in 20 s; giving up"),
        "{silent}"
    );
    // One beside a sidecar that is marked.
    let both = JOB.replace(
        "        - name: log\n",
        "        - {name: fluent-bit, image: 'fluent/fluent-bit:3'}\n        - name: log\n",
    );
    assert_ne!(both, JOB);
    let output = demo()
        .args(["--timeout", "6", "-f"])
        .arg(manifest(folder.path(), &both))
        .output()
        .unwrap();
    let text = self::text(&output);
    assert!(
        text.contains(
            "Job mine: nothing marks fluent-bit as a sidecar (fluent-bit looks like Fluent Bit)"
        ),
        "{text}"
    );
}

/// An overlay is run as kustomize makes it; a patch alone is no object.
#[test]
fn what_kustomize_makes_objects_of_is_named_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let part = JOB.replace("image: registry.example/log:v1", "args: [a]");
    for (name, text) in [
        (
            "kustomization.yaml",
            "resources: [job.yaml]\npatches: [{path: list.yaml}, {path: add.yaml}]\n",
        ),
        ("list.yaml", "- {op: add, path: /x}\n"),
        ("add.yaml", JOB),
        ("part.yaml", &part),
        ("bare.yaml", "metadata: {name: a}\n"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let run = |names: &[&str]| {
        let mut command = demo();
        for name in names {
            command.arg("-f").arg(folder.path().join(name));
        }
        let output = command.output().unwrap();
        (output.status.code(), text(&output))
    };
    let path = folder.path().display();
    for (name, words) in [
        (
            "part.yaml",
            "part.yaml: container log has no image: is it a patch?".to_owned(),
        ),
        (
            "bare.yaml",
            "bare.yaml: an object has no apiVersion or kind".to_owned(),
        ),
        (
            "add.yaml",
            format!("add.yaml: `kubectl kustomize {path} | swaplet-demo demo -f -`"),
        ),
    ] {
        let (code, text) = run(&[name]);
        assert!(code == Some(2) && text.contains(&words), "{name}: {text}");
    }
    manifest(folder.path(), JOB);
    let (code, text) = run(&["kustomization.yaml", "list.yaml", "add.yaml", "job.yaml"]);
    assert!(
        code == Some(0) && text.matches("left out: ").count() == 3,
        "{text}"
    );
}

/// Its grace period is the default: the longest wait of the demo is longer.
#[test]
fn one_job_ends_on_a_node_that_ignores_image_changes() {
    let folder = tempfile::tempdir().unwrap();
    let job = JOB
        .replace(
            "restartPolicy: Never",
            "restartPolicy: OnFailure\n      nodeName: virtual-node-aci-linux",
        )
        .replace("      terminationGracePeriodSeconds: 1\n", "");
    let output = demo()
        .args(["--profile", "inert", "-f"])
        .arg(manifest(folder.path(), &job))
        .output()
        .unwrap();
    let text = text(&output);
    assert!(
        output.status.success()
            && text.contains("Job mine: nodeName is left out, because the demo has one node")
            && text.contains("PhaseWritten"),
        "{text}"
    );
}

#[test]
fn u62_jobs_of_one_name_in_two_namespaces_are_two() {
    let folder = tempfile::tempdir().unwrap();
    let other = JOB.replace("name: mine", "name: mine, namespace: team");
    let file = manifest(folder.path(), &format!("{JOB}\n---\n{other}"));
    let output = demo().arg("-f").arg(file).output().unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for job in ["mine ", "team/mine "] {
        let is_row = |line: &&str| line.starts_with(job) && line.contains("Complete");
        assert_eq!(text.lines().filter(is_row).count(), 1, "{job}: {text}");
    }
    assert_eq!(text.matches("SidecarEnded").count(), 2, "{text}");
}
