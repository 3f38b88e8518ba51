use serde_json::{Value, json};

use super::*;

fn read(kind: JobKind, spec: &Value) -> PullJob {
    let metadata = json!({"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2});
    let status = json!({"startTime": "2026-01-01T00:00:00Z", "observedGeneration": 2, "completionTime": "2026-01-01T00:01:00Z"});
    let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind.as_str(), "metadata": metadata, "spec": spec, "status": status});
    PullJob::read(kind, serde_json::from_value(job).unwrap()).unwrap()
}

fn spec(spec: &Value) -> Result<PullSpec, String> {
    read(JobKind::ImagePullJob, spec).spec
}

#[test]
fn what_is_not_said_is_as_openkruise_has_it() {
    let job = read(
        JobKind::ImagePullJob,
        &json!({"image": "app:1", "completionPolicy": {}}),
    );
    let spec = job.spec.clone().unwrap();
    assert_eq!(
        (spec.timeout_seconds, spec.backoff_limit, spec.parallelism),
        (600, 3, Amount::Count(1))
    );
    assert_eq!(
        spec.completion,
        Completion::Always {
            deadline_seconds: None,
        }
    );
    assert_eq!(
        (spec.targets, spec.pods),
        (Targets::Labels(Selector::default()), PodWishes::default())
    );
    assert!(
        job.is_completed()
            && !PullJob {
                generation: 3,
                ..job
            }
            .is_completed()
    );
}

/// As in a cluster whose CRD allows more, or after an upgrade.
#[test]
fn u111_a_job_that_cannot_be_used_is_deleted_in_its_time_too() {
    let job = read(
        JobKind::ImagePullJob,
        &json!({"image": "", "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 60}}),
    );
    assert!(job.spec.is_err());
    let completed = job.completed_at.unwrap();
    let left = |seconds| {
        crate::warm::pull_job::time_to_live(
            &job,
            completed + jiff::SignedDuration::from_secs(seconds),
        )
    };
    assert_eq!(left(1), Some(Duration::from_secs(59)));
    assert_eq!(left(61), Some(Duration::ZERO));
}

#[test]
fn every_field_that_counts_is_read() {
    let job = read(
        JobKind::ImageListPullJob,
        &json!({
            "images": ["app:1", "docker.io/library/app:1", "log"], "pullSecrets": ["login"], "selector": {"names": ["a", "b"]},
            "parallelism": "25%", "pullPolicy": {"timeoutSeconds": 9, "backoffLimit": 0}, "imagePullPolicy": "Always",
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 5},
            "sandboxConfig": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        }),
    );
    assert_eq!(job.ttl_seconds, Some(5));
    let spec = job.spec.unwrap();
    assert_eq!(spec.images, ["app:1".into(), "log".into()]);
    assert_eq!(
        spec.targets,
        Targets::Names(["a".into(), "b".into()].into())
    );
    assert_eq!(
        (spec.parallelism, spec.timeout_seconds, spec.backoff_limit),
        (Amount::Percent(25), 9, 0)
    );
    assert_eq!(
        spec.completion,
        Completion::Always {
            deadline_seconds: Some(60),
        }
    );
    assert!(
        spec.pods.always_pulls && spec.pods.labels["a"] == "b" && spec.pods.annotations["c"] == "d"
    );
    assert_eq!(spec.pods.pull_secrets, ["login".into()]);
}

#[test]
fn a_selector_that_cannot_be_read_never_means_all_nodes() {
    for (bad, problem) in [
        (json!({"image": "a", "selector": 3}), "invalid type"),
        (
            json!({"image": "a", "selector": {"matchLabels": {"a": 1}}}),
            "invalid type",
        ),
        (
            json!({"image": "a", "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            "invalid selector",
        ),
        // What the API server refuses by 400 at each try.
        (
            json!({"image": "a", "podSelector": {"matchLabels": {"a b!!": "x"}}}),
            "\"a b!!\" is not a label key",
        ),
        (
            json!({"image": "a", "podSelector": {"matchLabels": {"a": "a,b) "}}}),
            "\"a,b) \" is not a label value",
        ),
        (
            json!({"image": "a", "selector": {"matchExpressions": [{"key": "a=b", "operator": "Exists"}]}}),
            "is not a label key",
        ),
        (
            json!({"image": "a", "podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c d"]}]}}),
            "is not a label value",
        ),
        (
            json!({"image": "a", "selector": {}, "podSelector": {}}),
            "can not set both selector and podSelector",
        ),
        (
            json!({"image": "a", "selector": {"names": ["n"], "matchLabels": {"a": "b"}}}),
            "can not set both names and labelSelector",
        ),
        (json!({"image": "A b"}), "invalid image A b"),
        (json!({}), "image can not be empty"),
        (
            json!({"image": "a", "parallelism": -1}),
            "parallelism must be",
        ),
        (
            json!({"image": "a", "parallelism": "many"}),
            "parallelism must be",
        ),
        (
            json!({"image": "a", "completionPolicy": {"type": "Sometimes"}}),
            "unknown type of completionPolicy: Sometimes",
        ),
    ] {
        let error = spec(&bad).unwrap_err();
        assert!(error.contains(problem), "{bad}: {error}");
    }
}

#[test]
fn a_pod_selector_that_no_url_has_room_for_is_refused_by_name() {
    let values = |count: usize| -> Vec<_> { (0..count).map(|n| format!("{n:063}")).collect() };
    let of = |field: &str, count| {
        let expression = json!({"key": "a", "operator": "In", "values": values(count)});
        let expressions = vec![expression; 5];
        spec(&json!({"image": "a", field: {"matchExpressions": expressions}}))
    };
    assert!(of("podSelector", 12).is_ok());
    let error = of("podSelector", 256).unwrap_err();
    assert_eq!(
        error,
        "invalid podSelector: it has 81954 bytes: write at most 4096"
    );
    // Nodes are selected without a list.
    assert!(of("selector", 256).is_ok());
}

/// Each of them is compared with every node, in the loop of all jobs.
#[test]
fn a9_a_selector_has_so_many_labels_and_expressions() {
    let of = |field: &str, count: usize| {
        let exists = |n: usize| json!({"key": format!("k{n}"), "operator": "Exists"});
        let expressions: Vec<_> = (1..count).map(exists).collect();
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": expressions});
        spec(&json!({"image": "a", field: selector}))
    };
    for field in ["selector", "podSelector"] {
        assert!(of(field, 128).is_ok());
        let error = of(field, 129).unwrap_err();
        assert_eq!(
            error,
            format!("invalid {field}: it has 129 labels and expressions: write at most 128")
        );
    }
}

#[test]
fn a_job_whose_tags_were_to_be_pinned_is_refused_with_the_fix() {
    let with = |value: &str| {
        let metadata = json!({"name": "j", "namespace": "ns", "uid": "u", "annotations": {"swaplet.io/pin-tags": value}});
        let job = json!({"metadata": metadata, "spec": {"image": "app:1"}});
        let job = PullJob::read(JobKind::ImagePullJob, serde_json::from_value(job).unwrap());
        job.unwrap().spec
    };
    let why = with("true").unwrap_err();
    assert!(
        why.contains("remove the annotation swaplet.io/pin-tags") && why.contains("@sha256:"),
        "{why}"
    );
    assert!(with("false").is_ok());
}
