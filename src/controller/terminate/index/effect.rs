//! What the index wants the loop to do.

use swaplet_core::report::decision::{Action, Paths, Report};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::ending::Ends;
use swaplet_core::terminate::memory::ends::LogPlace;

use crate::cluster::nodes::Learned;
use crate::frame::metrics::Timed;
use crate::frame::writer::Target;
use crate::frame::writer::report::Notice;

/// A write to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The pod.
    pub target: Target,
    /// What to write.
    pub action: Action,
    /// What to tell once it is applied.
    pub report: Option<Report>,
}

/// A sidecar that has ended, and where its node has its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarLog {
    /// Its pod.
    pub target: Target,
    /// Its name.
    pub container: Box<str>,
    /// Where the log is.
    pub place: LogPlace,
}

/// What the index wants the loop to do besides writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell something.
    Notice(Notice),
    /// A decision about a pod, where it differs from the one before.
    Decided(Reason),
    /// A write was applied so long after the main containers were seen done.
    Written(Timed),
    /// A pod is finished, so long after its first write, and its containers have ended so.
    Ended(Timed, Ends),
    /// A sidecar has ended whose log is to be read.
    SidecarLog(SidecarLog),
    /// Push the exit image with these paths.
    Derive(Paths),
    /// A pod has proved how its node treats swaps.
    Learned(Learned),
}

/// What is to be told, if anything is.
pub(crate) fn notice(target: Target, report: Option<Report>) -> Option<Effect> {
    report.map(|report| Effect::Notice(Notice { target, report }))
}
