//! What a loop writes, reports and counts with.

use super::Writer;
use super::report::Reporter;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;

/// The same for all loops of a process.
#[derive(Clone)]
pub struct Tools {
    /// Writes while this process leads.
    pub writer: Writer,
    /// Reports what was written.
    pub reporter: Reporter,
    /// Counts.
    pub metrics: Metrics,
    /// Knows what `/readyz` says.
    pub health: Health,
}
