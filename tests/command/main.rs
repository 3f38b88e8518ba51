//! What would be executed in the exit image: the hazards one by one, real sidecars, and what holds for every container.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step of a test that fails is a panic")]

mod hazards;
mod mounts;
mod properties;
mod sidecars;

use serde_json::{Value, json};
use swaplet::decide::command::{ContainerFacts, Executes, Note, StandardPaths, Verdict, resolve};
use swaplet::objects::pod_template::pod_spec;

/// The facts of a container, read as from a manifest, in a pod with these other fields.
fn facts(container: &Value, pod: &Value) -> ContainerFacts {
    let mut spec = json!({"restartPolicy": "Never"});
    for (key, value) in pod.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let mut container = container.clone();
    container["name"] = "side".into();
    spec["containers"] = json!([container]);
    let spec = pod_spec(&spec);
    ContainerFacts::of(&spec, &spec.containers[0])
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
        Verdict::Runnable { executes: Executes::Program(path) } => format!("Runnable {path}"),
        Verdict::Runnable { executes: Executes::Script(path) } => format!("Script {path}"),
        Verdict::NeedsImage { paths, .. } => format!("NeedsImage {}", paths.join(",")),
        Verdict::NotSwappable { reason, .. } => format!("NotSwappable {reason}"),
    }
}
