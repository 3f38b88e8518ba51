//! The effects that the loop carries out for the index.

use swaplet_core::report::decision::{Action, Paths, Report};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::ending::Ends;

use crate::cluster::nodes::Learned;
use crate::frame::metrics::Timed;
use crate::frame::writer::Target;
use crate::frame::writer::report::Notice;

/// A pending write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The pod.
    pub target: Target,
    /// The change to write.
    pub action: Action,
    /// The report to emit once it is applied.
    pub report: Option<Report>,
}

/// An effect other than a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Report something.
    Notice(Notice),
    /// Count a decision about a pod that differs from the one before.
    Decided(Reason),
    /// Record the time from the observed end of the main containers to a write.
    Written(Timed),
    /// Record the time from the first write to the end of the pod, and how its containers ended.
    Ended(Timed, Ends),
    /// Push the exit image with these paths, for a pod of this namespace.
    Derive(Box<str>, Paths),
    /// Store how a node treats swaps, as a pod has proved.
    Learned(Learned),
}

/// Returns the effect for a report, if there is one.
pub(crate) fn notice(target: Target, report: Option<Report>) -> Option<Effect> {
    report.map(|report| Effect::Notice(Notice { target, report }))
}
