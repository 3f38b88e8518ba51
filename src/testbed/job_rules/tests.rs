//! The arithmetic of the rules, without any server.

use super::*;
use serde_json::{Value, json};

fn job(policy: &str, spec: Value) -> Job {
    let mut spec = spec;
    spec["template"] = json!({"spec": {"restartPolicy": policy, "containers": []}});
    serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec})).unwrap()
}

fn pod(name: &str, phase: &str, restarts: i32) -> Pod {
    let status = json!([{"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": restarts}]);
    serde_json::from_value(
        json!({"metadata": {"name": name, "uid": name, "finalizers": [FINALIZER], "creationTimestamp": "1970-01-01T00:00:00Z"},
        "status": {"phase": phase, "containerStatuses": status, "initContainerStatuses": status}}),
    )
    .unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The type of the condition that a job in this state gets, if any.
fn verdict(job: &Job, pods: &[Pod]) -> Option<String> {
    let status = decide(job, pods, &Backoff::default(), at(0)).status?;
    status
        .conditions
        .into_iter()
        .flatten()
        .next()
        .map(|condition| condition.type_)
}

#[test]
fn restarts_count_over_all_containers_of_all_living_pods() {
    let limit = |limit: i32| {
        job(
            "OnFailure",
            json!({"backoffLimit": limit, "completions": 3, "parallelism": 3}),
        )
    };
    // One restart of the init container and one of the main in each pod: four.
    let pods = [
        pod("a", "Running", 1),
        pod("b", "Pending", 1),
        pod("c", "Succeeded", 9),
    ];
    assert_eq!(verdict(&limit(4), &pods).as_deref(), Some("FailureTarget"));
    assert_eq!(verdict(&limit(5), &pods), None);
    assert_eq!(verdict(&limit(0), &[pod("a", "Running", 0)]), None);
    assert_eq!(verdict(&limit(0), &pods).as_deref(), Some("FailureTarget"));
    assert_eq!(
        verdict(
            &job("Never", json!({"backoffLimit": 1})),
            &[pod("a", "Running", 9)]
        ),
        None
    );
}

#[test]
fn failed_pods_count_beyond_the_limit() {
    let job = |limit: i32| job("Never", json!({"backoffLimit": limit}));
    let pods = [pod("a", "Failed", 0), pod("b", "Failed", 0)];
    assert_eq!(verdict(&job(2), &pods), None);
    assert_eq!(verdict(&job(1), &pods).as_deref(), Some("FailureTarget"));
}

#[test]
fn a_pod_is_noted_then_released_then_counted() {
    let mut job = job("Never", json!({"completions": 2, "parallelism": 1}));
    let mut pods = [pod("a", "Succeeded", 0)];
    let first = decide(&job, &pods, &Backoff::default(), at(0));
    let noted = first.status.clone().unwrap();
    assert_eq!(
        (first.create, first.release.len(), noted.succeeded),
        (1, 0, None)
    );
    assert_eq!(
        noted
            .uncounted_terminated_pods
            .clone()
            .unwrap()
            .succeeded
            .unwrap(),
        ["a"]
    );
    job.status = Some(noted);
    assert_eq!(
        decide(&job, &pods, &Backoff::default(), at(0)).release,
        ["a"]
    );
    pods[0].metadata.finalizers = None;
    let counted = decide(&job, &pods, &Backoff::default(), at(0))
        .status
        .unwrap();
    assert_eq!(
        (
            counted.succeeded,
            counted.uncounted_terminated_pods.unwrap().succeeded
        ),
        (Some(1), None)
    );
}

#[test]
fn waits_double_with_each_failure() {
    let job = job("Never", json!({"backoffLimit": 6}));
    let waits = [1, 2, 3, 8].map(|failures| {
        decide(
            &job,
            &[],
            &Backoff {
                failures,
                last: Some(at(0)),
            },
            at(0),
        )
        .wake
        .unwrap()
        .as_secs()
    });
    assert_eq!(waits, [10, 20, 40, 600]);
    let late = decide(
        &job,
        &[],
        &Backoff {
            failures: 1,
            last: Some(at(0)),
        },
        at(10),
    );
    assert_eq!((late.create, late.wake), (1, None));
}

#[test]
fn a_suspended_job_forgets_its_pods() {
    let plan = decide(
        &job("Never", json!({"suspend": true})),
        &[pod("a", "Running", 0)],
        &Backoff::default(),
        at(0),
    );
    assert_eq!((plan.forget, plan.create), (vec!["a".to_owned()], 0));
    assert_eq!(plan.status.unwrap().start_time, None);
}
