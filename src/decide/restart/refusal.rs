//! Whether a container may be restarted: what cannot work, or could lose it, is refused with the reason before anything is written.

use super::Around;
use crate::decide::evidence::is_pull_error;
use crate::decide::headroom::Headroom;
use crate::decide::node_class::NodeClass;
use crate::decide::roles::{self, Mains};
use crate::image::alias::{Alias, Reported};
use crate::objects::pod::{Container, ContainerState, RestartPolicy, Terminated};
use crate::objects::restart_pod::{Details, RestartPod};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// With this alias.
    Yes(String),
    /// Not now.
    Wait,
    /// Never, for this reason.
    No(String),
}

/// What `forceRecreate` overrules.
const UNLESS_FORCED: &str = "set strategy.forceRecreate to restart it all the same";

/// Whether a container may be restarted now; `restarts` is how many are begun at once, this one included.
pub(super) fn ask(pod: &RestartPod, container: &Container, details: &Details, force: bool, restarts: u32, around: &Around<'_>) -> Answer {
    if let Some(no) = ended(pod, container, around).or_else(|| by_node(around)) {
        return Answer::No(no);
    }
    let reported = Reported { image: container.status.as_ref().map_or("", |status| &status.image), image_id: &details.image_id };
    let Some(alias) = Alias::of(&container.image, reported) else {
        let image = &container.image;
        return Answer::No(format!("the node reports no digest of its image, and {image} has no other spelling; nothing was changed"));
    };
    if !force && let Some(risk) = risk(pod, container, details, &alias, around) {
        return Answer::No(format!("{risk}; {UNLESS_FORCED}"));
    }
    match (around.room)(restarts) {
        Headroom::Free | Headroom::Fits => Answer::Yes(alias.image),
        Headroom::Wait(_) | Headroom::TooEarly => Answer::Wait,
        Headroom::NeverFits(shortage) => Answer::No(format!(
            "a restart counts against the backoffLimit {} of the pod's Job, which has {} restarts, and would fail it: raise the limit",
            shortage.limit, shortage.restarts
        )),
        Headroom::JobUnknown { .. } => {
            Answer::No("the Job of the pod has not been seen, so nobody knows how many restarts it allows".to_owned())
        }
    }
}

/// The container has ended for good, or is about to.
fn ended(pod: &RestartPod, container: &Container, around: &Around<'_>) -> Option<String> {
    if around.exit_images.contains(&container.image) {
        return Some(format!("it was ended, by the exit image {}", container.image));
    }
    if pod.pod.restart_policy != RestartPolicy::Always
        && roles::sidecars(&pod.pod).next().is_some()
        && roles::mains_state(&pod.pod) == Mains::Done
    {
        return Some("the main containers of the pod are done".to_owned());
    }
    if let Some(ContainerState::Waiting { reason, .. }) = container.status.as_ref().map(|status| &status.state)
        && is_pull_error(reason)
    {
        return Some(format!("its image cannot be had ({reason}), under no name"));
    }
    let end = container.end()?;
    let policy = container.effective_policy(&pod.pod);
    (!runs_again(policy, end)).then(|| format!("it has ended, and its restart policy {} does not start it again", policy.as_str()))
}

/// Whether the node starts a container again that ended so.
pub(super) fn runs_again(policy: &RestartPolicy, end: &Terminated) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => end.exit_code != Some(0),
        RestartPolicy::Never | RestartPolicy::Unknown(_) => false,
    }
}

fn by_node(around: &Around<'_>) -> Option<String> {
    match around.node? {
        NodeClass::VirtualInert => Some("the node ignores a changed image".to_owned()),
        NodeClass::VirtualRejects => Some("the node fails on a changed image".to_owned()),
        NodeClass::Kubelet | NodeClass::VirtualUpdates | NodeClass::Daemon | NodeClass::Unknown => None,
    }
}

/// Under `Never` a start that fails after the old container was stopped is final, and no later change brings the container back (truth
/// table, 3.a and 3.b).
fn risk(pod: &RestartPod, container: &Container, details: &Details, alias: &Alias, around: &Around<'_>) -> Option<String> {
    let never = match container.effective_policy(&pod.pod) {
        RestartPolicy::Always | RestartPolicy::OnFailure => return None,
        RestartPolicy::Never => "under restartPolicy Never it would be lost for good if it did not start again",
        RestartPolicy::Unknown(_) => return Some("its restart policy is not known".to_owned()),
    };
    let danger = if details.pulls_always {
        "imagePullPolicy Always asks the registry at the start"
    } else if !alias.is_on_node {
        "the node does not report that it has the image under another name"
    } else if !others_run(pod, container) {
        "no other container of the pod runs meanwhile"
    } else if around.node != Some(NodeClass::Kubelet) {
        "the node is, or may be, a virtual one, which may judge the pod while the container is stopped"
    } else {
        return None;
    };
    Some(format!("{never}, and {danger}"))
}

fn others_run(pod: &RestartPod, container: &Container) -> bool {
    let runs = |other: &Container| other.status.as_ref().is_some_and(|status| matches!(status.state, ContainerState::Running { .. }));
    pod.pod.containers.iter().any(|other| other.name != container.name && runs(other))
}
