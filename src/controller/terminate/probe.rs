//! Tests on throw-away pods what a node does with each way to end a sidecar.
//!
//! Each way is tried on a pod of its own, by the controller's own index and writer, so that no
//! conclusion is drawn here that the controller would not draw. Only the pods of the probe are
//! written, and they are always deleted.

mod trial;

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_core::cluster::node_class::{NodeClass, Recognised};
use swaplet_core::cluster::node_verdicts::{NodeId, NodeVerdicts, Proved};
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::Node;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{
    Container, ContainerState, ContainerStatus, PROVIDER_FAILED, Pod, Terminated,
};
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;
use swaplet_core::report::reason::Reason;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use self::trial::Trial;
use crate::frame::clock::Clock;
use crate::frame::list::words;
use crate::frame::writer::created;

/// The pause between the tries to delete a pod, and their maximum number.
const DELETE_PAUSE: Duration = Duration::from_millis(500);
const DELETES: u32 = 20;

impl Probe {
    /// Tries the ways one after another; `report` receives each step.
    pub async fn run(
        &self,
        mut interrupt: Interrupt,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Probed {
        let mut probed = Probed::default();
        for way in Way::ALL {
            if let Some(pointless) = pointless(way, &probed.tried) {
                probed.tried.push(pointless);
                continue;
            }
            if *interrupt.borrow() {
                probed.stopped = Some(Stopped::Interrupted);
                break;
            }
            match self
                .try_way(way, &mut interrupt, report, &mut probed.left)
                .await
            {
                Ok(tried) => {
                    report(format!("{way}: {}", tried.answer));
                    probed.tried.push(tried);
                }
                Err(stopped) => {
                    probed.stopped = Some(stopped);
                    break;
                }
            }
        }
        probed
    }

    /// Returns the class that `swaplet run` would assign to the node after these pods.
    pub fn class(&self, probed: &Probed) -> NodeClass {
        let node = NodeId {
            name: &self.node.name,
            uid: &self.node.uid,
        };
        let mut verdicts = NodeVerdicts::default();
        for tried in &probed.tried {
            if let Some(proved) = tried.proved {
                verdicts.learn(
                    node,
                    &self.recognised,
                    proved,
                    &format!("{}/{}", self.namespace, self.pod_name(tried.way)),
                    Moment::START,
                );
            }
        }
        verdicts.class(node, &self.recognised, &self.namespace, Moment::START)
    }

    async fn try_way(
        &self,
        way: Way,
        interrupt: &mut Interrupt,
        report: &(dyn Fn(String) + Send + Sync),
        left: &mut Vec<String>,
    ) -> Result<Tried, Stopped> {
        let name = self.pod_name(way);
        report(format!("{way}: starting pod {}/{name}", self.namespace));
        let result = match self.create(way).await {
            Created::Yes => {
                Trial {
                    probe: self,
                    way,
                    interrupt,
                    report,
                }
                .run()
                .await
            }
            Created::Maybe(error) => {
                // Deleted now; nothing waits for a creation that a busy API server makes later.
                Err(Stopped::Refused(format!(
                    "{error}; if it is created later, it has the label {LABEL}={}",
                    self.id
                )))
            }
            Created::No(error) => return Err(Stopped::Refused(error)),
        };
        if matches!(result, Err(Stopped::Interrupted)) {
            report(format!(
                "interrupted: deleting pod {}/{name}",
                self.namespace
            ));
        }
        if let Err(error) = self.delete(&name).await {
            left.push(format!(
                "pod {}/{name} is still there: {error}",
                self.namespace
            ));
        }
        result
    }

    async fn create(&self, way: Way) -> Created {
        let pod: v1::Pod = match serde_json::from_value(self.pod(way)) {
            Ok(pod) => pod,
            Err(error) => return Created::No(error.to_string()),
        };
        match timeout(ANSWER, self.pods().create(&created(), &pod)).await {
            Ok(Ok(_)) => Created::Yes,
            Ok(Err(kube::Error::Api(status))) if status.code < 500 => {
                Created::No(status.message.clone())
            }
            Ok(Err(error)) => Created::Maybe(words(&error)),
            Err(_) => Created::Maybe(format!("no answer in {} s", ANSWER.as_secs())),
        }
    }

    /// Deletes a pod, and retries until the API server answers that it does not exist.
    async fn delete(&self, name: &str) -> Result<(), String> {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        let mut last = String::new();
        for _ in 0..DELETES {
            match timeout(ANSWER, self.pods().delete(name, &now)).await {
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(()),
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                    return Err(status.message.clone());
                }
                Ok(Ok(_)) => "a finalizer keeps it".clone_into(&mut last),
                Ok(Err(error)) => last = words(&error),
                Err(_) => last = format!("no answer in {} s", ANSWER.as_secs()),
            }
            sleep(DELETE_PAUSE).await;
        }
        Err(last)
    }

    fn pods(&self) -> Api<v1::Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// The result of a create request.
enum Created {
    Yes,
    Maybe(String),
    No(String),
}

/// Skips a swap that a node ignores under every restart policy: to observe that takes a minute.
fn pointless(way: Way, tried: &[Tried]) -> Option<Tried> {
    let ignored = tried
        .iter()
        .any(|tried| tried.proved == Some(Proved::Inert));
    (way == Way::SwapNever && ignored).then(|| Tried {
        way,
        answer: Answer::NotTried,
        took: None,
        evidence: Vec::new(),
        note: "the node ignores changed images, whatever the restart policy".to_owned(),
        proved: None,
    })
}

// The changes in the status of a pod after a way was tried, for people to judge.

/// Describes how the status of the sidecar has changed, and the phase of the pod.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let [old, new] = [before, after].map(|pod| status(pod).unwrap_or(&Value::Null));
    let mut seen = vec![
        changed(old, new, "containerID"),
        restarts(old, new),
        changed(old, new, "imageID"),
    ];
    seen.push(state(&new["state"]));
    seen.push(phase(&after["status"]));
    seen
}

fn status(pod: &Value) -> Option<&Value> {
    pod["status"]["containerStatuses"]
        .as_array()?
        .iter()
        .find(|status| status["name"] == SIDECAR)
}

fn changed(old: &Value, new: &Value, field: &str) -> String {
    let text = |status: &Value| status[field].as_str().unwrap_or_default().to_owned();
    match (text(old), text(new)) {
        (_, new) if new.is_empty() => format!("no {field}"),
        (old, new) if old == new => format!("same {field}"),
        _ => format!("new {field}"),
    }
}

fn restarts(old: &Value, new: &Value) -> String {
    let count = |status: &Value| status["restartCount"].as_i64().unwrap_or_default();
    match (count(old), count(new)) {
        (old, new) if old == new => format!("restartCount {new}"),
        (old, new) => format!("restartCount {old} -> {new}"),
    }
}

fn state(state: &Value) -> String {
    let ended = &state["terminated"];
    let waits = state["waiting"]["reason"].as_str();
    match ended["exitCode"].as_i64() {
        Some(code) => format!("exit code {code}"),
        None if ended.is_object() => "ended".to_owned(),
        None if state["running"].is_object() => "still running".to_owned(),
        None => waits.map_or_else(
            || "no state".to_owned(),
            |reason| format!("waiting ({reason})"),
        ),
    }
}

fn phase(status: &Value) -> String {
    let phase = status["phase"].as_str().unwrap_or("no phase");
    let reason = status["reason"]
        .as_str()
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default();
    format!("pod {phase}{reason}")
}

// The subject of a probe, the ways that are tried, and their results.

/// The deadline of one request to the API server.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// A method of ending a sidecar, combined with a restart policy where that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Swaps the image in a pod with `restartPolicy: OnFailure`.
    SwapOnFailure,
    /// Swaps the image in a pod with `restartPolicy: Never`, which a failing provider fails.
    SwapNever,
    /// Writes the phase of the pod.
    Finish,
}

/// The result of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod is Succeeded and stays so.
    Works,
    /// The pod does not end, for the reason that the controller reports in its Event.
    Fails(Reason),
    /// The timeout passed before there was a result.
    TimedOut,
    /// Skipped, because the result of another way makes it pointless.
    NotTried,
}

/// A way with its result.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The way.
    pub way: Way,
    /// Its result.
    pub answer: Answer,
    /// The time from the end of the main container to the result; `None` if it was not tried.
    pub took: Option<Duration>,
    /// The evidence in the status of the pod.
    pub evidence: Vec<String>,
    /// The controller's message, or why the way was not tried.
    pub note: String,
    /// What the pod proved about its node.
    pub proved: Option<Proved>,
}

/// The result of a probe.
#[derive(Debug, Default)]
pub struct Probed {
    /// The ways, in the order in which they were tried.
    pub tried: Vec<Tried>,
    /// Why the probe ended before all ways were tried.
    pub stopped: Option<Stopped>,
    /// Pods that could not be deleted, each with the reason.
    pub left: Vec<String>,
}

/// The reason why a probe ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The API server does not accept the pod.
    #[error("the API server rejects the pod: {0}")]
    Refused(String),
    /// The node does not run the pod as expected.
    #[error("{0}")]
    NotStarted(String),
    /// Somebody else has deleted the pod.
    #[error("pod {0} was deleted by somebody else")]
    Gone(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// A flag that becomes true when the probe must end.
pub type Interrupt = watch::Receiver<bool>;

/// The settings of a probe.
pub struct Probe {
    /// The client. It must not retry by itself.
    pub client: Client,
    /// The node.
    pub node: Node,
    /// How the node was recognised.
    pub recognised: Recognised,
    /// The images of the pods.
    pub images: Images,
    /// The namespace of the pods.
    pub namespace: String,
    /// The time that a pod has to start, and then each way to show a result.
    pub timeout: Duration,
    /// The suffix of the pod names and value of their label: a DNS label of at most 40 characters,
    /// unique to this probe.
    pub id: String,
}

/// The images of the pods.
pub struct Images {
    /// The image of the main container, and the one to which the sidecar is swapped.
    pub exit: ImageReference,
    /// The image of the sidecar.
    pub park: ImageReference,
}

impl Way {
    /// All ways, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::SwapOnFailure, Self::SwapNever, Self::Finish];

    /// Returns `spec.restartPolicy` of the way's pod.
    pub const fn restart_policy(self) -> &'static str {
        match self {
            Self::SwapOnFailure => "OnFailure",
            Self::SwapNever | Self::Finish => "Never",
        }
    }

    /// Returns true if the way changes an image.
    pub const fn swaps(self) -> bool {
        matches!(self, Self::SwapOnFailure | Self::SwapNever)
    }

    /// Returns the part of the pod name that is unique to the way.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::SwapOnFailure => "swap-onfailure",
            Self::SwapNever => "swap-never",
            Self::Finish => "finish",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::SwapOnFailure => "swap under OnFailure",
            Self::SwapNever => "swap under Never",
            Self::Finish => "finish",
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => out.write_str("Works"),
            Self::Fails(reason) => reason.fmt(out),
            Self::TimedOut => out.write_str("TimedOut"),
            Self::NotTried => out.write_str("NotTried"),
        }
    }
}

// Waits until a pod of the probe is ready for the trial: its main container is done and its
// sidecar runs.

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

// The throw-away pods of a probe: how they are created and read.

/// The label of every pod of a probe; all pods of one probe have the same value.
pub const LABEL: &str = "swaplet.io/probe";
/// The container that ends at once.
pub(crate) const MAIN: &str = "main";
/// The container that runs until it is ended.
pub(crate) const SIDECAR: &str = "sidecar";
/// The park image stops on SIGTERM, so a longer grace period is not needed.
const GRACE_SECONDS: u8 = 1;
/// The unprivileged user of the two images; no distribution assigns this id.
const USER: u32 = 65532;

impl Probe {
    /// Returns a pod manifest for this node: no scheduler is involved, no taint keeps it away, it
    /// may run where pods are restricted, and no sidecar is marked, so nobody else ends it.
    pub(crate) fn pod(&self, way: Way) -> Value {
        let container = |name: &str, image: &str| {
            json!({
                "name": name, "image": image,
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            })
        };
        // If this process is killed, nothing keeps running for long on a node that enforces deadlines.
        let deadline = self.timeout.as_secs() * 2 + 60;
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.pod_name(way), "namespace": self.namespace, "labels": {LABEL: self.id}},
            "spec": {
                "nodeName": self.node.name, "restartPolicy": way.restart_policy(), "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": GRACE_SECONDS, "activeDeadlineSeconds": deadline,
                "automountServiceAccountToken": false, "enableServiceLinks": false,
                "securityContext": {"runAsNonRoot": true, "runAsUser": USER, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [container(MAIN, self.images.exit.as_str()), container(SIDECAR, self.images.park.as_str())],
            },
        })
    }

    pub(crate) fn pod_name(&self, way: Way) -> String {
        format!("swaplet-probe-{}-{}", self.id, way.suffix())
    }
}

/// Reads the pod as the controller would if its sidecar were marked. Only the copy that was read is
/// marked: no other controller may see the mark.
pub(crate) fn marked(mut pod: Value) -> Option<Pod> {
    let containers = pod["spec"]["containers"].as_array_mut()?;
    let sidecar = containers
        .iter_mut()
        .find(|container| container["name"] == SIDECAR)?;
    sidecar["env"] = json!([{"name": WHEN_JOB_EXIT, "value": "true"}]);
    serde_json::from_value::<PodWire>(pod).ok()?.read()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(id: &str, restarts: i64, state: Value, status: Value) -> Value {
        let mut pod = json!({"status": status});
        pod["status"]["containerStatuses"] = json!([{"name": "main"},
            {"name": "sidecar", "containerID": id, "imageID": "", "restartCount": restarts, "state": state}]);
        pod
    }

    #[test]
    fn a_new_container_and_an_old_one_are_told_apart() {
        let running = json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}});
        let before = pod("c://1", 0, running.clone(), json!({"phase": "Running"}));
        let swapped = pod(
            "c://2",
            1,
            json!({"terminated": {"exitCode": 0}}),
            json!({"phase": "Succeeded"}),
        );
        assert_eq!(
            differences(&before, &swapped),
            [
                "new containerID",
                "restartCount 0 -> 1",
                "no imageID",
                "exit code 0",
                "pod Succeeded"
            ]
        );
        let inert = pod(
            "c://1",
            0,
            running,
            json!({"phase": "Pending", "reason": "ProviderFailed"}),
        );
        let reported = [
            "same containerID",
            "restartCount 0",
            "no imageID",
            "still running",
            "pod Pending (ProviderFailed)",
        ];
        assert_eq!(differences(&before, &inert), reported);
        assert_eq!(
            differences(&json!({}), &json!({}))[3..],
            ["no state", "pod no phase"]
        );
    }
}
