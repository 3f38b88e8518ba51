//! The outcome of a decision: what to write, what to report, when to reconcile again.

use std::fmt::Display;

use super::reason::Reason;
use crate::objects::moment::Moment;
use crate::objects::pod::Phase;
use crate::objects::recreate_request::PLURAL;

/// The paths that a derived image has besides the standard ones; sorted, without duplicates.
pub type Paths = Vec<String>;

/// One way to end the sidecars of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Method {
    /// Swaps their images.
    Swap,
    /// Writes the pod's phase.
    Finish,
    /// Requests their end from OpenKruise's daemon, by a `ContainerRecreateRequest`.
    #[strum(serialize = "crr")]
    Recreate,
}

impl Method {
    /// Returns the word for the method, as `--prefer` takes it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One guarded image change: the container at `index` of its list, if it is still called
/// `container` and still has the image `from`, gets the image `to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Swap {
    /// Position in its list: `spec.containers`, or `spec.initContainers`.
    pub index: usize,
    /// True if it is one of `spec.initContainers`.
    pub is_native_sidecar: bool,
    /// Name of the container.
    pub container: Box<str>,
    /// Its present image.
    pub from: Box<str>,
    /// The image that it gets.
    pub to: Box<str>,
}

impl Swap {
    /// Describes these changes: each container, with its image before and after.
    pub fn list(swaps: &[Self]) -> String {
        let words = |swap: &Self| format!("{} ({} -> {})", swap.container, swap.from, swap.to);
        listed(swaps.iter().map(words))
    }
}

/// Returns these words, separated by commas.
pub(crate) fn listed<T: Display>(words: impl IntoIterator<Item = T>) -> String {
    let words = words.into_iter().map(|word| word.to_string());
    words.collect::<Vec<_>>().join(", ")
}

/// A guarded write of a pod's phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// `Succeeded` or `Failed`.
    pub phase: Phase,
    /// The resourceVersion of the pod that was decided about: no later one is written to. `None`
    /// for a pod that others change so often that no version lasts until the write.
    pub version: Option<Box<str>>,
    /// True if an annotation is written too, without which a kubelet reverts the phase; a
    /// virtual-kubelet would call its provider for it.
    pub nudge: bool,
}

/// A report about a pod: one Event, one line in the log, one count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The reason of the Event, which is also the metric label and the word in the log.
    pub reason: Reason,
    /// The text, with the fix if there is one.
    pub note: String,
}

impl Report {
    /// Returns a report with this reason and text.
    pub fn new(reason: Reason, note: impl Into<String>) -> Self {
        Self {
            reason,
            note: note.into(),
        }
    }
}

/// The write by which one method acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Change these images, all in one patch; never empty.
    Swap(Vec<Swap>),
    /// Write the phase.
    Finish(Finish),
    /// Request the end of these containers from OpenKruise's daemon, in one request; never empty.
    Recreate(Vec<Box<str>>),
}

impl Action {
    /// Returns the resource that is written, in the plural.
    pub const fn resource(&self) -> &'static str {
        match self {
            Self::Swap(_) => "pods",
            Self::Finish(_) => "pods/status",
            Self::Recreate(_) => PLURAL,
        }
    }

    /// Returns the words by which a note about a write that is not applied names its kind.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Swap(_) => "change the image of",
            Self::Finish(_) => "write the phase",
            Self::Recreate(_) => "request the end of",
        }
    }

    /// Returns the method that the action belongs to.
    pub const fn method(&self) -> Method {
        match self {
            Self::Swap(_) => Method::Swap,
            Self::Finish(_) => Method::Finish,
            Self::Recreate(_) => Method::Recreate,
        }
    }
}

/// The decision about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The reason for this decision.
    pub reason: Reason,
    /// The write to make; `None` if there is none.
    pub action: Option<Action>,
    /// The reports to make now.
    pub reports: Vec<Report>,
    /// The report to make once the action is applied.
    pub done: Option<Report>,
    /// The restarts that the swaps to make may cause, now or as soon as they fit into what the Job
    /// allows.
    pub swaps_wanted: u32,
    /// When to decide again if the pod does not change.
    pub again: Option<Moment>,
    /// The derived exit images that are needed and do not exist yet.
    pub wants: Vec<Paths>,
}

impl Decision {
    /// Returns a decision to do and report nothing.
    pub const fn quiet(reason: Reason) -> Self {
        Self {
            reason,
            action: None,
            reports: Vec::new(),
            done: None,
            swaps_wanted: 0,
            again: None,
            wants: Vec::new(),
        }
    }

    /// Returns a decision that does nothing, to be made again at this time.
    pub fn later(reason: Reason, again: Moment) -> Self {
        Self {
            again: Some(again),
            ..Self::quiet(reason)
        }
    }

    pub(crate) fn reporting(reason: Reason, note: String) -> Self {
        Self {
            reports: vec![Report::new(reason, note)],
            ..Self::quiet(reason)
        }
    }

    /// Returns a decision with an action, and a report to make once it is applied.
    pub(crate) fn act(action: Action, done: Report) -> Self {
        let reason = done.reason;
        Self {
            action: Some(action),
            done: Some(done),
            ..Self::quiet(reason)
        }
    }

    /// Returns the images to change; empty if the action is another one, or none.
    pub fn swaps(&self) -> &[Swap] {
        match &self.action {
            Some(Action::Swap(swaps)) => swaps,
            Some(Action::Finish(_) | Action::Recreate(_)) | None => &[],
        }
    }
}

/// Joins reports with the same reason into one.
pub(crate) fn one_per_reason(reports: Vec<Report>) -> Vec<Report> {
    let mut reported: Vec<Report> = Vec::new();
    for report in reports {
        match reported
            .iter_mut()
            .find(|earlier| earlier.reason == report.reason)
        {
            Some(earlier) => earlier.note = format!("{}; {}", earlier.note, report.note),
            None => reported.push(report),
        }
    }
    reported
}
