//! The answers of a Job's account to swaps and restarts of containers of its pods.

use super::{Account, Entry, Swapped, Totals, Turn, allowed};
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
        if entry.own() + swaps > allowed(limit) {
            return Headroom::NeverFits(Shortage {
                limit,
                restarts: entry.own(),
                under_way: 0,
                swaps,
                spared: 0,
            });
        }
        if !pods_known {
            return Headroom::TooEarly;
        }
        let (others, with) = self.totals_beside(entry);
        // What it keeps, or may have written, was found to fit.
        let spared = if entry.is_begun() {
            0
        } else {
            leaves.taken(&with, swaps, limit)
        };
        let fits = if entry.is_begun() {
            swaps <= allowed(limit) - with.restarts
        } else {
            with.admits(swaps, limit) && spared == 0
        };
        let shortage = Shortage {
            limit,
            restarts: with.restarts,
            under_way: others.under_way,
            swaps,
            spared,
        };
        let half_way = Some(entry.kept()).filter(|kept| *kept > 0);
        if fits {
            Headroom::Fits
        } else if self.makes_room(&with, limit, half_way) || others.leaving > 0 {
            Headroom::Wait(shortage)
        } else {
            Headroom::NeverFits(shortage)
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
        let room = self.totals.room(limit) + entry.claim;
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
            _ if under_way > entry.claim => Headroom::Wait(shortage),
            _ => Headroom::NeverFits(shortage),
        }
    }

    /// Returns the sums without this pod, and those with the restarts that it has shown and nothing
    /// more of it.
    fn totals_beside(&self, entry: &Entry) -> (Totals, Totals) {
        let mut others = self.totals;
        others.subtract(entry.totals());
        let mut with = others;
        let idle = Entry {
            seen: super::Seen {
                restarts: entry.own(),
                swapped: Swapped::default(),
                ..entry.seen
            },
            claim: 0,
            waits: None,
            list: entry.list,
        };
        with.add(idle.totals());
        (others, with)
    }
}
