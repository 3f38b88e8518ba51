//! What in a pod's status proves that a swap took effect.
//!
//! No single field can be trusted: a containerID is constant on some providers, restartCount stays
//! 0 on others, the image in the status may be empty or spelled differently. So a swap has taken
//! effect when the container has ended and any of them differs from what was seen before the swap
//! (`docs/measured.md`, rows 1 to 6).

use crate::image::reference::ImageReference;
use crate::objects::pod::{Container, ContainerState, ContainerStatus, Terminated};

/// The fields of a container status that a new container changes, as they were before the swap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    container_id: Box<str>,
    restart_count: i64,
    started_at: Option<jiff::Timestamp>,
    waiting: Box<str>,
    /// The image in the spec: what a node that has not reacted yet still talks about.
    image: Box<str>,
}

/// What a swapped container has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The node shows no change yet: it stops the old container, or pulls the exit image.
    Unchanged,
    /// The exit image cannot be pulled; the node's reason and message.
    NotPulled(&'a str, &'a str),
    /// The exit image cannot be started; the node's reason and message.
    NotStarted(&'a str, &'a str),
    /// What was started with the exit image runs.
    Runs,
    /// The container has ended.
    Ended,
}

impl Footprint {
    /// What the status of the container shows now.
    #[must_use]
    pub fn of(container: &Container) -> Self {
        let image = container.image.clone();
        let Some(status) = &container.status else {
            return Self {
                image,
                ..Self::default()
            };
        };
        let (started_at, waiting) = match &status.state {
            ContainerState::Running { started_at } => (*started_at, Box::default()),
            ContainerState::Terminated(end) => (end.started_at, Box::default()),
            ContainerState::Waiting { reason, message } => (None, waiting_text(reason, message)),
            ContainerState::Unreported => (None, Box::default()),
        };
        Self {
            container_id: status.container_id.clone(),
            restart_count: status.restart_count,
            started_at,
            waiting,
            image,
        }
    }

    /// Whether another container has been started since.
    pub(crate) fn shows_new_container(&self, now: &Self) -> bool {
        self.container_id != now.container_id
            || self.restart_count != now.restart_count
            || (now.started_at.is_some() && self.started_at != now.started_at)
    }
}

/// A kubelet puts the growing delay into the message of a crash loop: another delay is no other
/// trouble.
fn waiting_text(reason: &str, message: &str) -> Box<str> {
    if reason == "CrashLoopBackOff" {
        reason.into()
    } else {
        format!("{reason}: {message}").into()
    }
}

/// Whether the status proves that the node acts on a changed image: another container has been
/// started and has ended, or the node names the exit image in its trouble. The end alone proves
/// nothing (the sidecar may have ended by itself), nor does the image alone (some providers copy it
/// from the spec), nor a container that runs (the old one may have crashed and been started again).
#[must_use]
pub(crate) fn proves_update(container: &Container, before: Option<&Footprint>) -> bool {
    let Some(status) = &container.status else {
        return false;
    };
    let shown = exit_image_shown(&status.image, &container.image);
    match &status.state {
        ContainerState::Waiting { message, .. } => message.contains(&*container.image),
        ContainerState::Terminated(_) => {
            shown != Some(false)
                && before
                    .is_some_and(|before| before.shows_new_container(&Footprint::of(container)))
        }
        ContainerState::Running { .. } | ContainerState::Unreported => false,
    }
}

/// Whether the status proves that the node has done nothing about a changed image so far: the old
/// container runs on.
#[must_use]
pub(crate) fn proves_inaction(container: &Container, before: Option<&Footprint>) -> bool {
    let Some(status) = &container.status else {
        return false;
    };
    let runs = matches!(status.state, ContainerState::Running { .. });
    let shown = exit_image_shown(&status.image, &container.image);
    runs && before.map_or(shown == Some(false), |before| {
        !before.shows_new_container(&Footprint::of(container))
    })
}

/// Whether the image in a status is the one that was written; `None` where the status does not
/// tell: it is empty, or the bare digest by which runtimes name an image without a tag.
#[must_use]
pub fn exit_image_shown(in_status: &str, written: &str) -> Option<bool> {
    if in_status == written {
        return Some(true);
    }
    if in_status.starts_with("sha256:") {
        return None;
    }
    let shown = ImageReference::parse(in_status).ok()?;
    let written = ImageReference::parse(written).ok()?;
    Some(shown.is_alias_of(&written))
}

/// What a container whose spec shows the exit image has come to. `before` is what its status showed
/// before the swap, where that is known.
#[must_use]
pub fn progress<'a>(container: &'a Container, before: Option<&Footprint>) -> Progress<'a> {
    let Some(status) = &container.status else {
        return Progress::Unchanged;
    };
    let shown = exit_image_shown(&status.image, &container.image);
    match &status.state {
        ContainerState::Terminated(_) => Progress::Ended,
        ContainerState::Waiting { reason, message }
            if waits_for_exit_image(container, before, shown, message) =>
        {
            waiting(reason, message)
        }
        ContainerState::Running { .. } if runs_exit_image(container, before, shown) => {
            Progress::Runs
        }
        _ => Progress::Unchanged,
    }
}

/// The old container may crash and start again until the node reacts: what the status names as
/// another image is not ours.
fn runs_exit_image(container: &Container, before: Option<&Footprint>, shown: Option<bool>) -> bool {
    let now = Footprint::of(container);
    before.map_or(shown == Some(true), |before| {
        shown != Some(false) && (before.shows_new_container(&now) || before.waiting != now.waiting)
    })
}

/// While the exit image cannot be pulled, a kubelet goes on showing the old image in the status, so
/// only the message tells; and a trouble of the old image may be reported once more after the swap,
/// in other words (`docs/measured.md`, rows 14 and 25).
fn waits_for_exit_image(
    container: &Container,
    before: Option<&Footprint>,
    shown: Option<bool>,
    message: &str,
) -> bool {
    if message.contains(&*container.image) {
        return true;
    }
    let Some(before) = before else {
        return shown == Some(true);
    };
    let now = Footprint::of(container);
    let names_old = !before.image.is_empty() && message.contains(&*before.image);
    // What could not be started before is told in other words until the node reacts.
    let is_old = names_old
        || (shown == Some(false)
            && is_start_trouble(&before.waiting)
            && is_start_trouble(&now.waiting));
    !is_old
        && (before.waiting != now.waiting
            || (shown != Some(false) && before.shows_new_container(&now)))
}

/// Whether the node keeps failing to run the image of the spec, and would not with another one.
/// containerd creates a container whose program is missing and fails to start it
/// (`RunContainerError`, then `CrashLoopBackOff` after exit code 128); CRI-O does not even create
/// it (`CreateContainerError`), and goes on showing the container before.
#[must_use]
pub fn is_stuck(container: &Container) -> bool {
    let Some(ContainerStatus {
        state: ContainerState::Waiting { reason, .. },
        last_end,
        ..
    }) = &container.status
    else {
        return false;
    };
    match &**reason {
        "RunContainerError" | "CreateContainerError" => true,
        "CrashLoopBackOff" => last_end.as_deref().is_some_and(is_start_error),
        reason => is_pull_error(reason),
    }
}

/// 127 is what a shell's `exec` gives for a program that is not there, 128 what a runtime gives.
pub(crate) fn is_start_error(end: &Terminated) -> bool {
    matches!(end.exit_code, Some(127 | 128))
        || matches!(&*end.reason, "StartError" | "ContainerCannotRun")
}

fn is_start_trouble(waiting: &str) -> bool {
    [
        "CrashLoopBackOff",
        "RunContainerError",
        "CreateContainerError",
    ]
    .iter()
    .any(|reason| waiting.starts_with(reason))
}

/// The waiting reasons are those of the kubelet (`pkg/kubelet/images/types.go`,
/// `pkg/kubelet/container/sync_result.go`); containerd and CRI-O differ in which of the start
/// errors they give.
fn waiting<'a>(reason: &'a str, message: &'a str) -> Progress<'a> {
    match reason {
        reason if is_pull_error(reason) => Progress::NotPulled(reason, message),
        "CreateContainerConfigError"
        | "CreateContainerError"
        | "RunContainerError"
        | "PostStartHookError"
        | "CrashLoopBackOff" => Progress::NotStarted(reason, message),
        _ => Progress::Unchanged,
    }
}

/// Whether a waiting reason says that the image cannot be had.
pub(crate) fn is_pull_error(reason: &str) -> bool {
    matches!(
        reason,
        "ErrImagePull"
            | "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed"
    )
}
