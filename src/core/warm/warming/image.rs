//! One image on one node: how often it was tried, and when it may be tried again.
//!
//! An image is tried again a little later than the kubelet would (12 s instead of 10): sooner, the
//! kubelet only repeats what it has said. `CrashLoopBackOff` is no sign that an image was pulled:
//! after a failed pull the kubelet says it of the container before (measured).

use crate::objects::values::backoff::Backoff;
use std::time::Duration;

use super::action::{End, Ended};
use super::pulled::Pulled;

/// The wait before the second try of an image; it doubles. A little longer than the kubelet's own
/// (10 s, doubled up to 300 s), so that each of our tries is a real pull.
const RETRY: Backoff = Backoff {
    first: Duration::from_secs(12),
    longest: Duration::from_secs(330),
};

/// One image on one node.
#[derive(Clone, Debug)]
pub struct ImageProgress {
    /// As it was asked for.
    pub image: Box<str>,
    /// What became of it, once that is known.
    pub end: Option<End>,
    /// What the kubelet has said of the pull.
    pub pulled: Option<Pulled>,
    failures: u32,
    /// When the next try may begin.
    pub(crate) not_before: Duration,
    /// What this try has taken before others had their turn on the node.
    pub(crate) spent: Duration,
}

impl ImageProgress {
    pub(crate) fn new(image: &str) -> Self {
        Self {
            image: image.into(),
            end: None,
            pulled: None,
            failures: 0,
            not_before: Duration::ZERO,
            spent: Duration::ZERO,
        }
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.end.is_none() && now >= self.not_before
    }

    /// What became of it on this node, once that is known.
    pub(crate) fn ended(&self, node: &str) -> Option<Ended> {
        Some(Ended {
            node: node.into(),
            image: self.image.clone(),
            end: self.end.clone()?,
            pulled: self.pulled.clone(),
        })
    }

    /// A try has failed. Whether it gets another one, after a wait.
    pub(crate) fn may_try_again(&mut self, backoff_limit: u32, now: Duration) -> bool {
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        (self.not_before, self.spent) = (now + wait, Duration::ZERO);
        self.failures <= backoff_limit
    }
}
