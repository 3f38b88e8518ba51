//! What the status of a warmer pod proves about an image that it pulls.
//!
//! A kubelet kills the container with the old image, pulls, and only then creates the next one.
//! While it pulls, the status may still show the old container, and just after a swap the kubelet
//! may start that once more. So once a pod has had another image, a new container alone is no
//! proof. The runtime has to report its image by the requested name, or the kubelet has to report
//! the image in an Event.

use crate::image::ImageReference;
use crate::objects::pod::ContainerState;
use crate::objects::pod::evidence::is_pull_error;
use crate::warm::pod::{Reported, Shape, WarmerImage, WarmerPod};

/// The kubelet's reasons for a failure after the pull (`kuberuntime_container.go`, startContainer).
/// `CrashLoopBackOff` is not among them: after a failed pull the kubelet reports it for the
/// previous container (measured on 1.34.4).
const PAST_THE_PULL: [&str; 3] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// The runtimes' reasons for a container that was created from its image but whose program could
/// not be started (containerd: `errorStartReason` in `container_start.go`, measured with 2.1;
/// cri-dockerd: `container_status.go`). CRI-O creates no such container: its kubelet reports
/// `CreateContainerError`.
const NOT_STARTED: [&str; 2] = ["StartError", "ContainerCannotRun"];

/// The texts for an image without content for the node's platform: another try is of no use.
/// containerd's, and CRI-O's (1.36.3, measured: of an OCI index, of a manifest list of Docker).
const WRONG_PLATFORM: [&str; 3] = [
    "no match for platform",
    "no image found in image index for architecture",
    "no image found in manifest list for architecture",
];

/// The most characters of a reason that are kept.
const REASON_CHARS: usize = 400;

/// What a status proves about an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The image is on the node.
    Pulled,
    /// A pull of the image has failed.
    Refused {
        /// The reason, in the node's words.
        why: Box<str>,
        /// True if another try is of no use.
        is_final: bool,
    },
    /// There is a new container, but which image it runs is unknown, as with two names of the same
    /// bytes. A pod that has never had another image would prove it.
    Unclear,
    /// A container has run a program, though no image has its command; how that was observed.
    HasRun(Box<str>),
    /// The status proves nothing yet.
    Pending,
}

/// Judges what the status of a warmer pod proves about one of its images. `announced` is true if
/// the kubelet has reported, for this pod, that the image of its spec is pulled or already there.
pub fn judge(pod: &WarmerPod, image: &WarmerImage, announced: bool) -> Verdict {
    match pod.shape {
        Shape::InPlace => judge_in_place(pod, image, announced),
        Shape::ImpossibleCommand => judge_impossible(&image.container),
    }
}

/// Judges a container that has one image all its life, and must never run.
fn judge_impossible(container: &Reported) -> Verdict {
    match &container.state {
        // The status was made up for a container that never existed: the pod was ended from
        // outside.
        ContainerState::Terminated(_)
            if container.image_id.is_empty() || container.container_id.is_empty() =>
        {
            Verdict::Pending
        }
        ContainerState::Terminated(ended) if NOT_STARTED.contains(&&*ended.reason) => {
            Verdict::Pulled
        }
        ContainerState::Terminated(ended) => {
            Verdict::HasRun(format!("it has ended with {}", ended.exit_code.unwrap_or(-1)).into())
        }
        ContainerState::Running { .. } => Verdict::HasRun("it runs".into()),
        ContainerState::Waiting { reason, message } if is_pull_error(reason) => {
            refused(reason, message)
        }
        ContainerState::Waiting { reason, .. } if PAST_THE_PULL.contains(&&**reason) => {
            Verdict::Pulled
        }
        ContainerState::Waiting { .. } | ContainerState::Unreported => Verdict::Pending,
    }
}

fn judge_in_place(pod: &WarmerPod, image: &WarmerImage, announced: bool) -> Verdict {
    let Reported {
        container_id,
        state,
        ..
    } = &image.container;
    let is_fresh = pod.before.is_none();
    let is_new = !container_id.is_empty() && pod.before.as_ref() != Some(container_id);
    if is_new && (is_fresh || announced || is_called(&image.container, &image.image)) {
        return Verdict::Pulled;
    }
    match state {
        ContainerState::Waiting { reason, message } if is_pull_error(reason) => {
            let is_about_it = is_fresh || names(message, &image.image);
            if is_about_it {
                refused(reason, message)
            } else {
                Verdict::Pending
            }
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

/// Returns true for what a kubelet shows of a failed pull before its next one.
pub fn is_pull_back_off(state: &ContainerState) -> bool {
    matches!(state, ContainerState::Waiting { reason, .. } if **reason == *"ImagePullBackOff")
}

/// Returns true if the containers of the pod are next: its init container has succeeded, or,
/// without one, its node has taken the pod up.
pub fn has_started(pod: &WarmerPod) -> bool {
    let init_is_done =
        matches!(&pod.init, ContainerState::Terminated(ended) if ended.exit_code == Some(0));
    let is_begun = |image: &WarmerImage| match pod.shape {
        Shape::InPlace => !image.container.container_id.is_empty(),
        Shape::ImpossibleCommand => image.container.state != ContainerState::Unreported,
    };
    init_is_done || pod.images.iter().any(is_begun)
}

/// Returns the reason of a failure because a container has run; `how` is how that was observed.
pub fn has_run(how: &str) -> String {
    format!(
        "the image may be there, but a container of it was started, though no image has its command: {how}"
    )
}

/// Returns the reason why a pod has not started; `None` if nothing says it.
pub fn what_keeps(pod: &WarmerPod) -> Option<String> {
    let why = match &pod.init {
        ContainerState::Waiting { reason, message } if !message.is_empty() => {
            format!(
                "the init container with the park image waits: {}",
                cut(&format!("{reason}: {message}"))
            )
        }
        ContainerState::Terminated(ended) if ended.exit_code != Some(0) => {
            format!(
                "the init container with the park image has ended with {}",
                ended.exit_code.unwrap_or(-1)
            )
        }
        _ if !pod.unschedulable.is_empty() => format!(
            "the scheduler cannot place the pod: {}",
            cut(&pod.unschedulable)
        ),
        _ => return None,
    };
    Some(why)
}

/// Returns true if the runtime reports the container's image by this name.
fn is_called(reported: &Reported, image: &str) -> bool {
    let Ok(asked) = ImageReference::parse(image) else {
        return false;
    };
    match asked.digest() {
        Some(digest) => reported.image_id.ends_with(&format!("@{digest}")),
        None => ImageReference::parse(&reported.image)
            .is_ok_and(|called| called.normalized() == asked.normalized()),
    }
}

/// Returns true if a message is about this image, as the spec has it or in full: kubelets and
/// containerd quote it. CRI-O writes `docker://IMAGE: ` before what went wrong (1.36.3, measured),
/// with the short names of Docker Hub, and without a tag where there is a digest.
fn names(message: &str, image: &str) -> bool {
    let told = |name: &str| {
        message.contains(&format!("\"{name}\"")) || message.contains(&format!("docker://{name}: "))
    };
    told(image)
        || ImageReference::parse(image).is_ok_and(|image| {
            let full = image.normalized();
            let pulled = image.digest().map_or_else(
                || full.clone(),
                |digest| format!("{}/{}@{digest}", image.registry(), image.repository()),
            );
            let short = pulled.strip_prefix("docker.io/").unwrap_or(&pulled);
            let short = short.strip_prefix("library/").unwrap_or(short);
            [&full, &pulled, short].into_iter().any(told)
        })
}

fn refused(reason: &str, message: &str) -> Verdict {
    let is_final =
        reason == "InvalidImageName" || WRONG_PLATFORM.iter().any(|said| message.contains(said));
    Verdict::Refused {
        why: cut(&format!("{reason}: {message}")).into(),
        is_final,
    }
}

fn cut(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(REASON_CHARS)
        .collect()
}
