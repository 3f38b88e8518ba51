//! Restarts that are under way, and when the pods of a Job last got on.

use std::collections::HashMap;
use std::time::Duration;

use swaplet_core::cluster::headroom::Ledger;
use swaplet_core::objects::pod::Pod;

/// After this a write without an answer has been applied, or never will be: the API server gives up
/// a request after a minute (its `--request-timeout`), and a watch shows what was done within
/// another.
pub(crate) const LATE_EFFECT: Duration = Duration::from_secs(120);

/// When swaps were last made in the pods of each Job, by its uid.
#[derive(Debug, Default)]
pub(crate) struct Lines(HashMap<Box<str>, Duration>);

impl Lines {
    /// When the line of those that wait for room in the Job of a pod last got on.
    pub(crate) fn moved(&self, pod: &Pod) -> Option<Duration> {
        self.0.get(&pod.job.as_ref()?.uid).copied()
    }

    /// It has got on.
    pub(crate) fn moves(&mut self, pod: &Pod, now: Duration) {
        if let Some(job) = pod.job.as_ref().filter(|_| Ledger::counts(pod)) {
            self.0.insert(job.uid.clone(), now);
        }
    }

    /// Keeps those of Jobs that have pods.
    pub(crate) fn keep(&mut self, headroom: &Ledger) {
        self.0.retain(|job, _| headroom.has_pods(job));
    }
}

/// Restarts of single containers of a pod that have been begun.
pub(crate) struct Begun {
    /// The pod, as it was before.
    pub pod: Pod,
    /// How many are to come.
    pub restarts: u32,
    /// How many restarts the watch shows, those before it included.
    pub shown: i64,
    /// Until when they may come, where nobody waits for them any more.
    pub until: Option<Duration>,
    /// The list that has named the pod last.
    pub list: u64,
}

impl Begun {
    /// Whether all that were to come are seen.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown >= self.pod.restarts().saturating_add(self.restarts.into())
    }
}
