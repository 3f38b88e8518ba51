//! One image on one node: its failed tries, and when the next may begin.
//!
//! An image is tried again a little later than the kubelet would (after 12 s instead of 10):
//! sooner, the kubelet only repeats its last report. `CrashLoopBackOff` does not show that an image
//! was pulled: after a failed pull the kubelet reports it for the previous container (measured).

use std::sync::Arc;
use std::time::Duration;

use crate::objects::moment::Moment;
use crate::objects::values::backoff::Backoff;

use super::action::{End, Ended};
use super::pulled::Pulled;

/// The back-off between tries of an image. It is a little longer than the kubelet's own (10 s,
/// doubled up to 300 s), so that each of our tries is a real pull.
const RETRY: Backoff = Backoff {
    first: Duration::from_secs(12),
    longest: Duration::from_secs(330),
};

/// The progress of one image on one node.
#[derive(Clone, Debug)]
pub struct ImageProgress {
    /// The image, as it was requested; one text for all nodes, because there are many.
    pub image: Arc<str>,
    /// The final result; `None` until it is known.
    pub end: Option<End>,
    /// What the kubelet reported about the pull.
    pub pulled: Option<Pulled>,
    failures: u32,
    /// True if the failure that the status shows is counted. A kubelet shows it until its next pull
    /// has ended.
    pub(crate) is_counted: bool,
    /// The earliest time of the next try.
    pub(crate) not_before: Moment,
    /// How long this try took before others had their turn on the node.
    pub(crate) spent: Duration,
}

impl ImageProgress {
    pub(crate) const fn new(image: Arc<str>) -> Self {
        Self {
            image,
            end: None,
            pulled: None,
            failures: 0,
            is_counted: false,
            not_before: Moment::START,
            spent: Duration::ZERO,
        }
    }

    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.end.is_none() && now >= self.not_before
    }

    /// Returns the final result on this node; `None` until it is known.
    pub(crate) fn ended(&self, node: &str) -> Option<Ended> {
        Some(Ended {
            node: node.into(),
            image: self.image.clone(),
            end: self.end.clone()?,
            pulled: self.pulled.clone(),
        })
    }

    /// Records what the kubelet reported about the pull.
    pub(crate) fn was_pulled(&mut self, pulled: &Pulled) {
        let is_same = *pulled.image == *self.image;
        let image = if is_same { &self.image } else { &pulled.image };
        self.pulled = Some(Pulled {
            image: image.clone(),
            ..*pulled
        });
    }

    /// Records a failed try and sets the back-off. Returns true if another try is allowed.
    pub(crate) fn may_try_again(&mut self, backoff_limit: u32, now: Moment) -> bool {
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        self.is_counted = true;
        (self.not_before, self.spent) = (now + wait, Duration::ZERO);
        self.failures <= backoff_limit
    }
}
