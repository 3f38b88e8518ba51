//! What the status of a warmer pod proves of the image that is to be pulled.
//!
//! A kubelet kills the container with the old image, pulls, and only then creates the next one; while it pulls, the status may still tell
//! of the old container, and just after a swap it may start that once more. So in a pod that has had another image before, a container
//! proves the pull only if the runtime calls its image by the name that was asked for, or the kubelet has said so in an Event.

use crate::image::ImageReference;
use crate::objects::pod::ContainerState;
use crate::objects::warmer_pod::{Reported, WarmerPod};

/// The kubelet's reasons for a pull that did not work (`kubelet/images/types.go`).
const PULL_FAILURES: [&str; 7] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ImageInspectError",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// The kubelet's reasons for what comes after a pull and did not work (`kuberuntime_container.go`, startContainer). `CrashLoopBackOff` is
/// none of them: after a failed pull it is said of the container before (measured on 1.34.4).
const PAST_THE_PULL: [&str; 3] = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"];

/// What containerd says of an image that has nothing for the node's platform: trying again does not help.
const WRONG_PLATFORM: &str = "no match for platform";

/// The longest reason that is kept.
const REASON_CHARS: usize = 400;

/// What a status proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The image is on the node.
    Pulled,
    /// A pull of it has failed, in the node's words.
    Refused {
        /// Why.
        why: Box<str>,
        /// Whether another try is of no use.
        is_final: bool,
    },
    /// There is a new container, and no telling which image it runs: as with two names of the same bytes. A pod that has never had another
    /// image would tell.
    Unclear,
    /// Nothing yet.
    Pending,
}

/// Judges the status of a warmer pod. `announced` is whether the kubelet has said, of this pod, that the image of its spec is pulled or
/// already there.
#[must_use]
pub fn judge(pod: &WarmerPod, announced: bool) -> Verdict {
    let Reported { container_id, state, .. } = &pod.container;
    let is_fresh = pod.before.is_none();
    let is_new = !container_id.is_empty() && pod.before.as_ref() != Some(container_id);
    if is_new && (is_fresh || announced || is_called(&pod.container, &pod.image)) {
        return Verdict::Pulled;
    }
    match state {
        ContainerState::Waiting { reason, message } if PULL_FAILURES.contains(&&**reason) => {
            let is_about_it = is_fresh || names(message, &pod.image);
            if is_about_it { refused(reason, message) } else { Verdict::Pending }
        }
        ContainerState::Waiting { reason, .. } if PAST_THE_PULL.contains(&&**reason) => {
            if is_fresh || announced {
                Verdict::Pulled
            } else {
                Verdict::Unclear
            }
        }
        _ if is_new => Verdict::Unclear,
        _ => Verdict::Pending,
    }
}

/// Whether a pod has come so far that its container is next: its init container is done.
#[must_use]
pub fn has_started(pod: &WarmerPod) -> bool {
    let init_is_done = matches!(&pod.init, ContainerState::Terminated(ended) if ended.exit_code == Some(0));
    init_is_done || !pod.container.container_id.is_empty()
}

/// Why a pod has not started, in words.
#[must_use]
pub fn what_keeps(pod: &WarmerPod) -> String {
    match &pod.init {
        ContainerState::Waiting { reason, message } if !message.is_empty() => {
            format!("the init container with the park image waits: {}", cut(&format!("{reason}: {message}")))
        }
        ContainerState::Terminated(ended) if ended.exit_code != Some(0) => {
            format!("the init container with the park image has ended with {}", ended.exit_code.unwrap_or(-1))
        }
        _ if !pod.unschedulable.is_empty() => format!("the scheduler has no place for it: {}", cut(&pod.unschedulable)),
        _ => "its node has not said why".to_owned(),
    }
}

/// Whether the runtime calls the container's image by this name.
fn is_called(reported: &Reported, image: &str) -> bool {
    let Ok(asked) = ImageReference::parse(image) else { return false };
    match asked.digest() {
        Some(digest) => reported.image_id.ends_with(&format!("@{digest}")),
        None => ImageReference::parse(&reported.image).is_ok_and(|called| called.normalized() == asked.normalized()),
    }
}

/// Whether a message names this image, as the spec has it or in full.
fn names(message: &str, image: &str) -> bool {
    let quoted = |name: &str| message.contains(&format!("\"{name}\""));
    quoted(image) || ImageReference::parse(image).is_ok_and(|image| quoted(&image.normalized()))
}

fn refused(reason: &str, message: &str) -> Verdict {
    let is_final = reason == "InvalidImageName" || message.contains(WRONG_PLATFORM);
    Verdict::Refused { why: cut(&format!("{reason}: {message}")).into(), is_final }
}

fn cut(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(REASON_CHARS).collect()
}
