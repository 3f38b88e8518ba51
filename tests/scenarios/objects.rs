//! Pods as JSON.

use serde_json::{Value, json};
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

/// The exit image of the tests.
pub const EXIT: &str = "registry.example/swaplet/exit:v1";
/// The park image of controllers that restart containers.
pub const PARK: &str = "registry.example/swaplet/park:v1";

/// Where exit images are derived.
pub const DERIVED: &str = "registry.example/swaplet/derived";
/// An exit image that administrators may list.
pub const LISTED: &str = "registry.example/other/exit:v2";

/// A pod of namespace `default` with a main container and a sidecar `side`.
pub fn pod(name: &str, restart_policy: &str) -> Value {
    pod_of(
        name,
        restart_policy,
        vec![main_container(), sidecar("side")],
    )
}

/// A pod with these containers.
pub fn pod_of(name: &str, restart_policy: &str, containers: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": "node-1", "restartPolicy": restart_policy, "containers": containers}})
}

pub fn main_container() -> Value {
    json!({"name": "main", "image": "main:1"})
}

/// A container with the plain mark and the image `<name>:1`.
pub fn sidecar(name: &str) -> Value {
    json!({"name": name, "image": format!("{name}:1"), "env": [{"name": WHEN_JOB_EXIT, "value": "true"}]})
}

/// A sidecar that executes this.
pub fn sidecar_that_calls(name: &str, command: &str) -> Value {
    let mut container = sidecar(name);
    container["command"] = json!([command]);
    container
}
