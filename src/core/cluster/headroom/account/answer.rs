//! The answers of a Job's account to swaps and restarts of containers of its pods.

use super::{Account, Claim, Entry, Totals, Turn, allowed};
use crate::cluster::headroom::{Headroom, Shortage};

/// What the swaps of a pod leave of the room that its Job has, if they are the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// They may take all of it: the pod has no other end.
    Nothing,
    /// One restart, while main containers run.
    OneToMains,
}

impl Leaves {
    /// Returns the restarts that these swaps would take from main containers.
    fn taken(self, totals: &Totals, swaps: i64, limit: u32) -> i64 {
        let takes_the_last = totals.mains_run > 0 && swaps >= totals.room(limit);
        i64::from(self == Self::OneToMains && takes_the_last)
    }
}

impl Account {
    pub(crate) fn answer(
        &self,
        turn: &Turn,
        swaps: i64,
        limit: u32,
        pods_known: bool,
        leaves: Leaves,
    ) -> Headroom {
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
                spared: 0,
            });
        }
        if !pods_known {
            return Headroom::TooEarly;
        }
        let fits_still = |granted: &i64| swaps <= *granted && self.totals.room(limit) >= 0;
        let without = self.totals_without(turn, entry, swaps);
        match &entry.claim {
            // It may have been written already.
            Claim::Held(granted) if fits_still(granted) => Headroom::Fits,
            // Main containers may have run, or failed, since it was granted.
            Claim::Granted(_, granted)
                if fits_still(granted) && leaves.taken(&without, swaps, limit) == 0 =>
            {
                Headroom::Fits
            }
            _ => self.answer_in_line(turn, &without, swaps, limit, leaves),
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
            spared: 0,
        };
        match room {
            room if restarts <= room => Headroom::Fits,
            _ if under_way > entry.claim.granted() => Headroom::Wait(shortage),
            _ => Headroom::NeverFits(shortage),
        }
    }

    /// Returns the sums with this pod in the queue, and without what was granted to it.
    fn totals_without(&self, turn: &Turn, entry: &Entry, swaps: i64) -> Totals {
        let mut totals = self.totals;
        totals.subtract(Totals::of(entry));
        totals.add(Totals::of(&Entry {
            claim: Claim::Waiting(turn.clone(), swaps),
            ..*entry
        }));
        totals
    }

    /// Returns the answer that [`settle`](Self::settle) would give with this pod in the queue, and
    /// these sums.
    fn answer_in_line(
        &self,
        turn: &Turn,
        totals: &Totals,
        swaps: i64,
        limit: u32,
        leaves: Leaves,
    ) -> Headroom {
        let is_first = self.line.first().is_none_or(|first| turn <= first);
        let alone = totals.under_way == 0;
        let spared = leaves.taken(totals, swaps, limit);
        let shortage = Shortage {
            limit,
            restarts: totals.restarts,
            under_way: totals.under_way,
            swaps,
            spared,
        };
        match totals.admits(swaps, limit) && spared == 0 {
            true if is_first || alone => Headroom::Fits,
            false if is_first && alone && totals.leaving == 0 => Headroom::NeverFits(shortage),
            _ => Headroom::Wait(shortage),
        }
    }
}
