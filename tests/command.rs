//! What would be executed in the exit image: the hazards one by one, real sidecars, and what holds
//! for every container.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a step of a test that fails is a panic"
)]

mod hazards;
mod mounts;
mod properties;
mod sidecars;

use serde_json::{Value, json};
use swaplet_core::objects::command::{
    ContainerFacts, Executes, Note, StandardPaths, Verdict, resolve,
};
use swaplet_core::objects::pod::template::pod_spec;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

/// The facts of a container, read as from a manifest, in a pod with these other fields.
fn facts(container: &Value, pod: &Value) -> ContainerFacts {
    let mut spec = json!({"restartPolicy": "Never"});
    for (key, value) in pod.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let mut container = container.clone();
    container["name"] = "side".into();
    if container.get("env").is_none_or(Value::is_array) {
        let mut env = container["env"].as_array().cloned().unwrap_or_default();
        env.push(json!({"name": WHEN_JOB_EXIT, "value": "true"}));
        container["env"] = env.into();
    }
    spec["containers"] = json!([container]);
    let read = pod_spec(&spec);
    let facts = ContainerFacts::of(&read, &read.containers[0]);
    if let Some(listed) = listed_facts(&spec) {
        assert_eq!(
            listed, facts,
            "read from a manifest and from a list, a container is the same"
        );
    }
    facts
}

/// The facts of the container, read as from a list of pods, if it is marked; `None` also for what no
/// API server stores.
fn listed_facts(spec: &Value) -> Option<ContainerFacts> {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec});
    let mut pod = serde_json::from_value::<PodWire>(pod).ok()?.read().unwrap();
    let container = pod.containers.pop().unwrap();
    assert_eq!(container.facts.is_some(), container.mark.is_sidecar());
    container.facts.map(|facts| *facts)
}

fn in_pod(container: &Value, pod: &Value) -> String {
    words(&resolve(&facts(container, pod), &StandardPaths))
}

fn verdict(container: &Value) -> String {
    in_pod(container, &json!({}))
}

fn command(command: &[&str]) -> String {
    verdict(&json!({"command": command}))
}

fn notes(container: &Value) -> Vec<Note> {
    facts(container, &json!({})).notes().iter().collect()
}

/// A verdict in the form of `sidecars.yaml`.
fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Runnable {
            executes: Executes::Program(path),
        } => format!("Runnable {path}"),
        Verdict::Runnable {
            executes: Executes::Script(path) | Executes::ReadScript { path, .. },
        } => format!("Script {path}"),
        Verdict::NeedsImage { paths, .. } => format!("NeedsImage {}", paths.join(",")),
        Verdict::NotSwappable { reason, .. } => format!("NotSwappable {reason}"),
    }
}
