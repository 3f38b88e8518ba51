//! The budget of updates per second of each provider, besides the limit of all writes; and the pods
//! that wait for it.

use std::collections::HashMap;

use swaplet_core::cluster::budget::{Bucket, Rate};
use swaplet_core::objects::moment::Moment;

use crate::frame::queue::FairQueue;

/// The budgets of all providers that have one.
#[derive(Debug, Default)]
pub struct Budgets {
    providers: HashMap<Box<str>, Provider>,
}

#[derive(Debug)]
struct Provider {
    rate: Rate,
    bucket: Bucket,
    waiting: FairQueue,
}

impl Budgets {
    /// Takes one update from the budget of a provider. Returns false if none is left now: the
    /// update must not be made, and the pod is queued.
    pub fn take(&mut self, provider: &str, rate: Rate, pod: (&str, &str), now: Moment) -> bool {
        let known = self.providers.entry(provider.into());
        let provider = known.or_insert_with(|| Provider {
            rate,
            bucket: Bucket::default(),
            waiting: FairQueue::default(),
        });
        let allowed = provider.bucket.next(provider.rate) <= now;
        if allowed {
            provider.bucket.take(provider.rate, now);
        } else {
            provider.waiting.push(pod.0, pod.1);
        }
        allowed
    }

    /// Removes and returns a queued pod whose provider has budget now, of a namespace that
    /// `may_begin` a write.
    pub fn pop(&mut self, may_begin: &dyn Fn(&str) -> bool, now: Moment) -> Option<Box<str>> {
        self.providers
            .values_mut()
            .filter(|provider| provider.bucket.next(provider.rate) <= now)
            .find_map(|provider| provider.waiting.pop_of(may_begin))
    }

    /// Returns when a queued pod will have budget; `None` if no pod is queued.
    pub fn next(&self) -> Option<Moment> {
        self.providers
            .values()
            .filter(|provider| !provider.waiting.is_empty())
            .map(|provider| provider.bucket.next(provider.rate))
            .min()
    }

    /// Returns the number of queued pods.
    pub fn waiting(&self) -> usize {
        self.providers
            .values()
            .map(|provider| provider.waiting.len())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FOUR: Rate = Rate::every(Duration::from_millis(250));

    const fn after(milliseconds: u64) -> Moment {
        Moment::after_start(Duration::from_millis(milliseconds))
    }

    #[test]
    fn providers_do_not_share_and_namespaces_take_turns() {
        let mut budgets = Budgets::default();
        let mut written = Vec::new();
        for number in 0..8 {
            let namespace = if number == 7 { "small" } else { "big" };
            let uid = format!("{namespace}-{number}");
            if budgets.take("eci", FOUR, (namespace, &uid), Moment::START) {
                written.push(uid);
            }
        }
        assert_eq!(written, ["big-0", "big-1", "big-2", "big-3"]);
        assert!(budgets.take("other", FOUR, ("big", "x"), Moment::START));
        assert_eq!((budgets.waiting(), budgets.next()), (4, Some(after(250))));
        assert_eq!(budgets.pop(&|_| true, after(249)), None);
        let mut order = Vec::new();
        for nth in 1..=4 {
            let now = after(250 * nth);
            let uid = budgets.pop(&|_| true, now).unwrap();
            let namespace = uid.split('-').next().unwrap();
            assert!(budgets.take("eci", FOUR, (namespace, &uid), now));
            assert_eq!(budgets.pop(&|_| true, now), None);
            order.push(uid.to_string());
        }
        assert_eq!(order, ["big-4", "small-7", "big-5", "big-6"]);
        assert_eq!((budgets.waiting(), budgets.next()), (0, None));
    }

    #[test]
    fn a_namespace_that_may_not_begin_holds_up_no_other() {
        let mut budgets = Budgets::default();
        for (namespace, number) in [("hangs", 0), ("hangs", 1), ("other", 2)] {
            let uid = format!("{namespace}-{number}");
            let pod = (namespace, uid.as_str());
            while budgets.take("eci", FOUR, pod, Moment::START) {}
        }
        let later = after(1000);
        let others = |namespace: &str| namespace != "hangs";
        assert_eq!(budgets.pop(&others, later).as_deref(), Some("other-2"));
        assert_eq!(budgets.pop(&others, later), None);
        assert_eq!(budgets.pop(&|_| true, later).as_deref(), Some("hangs-0"));
    }
}
