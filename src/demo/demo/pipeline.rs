//! The Jobs of the demo: a nightly pipeline with a log collector or proxy in each pod that would
//! run forever.
//!
//! The words in `args` set how a container behaves on the virtual node; a real container would have
//! a program there.

use serde_json::{Value, json};
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

/// The label of pods that get the mesh's proxy.
const INJECT: &str = "mesh.example/inject";
/// The label of pods that get the proxy of another mesh, which nobody has marked.
const INJECT_UNMARKED: &str = "sidecar.istio.io/inject";

/// Returns the Jobs.
pub fn jobs() -> Vec<Value> {
    let mut load = job("load", "OnFailure", vec![main("run=2s")]);
    load["spec"]["template"]["metadata"] = json!({"labels": {INJECT: "true"}});
    vec![
        job(
            "extract",
            "Never",
            vec![main("run=1s"), sidecar("log-collector", "term=143")],
        ),
        job(
            "transform",
            "OnFailure",
            vec![main("run=1500ms"), sidecar("stubborn-agent", "term=ignore")],
        ),
        load,
    ]
}

/// Adds the proxy of a mesh to pods that request it, like a mutating webhook, so that no Job names
/// it.
pub fn inject_proxy(resource: &str, object: &mut Value) {
    if resource != "pods" {
        return;
    }
    for (label, container) in [(INJECT, proxy()), (INJECT_UNMARKED, unmarked_proxy())] {
        let is_asked_for = object["metadata"]["labels"][label] == "true";
        let containers = object["spec"]["containers"].as_array_mut();
        if let Some(containers) = containers.filter(|_| is_asked_for) {
            containers.insert(0, container);
        }
    }
}

fn main(behaviour: &str) -> Value {
    json!({"name": "main", "image": "registry.example/pipeline:v7", "args": [behaviour, "exit=0"]})
}

/// Returns a sidecar that runs until it is stopped.
fn sidecar(name: &str, behaviour: &str) -> Value {
    json!({
        "name": name, "image": format!("registry.example/{name}:v1"), "args": [behaviour],
        "env": [{"name": WHEN_JOB_EXIT, "value": "true"}],
    })
}

/// Returns a sidecar with a command of its own, which the exit image must have.
fn proxy() -> Value {
    json!({
        "name": "mesh-proxy", "image": "registry.example/mesh/proxy:1.22",
        "command": ["/usr/local/bin/envoy"], "args": ["term=0", "term-after=500ms"],
        "env": [{"name": "PROXY_CONFIG", "value": "{}"}, {"name": WHEN_JOB_EXIT, "value": "TRUE"}],
    })
}

fn unmarked_proxy() -> Value {
    json!({"name": "istio-proxy", "image": "registry.example/istio/proxyv2:1.24", "args": ["term=0"]})
}

fn job(name: &str, restart_policy: &str, containers: Vec<Value>) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": restart_policy, "terminationGracePeriodSeconds": 3, "containers": containers}}},
    })
}
