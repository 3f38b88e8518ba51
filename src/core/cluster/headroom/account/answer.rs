//! The answers of a Job's account to swaps and restarts of containers of its pods.

use super::{Account, Claim, Entry, Totals, Turn, allowed};
use crate::cluster::headroom::{Headroom, Shortage};

impl Account {
    pub(crate) fn answer(&self, turn: &Turn, swaps: i64, limit: u32, pods_known: bool) -> Headroom {
        let Some(entry) = self.pods.get(&turn.uid) else {
            return Headroom::TooEarly;
        };
        let own = entry.seen.restarts + entry.seen.coming;
        if own + swaps > allowed(limit) {
            return Headroom::NeverFits(Shortage {
                limit,
                restarts: own,
                under_way: 0,
                swaps,
            });
        }
        match &entry.claim {
            _ if !pods_known => Headroom::TooEarly,
            Claim::Granted(_, granted) | Claim::Held(granted)
                if swaps <= *granted && self.totals.room(limit) >= 0 =>
            {
                Headroom::Fits
            }
            _ => self.answer_in_line(turn, entry, swaps, limit),
        }
    }

    /// Returns the answer to this many more restarts of a pod that has shown so many. What swaps in
    /// progress take becomes room again when their pods have ended.
    pub(crate) fn answer_restarts(
        &self,
        uid: &str,
        shown: i64,
        restarts: i64,
        limit: u32,
    ) -> Headroom {
        let Some(entry) = self.pods.get(uid) else {
            return Headroom::TooEarly;
        };
        let restarts = restarts + (shown - entry.seen.restarts).max(0);
        let room = self.totals.room(limit) + entry.claim.granted();
        let Totals {
            restarts: counted,
            under_way,
            ..
        } = self.totals;
        let shortage = Shortage {
            limit,
            restarts: counted,
            under_way,
            swaps: restarts,
        };
        match room {
            room if restarts <= room => Headroom::Fits,
            _ if under_way > entry.claim.granted() => Headroom::Wait(shortage),
            _ => Headroom::NeverFits(shortage),
        }
    }

    /// Returns the answer that [`settle`](Self::settle) would give with this pod in the queue.
    fn answer_in_line(&self, turn: &Turn, entry: &Entry, swaps: i64, limit: u32) -> Headroom {
        let mut totals = self.totals;
        totals.subtract(Totals::of(entry));
        totals.add(Totals::of(&Entry {
            claim: Claim::Waiting(turn.clone(), swaps),
            ..*entry
        }));
        let is_first = self.line.first().is_none_or(|first| turn <= first);
        let alone = totals.under_way == 0;
        let shortage = Shortage {
            limit,
            restarts: totals.restarts,
            under_way: totals.under_way,
            swaps,
        };
        match totals.admits(swaps, limit) {
            true if is_first || alone => Headroom::Fits,
            false if is_first && alone && totals.leaving == 0 => Headroom::NeverFits(shortage),
            _ => Headroom::Wait(shortage),
        }
    }
}
