//! The answers of the ledger to pods, by the account of their Job.

use super::account::{Leaves, Turn};
use super::{Headroom, Ledger, clamp, counted_by};
use crate::objects::pod::Pod;

impl Ledger {
    /// Returns the answer to a pod whose swaps may cause this many restarts. The pod must have been
    /// observed as it is.
    #[must_use]
    pub fn answer(&self, pod: &Pod, restarts: u32) -> Headroom {
        self.answer_leaving(Leaves::Nothing, pod, restarts)
    }

    /// Like [`answer`](Self::answer), for a pod that can be ended without a restart, too: it does
    /// not take the last restart of its Job while main containers of other pods run, because one of
    /// them may need it.
    #[must_use]
    pub fn answer_sparing(&self, pod: &Pod, restarts: u32) -> Headroom {
        self.answer_leaving(Leaves::OneToMains, pod, restarts)
    }

    fn answer_leaving(&self, leaves: Leaves, pod: &Pod, restarts: u32) -> Headroom {
        let Some(job) = counted_by(pod) else {
            return Headroom::Free;
        };
        match (self.limit(job), self.accounts.get(job)) {
            (Some(limit), Some(account)) => {
                let turn = Turn::of(pod);
                account.answer(&turn, restarts.into(), limit, self.pods_known, leaves)
            }
            (None, _) if self.jobs_known || self.trouble.is_some() => self.job_unknown(),
            _ => Headroom::TooEarly,
        }
    }

    /// Returns the answer to a restart of this many containers of a pod whose work continues. It is
    /// never queued.
    #[must_use]
    pub fn answer_restarts(&self, pod: &Pod, restarts: u32) -> Headroom {
        let Some(job) = counted_by(pod) else {
            return Headroom::Free;
        };
        match (self.limit(job), self.accounts.get(job)) {
            (Some(limit), Some(account)) if self.pods_known => {
                // The pod may have been observed later than the one of the account.
                let shown = clamp(pod.restarts());
                account.answer_restarts(&pod.uid, shown, restarts.into(), limit)
            }
            (None, _) if self.jobs_known || self.trouble.is_some() => self.job_unknown(),
            _ => Headroom::TooEarly,
        }
    }

    fn job_unknown(&self) -> Headroom {
        Headroom::JobUnknown {
            trouble: self.trouble.clone().or_else(|| self.hidden.clone()),
        }
    }
}
