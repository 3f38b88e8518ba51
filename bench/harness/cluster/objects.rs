//! The objects of a run: pods of Jobs as Jobs make them, with two containers, and what their nodes
//! show of them. `managedFields` and the projected token are the API server's own.

use serde_json::{Value, json};

use super::api::{JSON_PATCH, Request, STRATEGIC};

/// The image that sidecars are swapped to.
pub const EXIT: &str = "registry.example/swaplet/exit:v1";
/// The image that sidecars have.
pub const SIDECAR: &str = "registry.example/logging/collector:3.1.4";
const MAIN: &str = "registry.example/reports/nightly:2026.11";
const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// Namespaces that the pods are in.
pub const NAMESPACES: usize = 8;
/// Nodes that the pods are bound to.
pub const NODES: usize = 20;
/// Pods of one Job.
pub const PODS_OF_JOB: usize = 50;
/// The label that the pods have which are to end, and no others.
pub const SELECTOR: &str = "app.kubernetes.io%2Fpart-of%3Dreports";
const STARTED: &str = "2026-11-25T08:00:00Z";
const ENDED: &str = "2026-11-25T09:00:00Z";

/// Which pod of which set: `burst-000017`.
pub fn name(set: &str, number: usize) -> String {
    format!("{set}-{number:06}")
}

/// The number in a name.
pub fn number(name: &str) -> Option<usize> {
    name.rsplit_once('-')?.1.parse().ok()
}

/// The namespace of the pod with this number.
pub fn namespace(number: usize) -> String {
    format!("bench-{}", number % NAMESPACES)
}

/// The path of a pod.
pub fn path(set: &str, number: usize) -> String {
    format!(
        "/api/v1/namespaces/{}/pods/{}",
        namespace(number),
        name(set, number)
    )
}

/// The Job of which the pod with this number is one.
pub fn job_of(set: &str, number: usize) -> String {
    format!("{set}-{}", number / NAMESPACES / PODS_OF_JOB)
}

/// A node whose provider replaces containers: the class that OpenKruise and swaplet both swap on.
pub fn node(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("virtual-{number}"),
        "labels": {"type": "virtual-kubelet", "kubernetes.io/os": "linux", "swaplet.io/node-class": "VirtualUpdates"}}})
}

/// A limit of restarts that keeps nobody waiting.
pub const NO_LIMIT: u32 = 1_000_000;

/// A Job, with its `backoffLimit`.
pub fn job(name: &str, limit: u32) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"parallelism": PODS_OF_JOB, "completions": PODS_OF_JOB, "backoffLimit": limit,
            "template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main", "image": MAIN}]}}}})
}

/// A pod of a Job, as its controller makes it.
pub fn pod(set: &str, number: usize, job_uid: &str) -> Value {
    let job = job_of(set, number);
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job_uid, "controller": true, "blockOwnerDeletion": true});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name(set, number), "ownerReferences": [owner], "finalizers": ["batch.kubernetes.io/job-tracking"],
            "annotations": {"example.com/owner": "data-platform", "prometheus.io/scrape": "true"},
            "labels": {"app.kubernetes.io/name": "nightly-report", "app.kubernetes.io/part-of": "reports",
                "batch.kubernetes.io/job-name": job, "batch.kubernetes.io/controller-uid": job_uid}},
        "spec": spec(number)})
}

fn spec(number: usize) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let value = |name: &str, value: &str| json!({"name": name, "value": value});
    let resources =
        json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}});
    // In a burst nodes answer after the last swap; a shorter grace period would say on a slow machine
    // that they ignore images.
    json!({"nodeName": format!("virtual-{}", number % NODES), "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 3600, "enableServiceLinks": true,
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {"name": "main", "image": MAIN, "command": ["/usr/bin/report"], "args": ["--date", "2026-11-25"], "resources": resources,
                "env": [value("STAGE", "production"), value("REGION", "eu-central-1"), value("INPUT", "s3://reports/input"),
                    value("OUTPUT", "s3://reports/output"), field("POD_NAME", "metadata.name")],
                "volumeMounts": [{"name": "logs", "mountPath": "/var/log/app"}]},
            {"name": "log-collector", "image": SIDECAR, "command": ["/bin/sh", "-c"], "args": ["exec collector"], "resources": resources,
                "env": [value("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "true"),
                    value("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE", EXIT),
                    value("OUTPUT_HOST", "logs.example.com"), field("NODE_NAME", "spec.nodeName")],
                "volumeMounts": [{"name": "logs", "mountPath": "/logs", "readOnly": true}, {"name": "config", "mountPath": "/etc/collector"}]}],
        "volumes": [{"name": "logs", "emptyDir": {}}, {"name": "config", "configMap": {"name": "collector", "optional": true}}]})
}

/// A pod that has nothing to do with sidecars, of a Deployment or of a Job.
pub fn stranger(number: usize) -> Value {
    let policy = if number.is_multiple_of(2) {
        "Always"
    } else {
        "Never"
    };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name("noise", number), "labels": {"app.kubernetes.io/name": "web"}},
        "spec": {"nodeName": format!("virtual-{}", number % NODES), "restartPolicy": policy, "containers": [{"name": "main", "image": MAIN}]}})
}

/// What the node shows of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Both containers run.
    Running,
    /// The main container has ended.
    MainDone,
    /// The sidecar as well, in the exit image.
    Over,
}

fn state(running: bool) -> Value {
    if running {
        json!({"running": {"startedAt": STARTED}})
    } else {
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": STARTED, "finishedAt": ENDED,
            "containerID": format!("containerd://{}", "0".repeat(64))}})
    }
}

fn container(name: &str, image: &str, running: bool, restarts: u32) -> Value {
    let repository = image
        .rsplit_once(':')
        .map_or(image, |(repository, _)| repository);
    json!({"name": name, "image": image, "imageID": format!("{repository}@{DIGEST}"), "containerID": format!("containerd://{}", "0".repeat(64)),
        "ready": running, "started": running, "restartCount": restarts, "state": state(running)})
}

fn condition(kind: &str, status: bool) -> Value {
    json!({"type": kind, "status": if status { "True" } else { "False" }, "lastTransitionTime": STARTED})
}

/// The write by which a node shows it.
pub fn shows(set: &str, number: usize, shown: Shown) -> Request {
    let main = container("main", MAIN, shown == Shown::Running, 0);
    let side = match shown {
        Shown::Over => container("log-collector", EXIT, false, 1),
        _ => container("log-collector", SIDECAR, true, 0),
    };
    let phase = if shown == Shown::Over {
        "Succeeded"
    } else {
        "Running"
    };
    let ready = shown == Shown::Running;
    let address = format!(
        "10.{}.{}.{}",
        number / 65_536,
        number / 256 % 256,
        number % 256
    );
    let status = json!({"status": {"phase": phase, "hostIP": "192.0.2.1", "podIP": address, "podIPs": [{"ip": address}], "startTime": STARTED,
        "conditions": [condition("Initialized", true), condition("PodScheduled", true), condition("Ready", ready), condition("ContainersReady", ready)],
        "containerStatuses": [side, main]}});
    Request::patch(
        number,
        format!("{}/status", path(set, number)),
        STRATEGIC,
        &status,
    )
}

/// A write to a pod that has nothing to do with sidecars; `turn` makes it differ from the last one.
pub fn stirs(number: usize, turn: usize) -> Request {
    let condition = json!({"type": "example.com/turn", "status": if turn.is_multiple_of(2) { "True" } else { "False" }, "message": turn.to_string()});
    let status = json!({"status": {"phase": "Running", "conditions": [condition]}});
    Request::patch(
        number,
        format!("{}/status", path("noise", number)),
        STRATEGIC,
        &status,
    )
}

/// The patch that a controller would send: guarded by the uid, the name of the container and the
/// image that it replaces.
pub fn swap(set: &str, number: usize, uid: &str, from: &str, to: &str) -> Request {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/containers/1/name", "value": "log-collector"},
        {"op": "test", "path": "/spec/containers/1/image", "value": from},
        {"op": "replace", "path": "/spec/containers/1/image", "value": to}]);
    Request::patch(number, path(set, number), JSON_PATCH, &patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_number_and_the_pods_of_a_job_share_a_namespace() {
        assert_eq!(number(&name("steady-100", 1700)), Some(1700));
        let of_first: Vec<_> = (0..2 * NAMESPACES * PODS_OF_JOB)
            .filter(|nth| job_of("burst", *nth) == "burst-0" && namespace(*nth) == "bench-3")
            .collect();
        assert_eq!(of_first.len(), PODS_OF_JOB);
    }

    #[test]
    fn a_node_shows_the_sidecar_in_the_exit_image_only_when_the_pod_is_over() {
        let text = |shown| String::from_utf8(shows("burst", 1, shown).body).unwrap();
        assert!(text(Shown::Over).contains(EXIT) && text(Shown::Over).contains("Succeeded"));
        assert!(
            !text(Shown::MainDone).contains(EXIT) && text(Shown::MainDone).contains("terminated")
        );
        assert!(!text(Shown::Running).contains("terminated"));
    }
}
