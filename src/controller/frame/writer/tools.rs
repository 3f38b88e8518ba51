//! The tools with which a loop writes, reports and counts.

use super::Writer;
use super::report::Reporter;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;

/// The tools, which all loops of a process share.
#[derive(Clone)]
pub struct Tools {
    /// Writes while this process leads.
    pub writer: Writer,
    /// Reports what was written.
    pub reporter: Reporter,
    /// Counts what the loops do.
    pub metrics: Metrics,
    /// Holds what `/readyz` reports.
    pub health: Health,
}
