//! Waits until a pod of the probe is ready for the trial: its main container is done and its
//! sidecar runs.

use serde_json::Value;
use swaplet_core::objects::pod::{
    Container, ContainerState, ContainerStatus, PROVIDER_FAILED, Pod, Terminated,
};

use super::Stopped;
use super::pods::{MAIN, SIDECAR, marked};
use super::trial::Trial;
use crate::frame::clock::Clock;

/// The reason why a pod is not ready for the trial.
enum Lacks {
    /// A state that may pass.
    Yet(String),
    /// A state that does not pass by itself.
    ForGood(String),
}

impl Trial<'_> {
    /// Waits for the pod to be ready for the trial, and returns it.
    pub(crate) async fn start(&mut self) -> Result<Value, Stopped> {
        let clock = Clock::start();
        loop {
            let lacks = match self.read_pod().await? {
                Ok(pod) => match lacks(&pod, &self.probe.namespace) {
                    None => return Ok(pod),
                    Some(Lacks::ForGood(what)) => return Err(self.not_started(&what)),
                    Some(Lacks::Yet(what)) => what,
                },
                Err(trouble) => trouble,
            };
            if clock.now().since_start() >= self.probe.timeout {
                return Err(self.not_started(&format!(
                    "{lacks} (after {} s; --timeout allows more)",
                    self.probe.timeout.as_secs()
                )));
            }
            self.pause().await?;
        }
    }

    fn not_started(&self, why: &str) -> Stopped {
        let (node, namespace, name) = (&self.probe.node.name, &self.probe.namespace, self.name());
        Stopped::NotStarted(format!(
            "node {node} has not run pod {namespace}/{name} as it should: {why}"
        ))
    }
}

fn lacks(raw: &Value, namespace: &str) -> Option<Lacks> {
    let Some(pod) = marked(raw.clone()) else {
        return Some(Lacks::Yet("the pod cannot be read".to_owned()));
    };
    if pod.phase.is_terminal() || *pod.reason == *PROVIDER_FAILED {
        let message = raw["status"]["message"].as_str().unwrap_or_default();
        return Some(Lacks::ForGood(format!(
            "it is {}: {} {message}",
            pod.phase.as_str(),
            pod.reason
        )));
    }
    pod.containers
        .iter()
        .find_map(|container| container_lacks(&pod, container, namespace))
}

fn container_lacks(pod: &Pod, container: &Container, namespace: &str) -> Option<Lacks> {
    let name = &container.name;
    let Some(status) = &container.status else {
        return Some(Lacks::Yet(format!(
            "container {name} is not reported by node {}",
            pod.node
        )));
    };
    if let Some(end) = container.end().or(status.last_end.as_deref()) {
        return ended(container, end);
    }
    match &**name {
        SIDECAR if matches!(status.state, ContainerState::Running { .. }) => None,
        MAIN | SIDECAR => Some(not_running(container, status, namespace)),
        _ => Some(Lacks::Yet(format!(
            "container {name} was injected: choose a --namespace where nothing is injected"
        ))),
    }
}

fn ended(container: &Container, end: &Terminated) -> Option<Lacks> {
    let (image, code) = (
        &container.image,
        end.exit_code.map_or_else(
            || "no exit code".to_owned(),
            |code| format!("exit code {code}"),
        ),
    );
    let words = match (&*container.name, end.exit_code) {
        (SIDECAR, _) => {
            format!(
                "{image} ended by itself ({code}): push a park image with `swaplet park-image push`, and name it in --park-image"
            )
        }
        (MAIN, Some(0)) => return None,
        (MAIN, _) => format!(
            "{image} ended with {code}: push an exit image with `swaplet exit-image push`, and name it in --exit-image"
        ),
        (name, _) => format!("container {name}, which was injected, ended with {code}"),
    };
    Some(Lacks::ForGood(words))
}

fn not_running(container: &Container, status: &ContainerStatus, namespace: &str) -> Lacks {
    let (name, image) = (&container.name, &container.image);
    let flag = if **name == *SIDECAR {
        "--park-image"
    } else {
        "--exit-image"
    };
    match &status.state {
        ContainerState::Waiting { reason, message } if is_lasting(reason) => {
            Lacks::ForGood(format!(
                "{reason}: {message}; push {image} to where the node can pull it, or name another with {flag} (pull secrets are those of the \
             ServiceAccount default of namespace {namespace})"
            ))
        }
        ContainerState::Waiting { reason, message } => {
            Lacks::Yet(format!("container {name} waits: {reason} {message}"))
        }
        ContainerState::Running { .. } => Lacks::Yet(format!(
            "container {name} has not ended: is {image} an exit image?"
        )),
        ContainerState::Terminated(_) | ContainerState::Unreported => {
            Lacks::Yet(format!("container {name} has no state"))
        }
    }
}

/// Returns true for waiting reasons that a node does not recover from within the time of a probe.
fn is_lasting(waiting: &str) -> bool {
    matches!(
        waiting,
        "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError"
    )
}
