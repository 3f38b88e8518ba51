//! The number of pods kept for each reason, and those that wait for their end.

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::reason::Reason;

/// The counted state of one pod: its latest decision, and when its main containers were observed
/// done if it waits for its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) reason: Option<Reason>,
    pub(crate) waits_since: Option<Moment>,
}

/// The totals of all pods. A reason that had pods before stays, with 0.
#[derive(Debug, Default)]
pub(crate) struct Census {
    reasons: BTreeMap<Reason, usize>,
    waiting: BTreeSet<(Moment, Box<str>)>,
}

impl Census {
    /// Returns the number of pods for each reason.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (Reason, usize)> {
        self.reasons.iter().map(|(reason, pods)| (*reason, *pods))
    }

    /// Returns the start of the longest wait; `None` if no pod waits.
    pub(crate) fn waits_since(&self) -> Option<Moment> {
        self.waiting.first().map(|(since, _)| *since)
    }

    /// Replaces the counted state of a pod.
    pub(crate) fn change(&mut self, uid: &str, before: Counted, after: Counted) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_pod_counts_once_and_the_longest_wait_is_known() {
        let mut census = Census::default();
        let seconds = |seconds| Moment::after_start(Duration::from_secs(seconds));
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
