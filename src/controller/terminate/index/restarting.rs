//! Restarts in progress.

use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;

/// After this time a write without an answer has been applied, or never will be: the API server
/// gives up a request after a minute (its `--request-timeout`), and a watch shows its effect within
/// another.
pub(crate) const LATE_EFFECT: Duration = Duration::from_secs(120);

/// Restarts of single containers of a pod that have been begun.
pub(crate) struct Begun {
    /// The pod before the restarts.
    pub pod: Pod,
    /// The number of restarts that are expected, including the earlier ones.
    pub restarts: u32,
    /// Those of them that a request which has ended has caused.
    pub earlier: u32,
    /// The number of restarts that the watch shows, including those before.
    pub shown: i64,
    /// The time until which the restarts may come, once nothing waits for them any more.
    pub until: Option<Moment>,
    /// The number of the last list that named the pod.
    pub list: u64,
}

/// The time until a node begins a restart whose write it has observed.
const BEGINS: Duration = Duration::from_secs(60);
/// The grace period of a pod that names none.
const GRACE: u32 = 30;

impl Begun {
    /// Returns the number of expected restarts that the watch has not shown.
    pub(crate) fn coming(&self) -> u32 {
        let shown = self.shown.saturating_sub(self.pod.restarts()).max(0);
        self.restarts
            .saturating_sub(u32::try_from(shown).unwrap_or(u32::MAX))
    }

    /// Returns the time after which a restart that has been written has come, or never will: a
    /// container has its grace period to stop.
    pub(crate) fn late_effect(&self) -> Duration {
        let grace = self.pod.grace_seconds.unwrap_or(GRACE);
        LATE_EFFECT.max(BEGINS + Duration::from_secs(grace.into()))
    }

    /// Returns true if the watch has shown all expected restarts.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown >= self.pod.restarts().saturating_add(self.restarts.into())
    }
}
