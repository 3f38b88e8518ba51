//! How many of the writes in flight may be of one namespace, so that a tenant whose writes hang,
//! as behind a webhook that does not answer, holds up no other one.

use std::collections::HashMap;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;

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
    until: Moment,
    /// [`Shares::answered`] at the last failure.
    answered: u64,
    /// The writes that it may have in flight: one more with each that was answered since.
    may: usize,
}

impl Share {
    fn failing(&self, now: Moment) -> Option<&Failing> {
        self.failing.as_ref().filter(|failing| now < failing.until)
    }

    fn is_suspect(&self, now: Moment) -> bool {
        self.failing(now).is_some_and(|failing| failing.may == 1)
    }
}

impl Shares {
    /// Calls `next` for the next write of the namespaces that may begin one, of `size` that may be
    /// in flight. Those that have less than half of them come first. Then any may have all but
    /// one, which is left to a namespace that has none.
    pub fn next<T>(
        &self,
        size: usize,
        now: Moment,
        mut next: impl FnMut(&dyn Fn(&str) -> bool) -> Option<T>,
    ) -> Option<T> {
        let suspects_may = self.suspects(now) < (size / 4).max(1);
        [size.div_ceil(2), size - usize::from(size > 1)]
            .into_iter()
            .find_map(|most| next(&|namespace| self.room(namespace, most, suspects_may, now) > 0))
    }

    /// Returns how many writes a namespace may begin, of `size` that may be in flight.
    pub fn room_of(&self, namespace: &str, size: usize, now: Moment) -> usize {
        let suspects_may = self.suspects(now) < (size / 4).max(1);
        self.room(namespace, size - usize::from(size > 1), suspects_may, now)
    }

    /// Returns the number of writes in flight of namespaces whose last write failed. Together they
    /// have a quarter of all.
    pub fn suspects(&self, now: Moment) -> usize {
        let suspects = self.namespaces.values().filter(|it| it.is_suspect(now));
        suspects.map(|share| share.in_flight).sum()
    }

    /// Returns true if the last write of a namespace failed, and not long ago.
    pub fn is_suspect(&self, namespace: &str, now: Moment) -> bool {
        self.namespaces
            .get(namespace)
            .is_some_and(|share| share.is_suspect(now))
    }

    fn room(&self, namespace: &str, most: usize, suspects_may: bool, now: Moment) -> usize {
        let Some(share) = self.namespaces.get(namespace) else {
            return most;
        };
        let most = match share.failing(now) {
            Some(failing) if failing.may == 1 => usize::from(suspects_may),
            Some(failing) => most.min(failing.may),
            None => most,
        };
        most.saturating_sub(share.in_flight)
    }

    /// Returns the number of writes in flight of a namespace.
    pub fn in_flight(&self, namespace: &str) -> usize {
        let share = self.namespaces.get(namespace);
        share.map_or(0, |share| share.in_flight)
    }

    pub fn began(&mut self, namespace: &str) {
        self.of(namespace).in_flight += 1;
    }

    /// Records a write that was applied, or refused for what it asks.
    pub fn answered(&mut self, namespace: &str) {
        self.answered += 1;
        let share = self.of(namespace);
        if let Some(failing) = &mut share.failing {
            failing.may = failing.may.saturating_add(1);
        }
        share.in_flight = share.in_flight.saturating_sub(1);
        if share.in_flight == 0 && share.failing.is_none() {
            self.namespaces.remove(namespace);
        }
    }

    /// Records a write that failed. Returns false if that says nothing of other namespaces: others
    /// were answered since this one has failed before.
    pub fn failed(&mut self, namespace: &str, now: Moment) -> bool {
        self.namespaces
            .retain(|_, share| share.in_flight > 0 || share.failing(now).is_some());
        let answered = self.answered;
        let share = self.of(namespace);
        share.in_flight = share.in_flight.saturating_sub(1);
        let before = share.failing.replace(Failing {
            until: now + REMEMBERED,
            answered,
            may: 1,
        });
        before.is_none_or(|before| before.until <= now || before.answered == answered)
    }

    fn of(&mut self, namespace: &str) -> &mut Share {
        self.namespaces.entry(namespace.into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::after_start(Duration::from_secs(1));

    /// Begins writes of these namespaces, of 16, in turns until none may; how many of each.
    fn begin(shares: &mut Shares, namespaces: &[&str]) -> Vec<usize> {
        let mut begun = vec![0; namespaces.len()];
        let mut nth = 0;
        while begun.iter().sum::<usize>() < 16 {
            let next = shares.next(16, NOW, |may_begin| {
                let turns = (0..namespaces.len()).map(|step| (nth + step) % namespaces.len());
                turns.into_iter().find(|of| may_begin(namespaces[*of]))
            });
            let Some(of) = next else { break };
            shares.began(namespaces[of]);
            begun[of] += 1;
            nth = of + 1;
        }
        begun
    }

    #[test]
    fn a_namespace_alone_leaves_one_place_to_the_next_and_nothing_behind() {
        let mut shares = Shares::default();
        assert_eq!(begin(&mut shares, &["a"]), [15]);
        assert_eq!(begin(&mut shares, &["b"]), [15]);
        for _ in 0..15 {
            shares.answered("a");
            shares.answered("b");
        }
        assert!(shares.namespaces.is_empty());
    }

    #[test]
    fn two_have_half_each() {
        assert_eq!(begin(&mut Shares::default(), &["a", "b"]), [8, 8]);
    }

    #[test]
    fn one_that_fails_has_one_and_one_more_with_each_that_is_answered() {
        let mut shares = Shares::default();
        shares.began("a");
        shares.failed("a", NOW);
        assert_eq!(begin(&mut shares, &["a"]), [1]);
        shares.answered("a");
        assert_eq!(begin(&mut shares, &["a"]), [2]);
        shares.answered("a");
        assert_eq!(begin(&mut shares, &["a"]), [2], "one of them is in flight");
    }

    #[test]
    fn those_that_fail_have_a_quarter_together() {
        let mut shares = Shares::default();
        let all: Vec<_> = (0..10).map(|nth| format!("bad-{nth}")).collect();
        let mut names: Vec<_> = all.iter().map(String::as_str).collect();
        for name in &names {
            shares.began(name);
            shares.failed(name, NOW);
        }
        names.push("good");
        let begun = begin(&mut shares, &names);
        assert_eq!((begun[..10].iter().sum::<usize>(), begun[10]), (4, 12));
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
        assert!(shares.is_suspect("a", NOW) && !shares.is_suspect("a", NOW + REMEMBERED));
        shares.began("b");
        shares.failed("b", NOW + REMEMBERED);
        assert_eq!(shares.namespaces.len(), 1, "only the last is kept");
    }
}
