//! Pods and Jobs of the cases.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};

use crate::world::World;

pub const MARK: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";

// Nothing is started again and again while they wait: a dozen shells that did so would take a tenth
// of a core.

/// A log collector that stops at once on SIGTERM, with exit code 0.
pub const EXITS_0: &str = "trap 'exit 0' TERM; sleep 3600 & wait";
/// One that stops as a program without a handler does: by the signal.
pub const EXITS_143: &str = "trap 'exit 143' TERM; sleep 3600 & wait";
/// One that does not stop until it is killed.
pub const IGNORES_TERM: &str = "trap '' TERM; sleep 3600 & wait";
/// One that takes its time.
pub const STOPS_SLOWLY: &str = "trap 'sleep 4; exit 143' TERM; sleep 3600 & wait";

/// Far more than what stops at once takes on a busy node.
const GRACE: u32 = 30;

/// A container that runs a script. Most have no command, so that the exit image's own entrypoint
/// runs after the swap.
pub fn container(world: &World, name: &str, script: &str) -> Value {
    json!({"name": name, "image": world.images.work, "args": [script]})
}

/// The same, marked as a sidecar.
pub fn sidecar(world: &World, name: &str, script: &str) -> Value {
    let mut container = container(world, name, script);
    container["env"] = json!([{"name": MARK, "value": "true"}]);
    container
}

/// The main container of most cases: done after two seconds.
pub fn main_ok(world: &World) -> Value {
    container(world, "main", "sleep 2")
}

pub fn spec(restart_policy: &str, containers: Vec<Value>) -> Value {
    json!({
        "restartPolicy": restart_policy, "containers": containers, "terminationGracePeriodSeconds": GRACE,
        "automountServiceAccountToken": false, "enableServiceLinks": false,
    })
}

pub fn pod(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

pub fn job(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": spec}}})
}

/// What is said of a container of a pod.
pub fn status_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == name)
}

/// Whether the container that [`main_ok`] and its like make has ended.
pub fn main_has_ended(pod: &Pod) -> bool {
    let state = status_of(pod, "main").and_then(|status| status.state.as_ref());
    state.is_some_and(|state| state.terminated.is_some())
}

pub fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
