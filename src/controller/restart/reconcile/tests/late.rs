//! What comes late, or not at all: answers behind what followed their writes, and the ends of
//! requests that are deleted halfway.

mod room;

use swaplet_core::objects::job::Job;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::request::RestartRequestWire;

use super::*;
use crate::restart::write::Stored;

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const ALIAS: &str = "r.example/side:1-restart-2@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn at(seconds: u64) -> Now {
    let since_start = Duration::from_secs(seconds);
    Now {
        moment: Moment::after_start(since_start),
        today: "2026-01-01T00:00:00Z"
            .parse::<jiff::Timestamp>()
            .unwrap()
            .checked_add(since_start)
            .unwrap(),
    }
}

/// A pod of a Job, with a sidecar.
fn pod_of_job(name: &str, version: &str) -> Value {
    let status = |name: &str| {
        json!({"name": name, "image": format!("r.example/{name}:1"), "imageID": format!("r.example/{name}@{DIGEST}"), "ready": true,
            "containerID": format!("containerd://{name}-0"), "restartCount": 0, "state": {"running": {"startedAt": "2025-12-31T00:00:00Z"}}})
    };
    json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"), "resourceVersion": version, "generation": 1,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "ju", "controller": true}]},
        "spec": {"restartPolicy": "OnFailure", "nodeName": "n", "nodeSelector": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}, "containers": [
            {"name": "app", "image": "r.example/app:1", "imagePullPolicy": "IfNotPresent"},
            {"name": "side", "image": "r.example/side:1", "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh"],
                "env": [{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]}]},
        "status": {"phase": "Running", "observedGeneration": 1, "containerStatuses": [status("app"), status("side")]},
    })
}

/// The same when its image is changed.
fn changed(mut pod: Value, version: &str) -> Value {
    pod["metadata"]["resourceVersion"] = json!(version);
    pod["metadata"]["generation"] = json!(2);
    pod["spec"]["containers"][1]["image"] = json!(ALIAS);
    pod
}

/// The same when its node has restarted the container.
fn restarted(pod: Value, version: &str) -> Value {
    let mut pod = changed(pod, version);
    pod["status"]["observedGeneration"] = json!(2);
    pod["status"]["containerStatuses"][1]["restartCount"] = json!(1);
    pod["status"]["containerStatuses"][1]["containerID"] = json!("containerd://side-1");
    pod["status"]["containerStatuses"][1]["state"] =
        json!({"running": {"startedAt": "2026-01-01T00:00:02Z"}});
    pod
}

/// A request whose change of the image of the pod `a` is written down.
fn begun() -> Value {
    let intent = json!({"from": "r.example/side:1", "to": ALIAS, "generation": 1});
    let mark = json!({"containerID": "containerd://side-0", "restartCount": 0, "startedAt": "2025-12-31T00:00:00Z", "intent": intent});
    let mut request = request("team", 0, "a");
    request["spec"]["containers"] = json!([{"name": "side"}]);
    request["metadata"]["annotations"] =
        json!({"swaplet.io/restart-journal": json!({"side": mark}).to_string()});
    request["metadata"]["labels"] =
        json!({"crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/pod-uid": "u-a"});
    request["status"] = json!({"phase": "Recreating"});
    request
}

fn stored_pod(pod: &Value) -> Stored {
    Stored::Pod(Box::new(
        serde_json::from_value::<RestartPodWire>(pod.clone())
            .unwrap()
            .read()
            .unwrap(),
    ))
}

fn stored_request(request: &Value) -> Stored {
    Stored::Request(Box::new(
        serde_json::from_value::<RestartRequestWire>(request.clone())
            .unwrap()
            .read()
            .unwrap(),
    ))
}

fn applies(index: &mut Index, pod: &Value, now: Now) {
    index.apply(
        serde_json::from_value::<PodWire>(pod.clone())
            .unwrap()
            .read()
            .unwrap(),
        now.moment,
    );
}

/// A request that is about to change the pod `a`: the write.
fn about_to_swap(index: &mut Index) -> (Restarts, RestartWrite) {
    let mut restarts = Restarts::new(None, false);
    hears(&mut restarts, begun());
    shows(&mut restarts, pod_of_job("a", "10"));
    let mut writes = turn(&mut restarts, index, at(1));
    assert!(
        matches!(
            writes[..],
            [RestartWrite {
                action: Action::Swap(_),
                ..
            }]
        ),
        "{writes:?}"
    );
    (restarts, writes.remove(0))
}

/// A Job that allows three restarts, with two pods.
fn index_with_job() -> Index {
    let mut index = index();
    let node: NodeWire =
        serde_json::from_value(json!({"metadata": {"name": "n", "uid": "1"}})).unwrap();
    index.nodes.observe(Event::Applied(node));
    let job = |ledger: &mut swaplet_core::cluster::headroom::Ledger| {
        ledger.job_list_starts();
        ledger.job(&Job {
            uid: "ju".into(),
            namespace: Box::default(),
            backoff_limit: 3,
            failures_borne: 6,
        });
        ledger.job_list_ends();
    };
    index.jobs(job, Moment::START);
    index.list_starts();
    applies(&mut index, &pod_of_job("a", "10"), at(0));
    applies(&mut index, &pod_of_job("b", "11"), at(0));
    index.list_ends(Moment::START);
    index
}

#[test]
fn bug8_an_answer_does_not_take_back_what_the_watch_has_shown_since() {
    let mut index = index_with_job();
    let (mut restarts, write) = about_to_swap(&mut index);
    shows(&mut restarts, restarted(pod_of_job("a", "10"), "12"));
    restarts.written(
        write,
        Ok(stored_pod(&changed(pod_of_job("a", "10"), "11"))),
        at(3).moment,
    );
    let writes = turn(&mut restarts, &mut index, at(4));
    let Action::Report(status) = &writes[0].action else {
        panic!("{writes:?}")
    };
    assert_eq!(
        status.states[0].phase,
        swaplet_core::restart::request::StatePhase::Succeeded
    );
}

#[test]
fn bug8_an_answer_counts_where_the_watch_has_shown_only_what_was_before() {
    let mut index = index_with_job();
    let (mut restarts, write) = about_to_swap(&mut index);
    let mut earlier = pod_of_job("a", "10");
    earlier["status"]["message"] = json!("x");
    shows(&mut restarts, earlier);
    restarts.written(
        write,
        Ok(stored_pod(&changed(pod_of_job("a", "10"), "11"))),
        at(3).moment,
    );
    let writes = turn(&mut restarts, &mut index, at(4));
    assert!(
        !writes
            .iter()
            .any(|write| matches!(write.action, Action::Swap(_))),
        "it was made: {writes:?}"
    );
}

/// A pod of the same name in a StatefulSet.
#[test]
fn bug8_an_answer_about_another_pod_of_the_same_name_is_not_taken() {
    let mut index = index_with_job();
    let (mut restarts, write) = about_to_swap(&mut index);
    let mut next = pod_of_job("a", "12");
    next["metadata"]["uid"] = json!("another");
    shows(&mut restarts, next);
    restarts.written(
        write,
        Ok(stored_pod(&changed(pod_of_job("a", "10"), "13"))),
        at(3).moment,
    );
    let writes = turn(&mut restarts, &mut index, at(4));
    assert!(
        matches!(&writes[0].action, Action::Report(status) if &*status.message == "pod has gone"),
        "{writes:?}"
    );
}

#[test]
fn bug8_the_version_of_a_request_does_not_go_back_with_an_answer() {
    let mut index = index_with_job();
    let mut restarts = Restarts::new(None, false);
    let mut object = request("team", 0, "a");
    hears(&mut restarts, object.clone());
    shows(&mut restarts, pod_of_job("a", "10"));
    let write = turn(&mut restarts, &mut index, at(1)).remove(0);
    assert!(matches!(write.action, Action::Accept(_)), "{write:?}");
    let taken_up = begun();
    (
        object["metadata"]["labels"],
        object["metadata"]["resourceVersion"],
    ) = (taken_up["metadata"]["labels"].clone(), json!("20"));
    let journal = r#"{"app": {"containerID": "containerd://app-0", "restartCount": 0, "startedAt": "2025-12-31T00:00:00Z"}}"#;
    object["metadata"]["annotations"] = json!({"swaplet.io/restart-journal": journal});
    let answer = object.clone();
    object["metadata"]["resourceVersion"] = json!("21");
    object["metadata"]["labels"]["by"] = json!("somebody");
    hears(&mut restarts, object);
    restarts.written(write, Ok(stored_request(&answer)), at(2).moment);
    let writes = turn(&mut restarts, &mut index, at(3));
    assert_eq!(
        writes
            .iter()
            .map(|write| &*write.request.version)
            .collect::<Vec<_>>(),
        ["21"]
    );
}
