//! The evidence in a pod's status that a swap took effect.
//!
//! No single field can be trusted: a containerID is constant on some providers, restartCount stays
//! 0 on others, the image in the status may be empty or spelled differently. So a swap has taken
//! effect when the container has ended and any of them differs from its value before the swap
//! (`docs/measured.md`, rows 1 to 6).

use crate::image::alias::same_repository;
use crate::image::reference::ImageReference;
use crate::objects::command::ContainerFacts;
use crate::objects::pod::{Container, ContainerState, ContainerStatus, ImageDigest, Terminated};

/// The fields of a container status that a new container changes, for comparison with later ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    container_id: Box<str>,
    restart_count: i64,
    started_at: Option<jiff::Timestamp>,
    waiting: Box<str>,
    image_digest: Option<ImageDigest>,
    /// The image in the spec, which a node that has not reacted yet still reports.
    image: Box<str>,
}

/// The progress of a swapped container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The node shows no change yet: it stops the old container, or pulls the exit image.
    Unchanged,
    /// The exit image cannot be pulled; the node's reason and message.
    NotPulled(&'a str, &'a str),
    /// The exit image cannot be started; the node's reason and message.
    NotStarted(&'a str, &'a str),
    /// The program started with the exit image runs.
    Runs,
    /// The container has ended.
    Ended,
}

impl Footprint {
    /// Returns what the status of the container shows now.
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
            image_digest: status.image_digest,
            image,
        }
    }

    /// Returns the number of restarts that the node showed.
    pub(crate) const fn restart_count(&self) -> i64 {
        self.restart_count
    }

    /// Returns the number of restarts since, as far as the node counts them.
    pub(crate) fn restarts_until(&self, now: &Self) -> u32 {
        let restarts = now.restart_count.saturating_sub(self.restart_count);
        u32::try_from(restarts.max(0)).unwrap_or(u32::MAX)
    }

    /// Returns true if another container has been started since.
    pub(crate) fn shows_new_container(&self, now: &Self) -> bool {
        self.container_id != now.container_id
            || self.restart_count != now.restart_count
            || (now.started_at.is_some() && self.started_at != now.started_at)
    }
}

/// Returns the reason and message of a waiting container for comparison. A kubelet puts the growing
/// delay into the message of a crash loop: another delay is no other problem.
fn waiting_text(reason: &str, message: &str) -> Box<str> {
    if reason == "CrashLoopBackOff" {
        reason.into()
    } else {
        format!("{reason}: {message}").into()
    }
}

/// Returns true if the status proves that the node acts on a changed image: another container was
/// started and has ended, or the node names the exit image in its message. The end alone proves
/// nothing (the sidecar may have ended by itself), nor the image alone (some providers copy it from
/// the spec), nor a running container (the old one may have crashed and been restarted).
pub(crate) fn proves_update(container: &Container, before: Option<&Footprint>) -> bool {
    let Some(status) = &container.status else {
        return false;
    };
    let shown = shows_written(status, &container.image, before);
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

/// Returns true if the status proves that the node has not acted yet: the old container still runs.
pub(crate) fn proves_inaction(container: &Container, before: Option<&Footprint>) -> bool {
    let Some(status) = &container.status else {
        return false;
    };
    let runs = matches!(status.state, ContainerState::Running { .. });
    let shown = shows_written(status, &container.image, before);
    runs && before.map_or(shown == Some(false), |before| {
        !before.shows_new_container(&Footprint::of(container))
    })
}

/// Returns whether a container with this status was started from the image that was written; `None`
/// if that is not known. A runtime reports an image by any of the names that its bytes have on the
/// node, so another name is another image only where the bytes say so, or are not known.
pub(crate) fn shows_written(
    status: &ContainerStatus,
    written: &str,
    before: Option<&Footprint>,
) -> Option<bool> {
    let by_name = exit_image_shown(&status.image, written);
    let Some(digest) = status.image_digest.filter(|_| by_name != Some(true)) else {
        return by_name;
    };
    if ImageDigest::of(written) == Some(digest) {
        return Some(true);
    }
    let Some(before) = before else {
        return by_name.filter(|_| !same_repository(&status.image, written));
    };
    // The tag of the old image may have been moved while its container crashed.
    let is_old = exit_image_shown(&status.image, &before.image) == Some(true);
    match before.image_digest {
        Some(old) if old != digest && !is_old => Some(true),
        _ => by_name,
    }
}

/// Returns whether the image in a status is the one that was written, by its name; `None` if it
/// cannot be read, or is the bare digest by which runtimes name an image without a tag.
pub fn exit_image_shown(in_status: &str, written: &str) -> Option<bool> {
    if in_status == written {
        return Some(true);
    }
    if in_status.starts_with("sha256:") {
        return None;
    }
    let (shown, written) = ImageReference::both(in_status, written)?;
    Some(shown.is_alias_of(&written))
}

/// Returns the progress of a container whose spec shows the exit image. `before` is what its status
/// showed before the swap, if known.
pub fn progress<'a>(container: &'a Container, before: Option<&Footprint>) -> Progress<'a> {
    let Some(status) = &container.status else {
        return Progress::Unchanged;
    };
    let shown = shows_written(status, &container.image, before);
    match &status.state {
        ContainerState::Terminated(_) => Progress::Ended,
        ContainerState::Waiting { reason, message }
            if waits_for_exit_image(container, before, shown, (reason, message)) =>
        {
            waiting(reason, message)
        }
        ContainerState::Running { .. } if runs_exit_image(container, before, shown) => {
            Progress::Runs
        }
        _ => Progress::Unchanged,
    }
}

/// Returns true if the exit image runs. The old container may crash and restart until the node
/// reacts: a container with another image in its status is not ours.
fn runs_exit_image(container: &Container, before: Option<&Footprint>, shown: Option<bool>) -> bool {
    let now = Footprint::of(container);
    before.map_or(shown == Some(true), |before| {
        shown != Some(false) && (before.shows_new_container(&now) || before.waiting != now.waiting)
    })
}

/// Returns true if the container waits because of the exit image. While that cannot be pulled, a
/// kubelet still shows the old image in the status, so only the message shows it; and a problem of
/// the old image may be reported once more after the swap, in other words (`docs/measured.md`, rows
/// 14 and 25). What cannot be pulled may also be the image of a volume.
fn waits_for_exit_image(
    container: &Container,
    before: Option<&Footprint>,
    shown: Option<bool>,
    (reason, message): (&str, &str),
) -> bool {
    if message.contains(&*container.image) {
        return true;
    }
    let facts = container.facts.as_deref();
    if is_pull_error(reason) && facts.is_some_and(ContainerFacts::mounts_image) {
        return false;
    }
    let Some(before) = before else {
        return shown == Some(true);
    };
    let now = Footprint::of(container);
    let names_old = !before.image.is_empty() && message.contains(&*before.image);
    // Until the node reacts, it reports an old start failure in other words.
    let is_old = names_old
        || (shown == Some(false)
            && is_start_trouble(&before.waiting)
            && is_start_trouble(&now.waiting));
    !is_old
        && (before.waiting != now.waiting
            || (shown != Some(false) && before.shows_new_container(&now)))
}

/// Returns true if the node keeps failing to run the image of the spec, and would not with another
/// one. containerd creates a container whose program is missing and fails to start it
/// (`RunContainerError`, then `CrashLoopBackOff` after exit code 128); CRI-O does not even create
/// it (`CreateContainerError`), and still shows the container before.
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

/// Returns true if the program could not be started: 127 is the exit code of a shell's `exec` for a
/// missing program, 128 that of a runtime.
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

fn waiting<'a>(reason: &'a str, message: &'a str) -> Progress<'a> {
    if is_pull_error(reason) {
        Progress::NotPulled(reason, message)
    } else if is_failed_start(reason) {
        Progress::NotStarted(reason, message)
    } else {
        Progress::Unchanged
    }
}

/// Returns true for a kubelet's reason of a failed start (`pkg/kubelet/container/sync_result.go`);
/// containerd and CRI-O differ in which they give.
pub(crate) fn is_failed_start(reason: &str) -> bool {
    matches!(
        reason,
        "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError"
            | "PostStartHookError"
            | "CrashLoopBackOff"
    )
}

/// Returns true if the waiting reason means that the image is not available
/// (`pkg/kubelet/images/types.go`).
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
