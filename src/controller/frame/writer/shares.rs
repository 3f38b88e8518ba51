//! How many of the writes in flight may be of one namespace, so that a tenant whose writes hang,
//! as behind a webhook that does not answer, holds up no other one.

use std::collections::HashMap;
use std::time::Duration;

/// A namespace counts as failing for this long after its last failure: longer than the longest
/// pause between two tries of a pod.
const REMEMBERED: Duration = Duration::from_secs(300);

/// The writes in flight, by namespace.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    namespaces: HashMap<Box<str>, Share>,
    /// The number of writes that did not fail.
    answered: u64,
}

#[derive(Debug, Default)]
struct Share {
    in_flight: usize,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    until: Duration,
    /// [`Shares::answered`] at the last failure.
    answered: u64,
}

impl Shares {
    /// Calls `next` for the next write of the namespaces that may begin one: those that have less
    /// than half of `size` in flight, and then, where that comes to nothing, any.
    pub(crate) fn next<T>(
        &self,
        size: usize,
        now: Duration,
        mut next: impl FnMut(&dyn Fn(&str) -> bool) -> Option<T>,
    ) -> Option<T> {
        [size.div_ceil(2), size]
            .into_iter()
            .find_map(|most| next(&|namespace| self.may_begin(namespace, most, now)))
    }

    /// Returns true if a namespace may begin another write, where it may have `most` in flight. A
    /// failing one may have one, until a write of it is answered.
    fn may_begin(&self, namespace: &str, most: usize, now: Duration) -> bool {
        let Some(share) = self.namespaces.get(namespace) else {
            return true;
        };
        let is_failing = share.failing.as_ref().is_some_and(|it| now < it.until);
        share.in_flight < if is_failing { 1 } else { most }
    }

    /// Records a write that has begun.
    pub(crate) fn began(&mut self, namespace: &str) {
        self.of(namespace).in_flight += 1;
    }

    /// Records a write that was applied, or refused for what it asks.
    pub(crate) fn answered(&mut self, namespace: &str) {
        self.answered += 1;
        let share = self.of(namespace);
        share.failing = None;
        share.in_flight = share.in_flight.saturating_sub(1);
        if share.in_flight == 0 {
            self.namespaces.remove(namespace);
        }
    }

    /// Records a write that failed. Returns false if that says nothing of other namespaces: they
    /// were answered since this one has failed before.
    pub(crate) fn failed(&mut self, namespace: &str, now: Duration) -> bool {
        self.namespaces.retain(|_, share| {
            share.in_flight > 0 || share.failing.as_ref().is_some_and(|it| now < it.until)
        });
        let answered = self.answered;
        let share = self.of(namespace);
        share.in_flight = share.in_flight.saturating_sub(1);
        let before = share.failing.replace(Failing {
            until: now + REMEMBERED,
            answered,
        });
        before.is_none_or(|before| before.answered == answered)
    }

    fn of(&mut self, namespace: &str) -> &mut Share {
        self.namespaces.entry(namespace.into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    #[test]
    fn a_namespace_takes_no_more_than_its_share_and_leaves_nothing_behind() {
        let mut shares = Shares::default();
        for _ in 0..8 {
            assert!(shares.may_begin("a", 8, NOW));
            shares.began("a");
        }
        assert!(!shares.may_begin("a", 8, NOW));
        assert!(shares.may_begin("b", 8, NOW));
        for _ in 0..8 {
            shares.answered("a");
        }
        assert!(shares.namespaces.is_empty());
    }

    #[test]
    fn one_that_fails_has_one_write_in_flight_until_one_succeeds() {
        let mut shares = Shares::default();
        shares.began("a");
        shares.failed("a", NOW);
        assert!(shares.may_begin("a", 8, NOW));
        shares.began("a");
        assert!(!shares.may_begin("a", 8, NOW));
        shares.answered("a");
        shares.began("a");
        assert!(shares.may_begin("a", 8, NOW));
    }

    #[test]
    fn a_failure_concerns_all_unless_others_were_answered_since_the_one_before() {
        let mut shares = Shares::default();
        for namespace in ["a", "a", "a", "b", "b"] {
            shares.began(namespace);
        }
        assert!(shares.failed("a", NOW));
        assert!(shares.failed("a", NOW), "nobody else was answered");
        shares.answered("b");
        assert!(!shares.failed("a", NOW));
        shares.began("a");
        assert!(shares.failed("a", NOW), "not since that one");
        assert!(shares.failed("b", NOW), "its first");
    }

    #[test]
    fn a_failure_is_forgotten_after_a_while() {
        let mut shares = Shares::default();
        shares.began("a");
        shares.failed("a", NOW);
        let later = NOW + REMEMBERED;
        shares.began("a");
        assert!(!shares.may_begin("a", 8, NOW));
        assert!(shares.may_begin("a", 8, later));
        shares.answered("a");
        shares.began("b");
        shares.failed("b", NOW);
        shares.began("c");
        shares.failed("c", later);
        assert_eq!(shares.namespaces.len(), 1, "only the last is kept");
    }
}
