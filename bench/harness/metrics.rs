//! The rows of the table: their names, units, and which end is the good one.

use crate::options::Contestant;

/// One value of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Pods that wait for their main containers; 0: none.
    pub size: usize,
    /// Whose it is.
    pub contestant: Contestant,
    /// The row.
    pub metric: Metric,
    /// The value, in the unit of the row.
    pub value: f64,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric {
    /// As the table names it.
    pub name: String,
    /// How its values are written.
    pub unit: Unit,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// `12.3 s`
    Seconds,
    /// `12.3 ms`
    Milliseconds,
    /// `338/s`
    PerSecond,
    /// Of bytes, `73.4 MB`
    Megabytes,
    /// Of bytes, `12.3 kB`
    Kilobytes,
    /// `1.00`
    Number,
    /// `0.42 %`
    Percent,
}

impl Unit {
    /// A value with its unit.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Seconds => format!("{value:.2} s"),
            Self::Milliseconds => format!("{value:.1} ms"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Megabytes => format!("{:.1} MB", value / 1e6),
            Self::Kilobytes => format!("{:.2} kB", value / 1e3),
            Self::Number => format!("{value:.2}"),
            Self::Percent => format!("{value:.2} %"),
        }
    }
}

/// A row by its name.
pub fn metric(name: impl Into<String>, unit: Unit) -> Metric {
    Metric {
        name: name.into(),
        unit,
    }
}

/// Guarded patches per second at the best number of clients.
pub const CEILING: &str = "ceiling: bare guarded patches";
/// Resident memory, with all pods waiting.
pub const RSS: &str = "idle: resident memory (RSS)";
/// Requests other than watches and those of the Lease.
pub const IDLE_REQUESTS: &str = "idle: requests but the Lease and watches";
/// The peak of a relist over the memory before it.
pub const RELIST_PEAK: &str = "relist: peak, times the memory before";
/// The most pods of one Job between the swap and the end.
pub const JOBS_AT_ONCE: &str = "jobs: most swaps of one Job under way";
/// From the last status write to the last swap.
pub const DRAIN: &str = "burst: drained after the last status write";
/// Swaps per second in that time.
pub const DRAIN_RATE: &str = "burst: swaps after the last status write";
/// From the first status write to the last swap.
pub const BURST: &str = "burst: first status write to last swap";
/// Writes of pods for each pod, until it is over.
pub const PATCHES: &str = "burst: patches of pods per pod";
/// Events for each pod, until it is over.
pub const EVENTS: &str = "burst: Events per pod";
/// Events that came while pods still waited.
pub const EVENTS_BEFORE: &str = "burst: Events sent while a swap waited";

/// The p99 of one rate.
pub fn steady_p99(rate: u64) -> String {
    format!("steady {rate}/s: p99")
}
