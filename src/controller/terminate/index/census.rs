//! How many pods are kept for which reason, and which of them wait for their end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use swaplet_core::report::reason::Reason;

use super::{Entry, Index};

/// What counts of one pod: the latest decision, and since when its main containers have been seen
/// done where it waits for its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    reason: Option<Reason>,
    waits_since: Option<Duration>,
}

/// All pods together. A reason that was there stays, with 0.
#[derive(Debug, Default)]
pub(crate) struct Census {
    reasons: BTreeMap<Reason, usize>,
    waiting: BTreeSet<(Duration, Box<str>)>,
}

impl Census {
    /// A pod was decided about.
    pub(crate) fn count(&mut self, entry: &mut Entry) {
        let waits = entry.last.is_some_and(waits_for_its_end);
        let now = Counted {
            reason: entry.last,
            waits_since: entry.memory.mains_done_at.filter(|_| waits),
        };
        let before = std::mem::replace(&mut entry.counted, now);
        self.change(&entry.pod.uid, before, now);
    }

    /// A pod is not kept any more.
    pub(crate) fn forget(&mut self, entry: &Entry) {
        self.change(&entry.pod.uid, entry.counted, Counted::default());
    }

    fn change(&mut self, uid: &str, before: Counted, after: Counted) {
        if before == after {
            return;
        }
        if let Some(count) = before
            .reason
            .and_then(|reason| self.reasons.get_mut(&reason))
        {
            *count -= 1;
        }
        if let Some(reason) = after.reason {
            *self.reasons.entry(reason).or_default() += 1;
        }
        if let Some(since) = before.waits_since {
            self.waiting.remove(&(since, uid.into()));
        }
        if let Some(since) = after.waits_since {
            self.waiting.insert((since, uid.into()));
        }
    }
}

impl Index {
    /// How many pods are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no pod is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many pods wait for a write.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ready.len() + self.budgets.waiting()
    }

    /// How many pods are kept for which reason; reasons that have been there stay, with 0.
    pub fn reasons(&self) -> impl Iterator<Item = (Reason, usize)> {
        self.census
            .reasons
            .iter()
            .map(|(reason, pods)| (*reason, *pods))
    }

    /// Since when the main containers of the pod have been seen done that waits longest for its
    /// end.
    #[must_use]
    pub fn waits_since(&self) -> Option<Duration> {
        self.census.waiting.first().map(|(since, _)| *since)
    }
}

/// Whether it is for us to end the pod, and it has not ended.
const fn waits_for_its_end(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::SidecarsEnded
            | Reason::LeftToPlatform
            | Reason::LeftToOpenKruise
            | Reason::NotSelected
            | Reason::PodDeleting
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pod_counts_once_and_the_longest_wait_is_known() {
        let mut census = Census::default();
        let seconds = Duration::from_secs;
        let is = |reason, since| Counted {
            reason: Some(reason),
            waits_since: since,
        };
        let (runs, waits) = (is(Reason::MainsRunning, None), |at| {
            is(Reason::SwapPending, Some(seconds(at)))
        });
        census.change("a", Counted::default(), runs);
        census.change("b", Counted::default(), waits(7));
        census.change("a", runs, waits(5));
        assert_eq!(
            census
                .reasons
                .iter()
                .map(|(reason, pods)| (*reason, *pods))
                .collect::<Vec<_>>(),
            [(Reason::MainsRunning, 0), (Reason::SwapPending, 2)]
        );
        assert_eq!(census.waiting.first(), Some(&(seconds(5), "a".into())));
        census.change("a", waits(5), Counted::default());
        assert_eq!(
            (census.reasons[&Reason::SwapPending], census.waiting.len()),
            (1, 1)
        );
    }
}
