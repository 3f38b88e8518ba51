//! What a decision says: what to write, what to tell, when to look again.

use std::time::Duration;

use super::reason::Reason;
use crate::objects::pod::Phase;
use crate::objects::recreate_request::PLURAL;

/// What an image is derived from: the paths that it has besides the standard ones; sorted, each
/// once.
pub type Paths = Vec<String>;

/// One way to end the sidecars of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Their images are swapped.
    Swap,
    /// The pod's phase is written.
    Finish,
    /// OpenKruise's daemon is asked, by a `ContainerRecreateRequest`.
    Recreate,
}

impl Method {
    /// The word for it, as `--prefer` takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Finish => "finish",
            Self::Recreate => "crr",
        }
    }
}

/// One guarded image change: the container at `index` of its list, if it is still called
/// `container` and still has the image `from`, gets the image `to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Swap {
    /// Position in its list: `spec.containers`, or `spec.initContainers`.
    pub index: usize,
    /// Whether it is one of `spec.initContainers`.
    pub is_native_sidecar: bool,
    /// Name of the container.
    pub container: Box<str>,
    /// Its image now.
    pub from: Box<str>,
    /// The image that it gets.
    pub to: Box<str>,
}

impl Swap {
    /// These changes in words: each container, with its image before and after.
    #[must_use]
    pub fn list(swaps: &[Self]) -> String {
        let words = |swap: &Self| format!("{} ({} -> {})", swap.container, swap.from, swap.to);
        swaps.iter().map(words).collect::<Vec<_>>().join(", ")
    }
}

/// A guarded write of a pod's phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// `Succeeded` or `Failed`.
    pub phase: Phase,
    /// The resourceVersion of the pod that was decided about: nothing is written to a later one.
    /// `None` for a pod that others change so often that no version lasts until the write.
    pub version: Option<Box<str>>,
    /// Whether an annotation goes with it, without which a kubelet takes the phase back; a
    /// virtual-kubelet would call its provider for it.
    pub nudge: bool,
}

/// Something to tell about a pod: one Event, one line in the log, one count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Why.
    pub reason: Reason,
    /// In words, with the fix where there is one.
    pub note: String,
}

/// What is to be written: the deed of one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Change these images, all in one patch; never empty.
    Swap(Vec<Swap>),
    /// Write the phase.
    Finish(Finish),
    /// Ask OpenKruise's daemon to end these containers, all in one request; never empty.
    Recreate(Vec<Box<str>>),
}

impl Action {
    /// The resource that is written, in the plural.
    #[must_use]
    pub const fn resource(&self) -> &'static str {
        match self {
            Self::Swap(_) => "pods",
            Self::Finish(_) => "pods/status",
            Self::Recreate(_) => PLURAL,
        }
    }

    /// The method that it is a step on.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self {
            Self::Swap(_) => Method::Swap,
            Self::Finish(_) => Method::Finish,
            Self::Recreate(_) => Method::Recreate,
        }
    }
}

/// What is to be done about a pod now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Why this, and nothing else.
    pub reason: Reason,
    /// What to write.
    pub action: Option<Action>,
    /// What to tell now.
    pub reports: Vec<Report>,
    /// What to tell once the action is applied.
    pub done: Option<Report>,
    /// So many swaps are to be made, now or as soon as they fit into what the Job allows.
    pub swaps_wanted: u32,
    /// So many more are to be made once what was begun has ended.
    pub swaps_later: u32,
    /// When to look again if the pod does not change, as time since the start of the process.
    pub again: Option<Duration>,
    /// The derived exit images that are wanted and not there.
    pub wants: Vec<Paths>,
}

impl Decision {
    /// Nothing is to be done, and nothing to be told.
    #[must_use]
    pub const fn quiet(reason: Reason) -> Self {
        Self {
            reason,
            action: None,
            reports: Vec::new(),
            done: None,
            swaps_wanted: 0,
            swaps_later: 0,
            again: None,
            wants: Vec::new(),
        }
    }

    pub(crate) fn later(reason: Reason, again: Duration) -> Self {
        Self {
            again: Some(again),
            ..Self::quiet(reason)
        }
    }

    pub(crate) fn tell(reason: Reason, note: String) -> Self {
        Self {
            reports: vec![Report { reason, note }],
            ..Self::quiet(reason)
        }
    }

    /// An action, and what to tell once it is applied.
    pub(crate) fn act(action: Action, done: Report) -> Self {
        let reason = done.reason;
        Self {
            action: Some(action),
            done: Some(done),
            ..Self::quiet(reason)
        }
    }

    /// The images to change; empty where another action, or none, is to be made.
    #[must_use]
    pub fn swaps(&self) -> &[Swap] {
        match &self.action {
            Some(Action::Swap(swaps)) => swaps,
            Some(Action::Finish(_) | Action::Recreate(_)) | None => &[],
        }
    }
}

/// What is true of several containers is told in one report.
pub(crate) fn one_per_reason(reports: Vec<Report>) -> Vec<Report> {
    let mut told: Vec<Report> = Vec::new();
    for report in reports {
        match told
            .iter_mut()
            .find(|earlier| earlier.reason == report.reason)
        {
            Some(earlier) => earlier.note = format!("{}; {}", earlier.note, report.note),
            None => told.push(report),
        }
    }
    told
}
