//! The account of one Job: sums over its pods, and the pods that wait for the sums to fall.
//!
//! An answer depends on the sums and on the pod that asks, and on nothing else. Waiting changes no
//! sum, and so does an answer: what one pod is told moves no other pod.
//!
//! Swaps do not use all the room that a Job has: half of it is left to main containers that still
//! run, and one restart to the sidecars of pods that wait. A container that fails at the wrong
//! moment must not fail the Job either. Where only one swap fits, it takes the last restart only if
//! nothing else ends its pod ([`Leaves`]). A pod in which a swap was made keeps the room for its
//! other sidecars.

use std::collections::{BTreeMap, BTreeSet};

use super::Need;
use crate::cluster::headroom::{Headroom, Shortage};
use crate::objects::pod::{Pod, roles};
use crate::report::reason::Reason;

/// The place of a pod among those that wait: by the time at which the last of its main containers
/// ended, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Turn {
    mains_ended: Option<jiff::Timestamp>,
    name: Box<str>,
    uid: Box<str>,
}

/// The observed state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    /// The sum of its restartCounts.
    pub(crate) restarts: i64,
    /// What was swapped in it, and what that leaves.
    pub(crate) swapped: Swapped,
    /// True until its main containers are done.
    pub(crate) mains_run: bool,
    /// True if an exit image that is not started may fail it.
    pub(crate) may_fail: bool,
    /// True if one of its containers has failed, so that it will fail as well.
    pub(crate) has_failed: bool,
    /// True while the pod is being deleted. That may last for ever (its node is dead), and swapped
    /// containers need not end.
    pub(crate) deleting: bool,
    /// A digest of its namespace.
    pub(crate) namespace: u64,
}

/// One pod that is not finished.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    seen: Seen,
    /// The restarts that may be in flight: a write has begun, or its effect is not shown.
    claim: i64,
    /// The swaps for which it waits, with its place.
    waits: Option<(Turn, i64)>,
    list: u64,
}

/// The swaps that were made in a pod, by any writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Swapped {
    /// Containers whose image in the spec is an exit image: the pod will end, and its restarts will
    /// not count any more.
    pub containers: u32,
    /// The restarts that are to be expected of these. If the status does not show one, it counts as
    /// still to come.
    pub coming: u32,
    /// The sidecars that have not ended and are not swapped.
    pub left: u32,
}

/// The list of pods that have failed, and that no list names any more.
const FAILED: u64 = u64::MAX;

/// The account of one Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    pods: BTreeMap<Box<str>, Entry>,
    /// The pods that wait.
    line: BTreeSet<Turn>,
    totals: Totals,
    /// How many pods are half-way, by the restarts that they still need.
    half_way: BTreeMap<i64, usize>,
    /// True if nothing in progress makes room: who waits was woken to learn it.
    stands: bool,
    /// The reasons reported for the Job under this limit.
    pub(super) said: BTreeSet<Reason>,
}

/// Sums over all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Totals {
    /// The restarts that the Job controller counts, and those that swaps will add.
    restarts: i64,
    /// Swaps that may be written, or are done in a pod that has not ended.
    under_way: i64,
    /// Swaps that pods still need in which another one was made.
    kept: i64,
    /// Pods whose sidecars are all swapped: they end without any more room.
    ending: i64,
    /// The restarts of pods that are being deleted, which will not count any more.
    leaving: i64,
    /// Pods whose main containers are not done.
    mains_run: i64,
    /// Pods without a swap, including those whose main containers are not done.
    idle: i64,
    /// Pods that may fail, or will: their Job has not counted them yet.
    at_risk: i64,
}

impl Turn {
    pub(crate) fn of(pod: &Pod) -> Self {
        Self {
            mains_ended: roles::mains_ended_at(pod),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }
}

impl Entry {
    /// Returns the restarts that it has shown, and those that its swaps will add.
    fn own(&self) -> i64 {
        self.seen.restarts + i64::from(self.seen.swapped.coming)
    }

    fn is_begun(&self) -> bool {
        self.seen.swapped.containers > 0 || self.claim > 0
    }

    /// Returns the swaps that it still needs, if another one was made and it may go on.
    fn kept(&self) -> i64 {
        let Swapped {
            containers, left, ..
        } = self.seen.swapped;
        if containers == 0 || self.seen.deleting {
            return 0;
        }
        (i64::from(left) - self.claim).max(0)
    }

    fn totals(&self) -> Totals {
        let restarts = self.own() + self.claim;
        let at_risk = self.seen.has_failed || (self.seen.may_fail && self.is_begun());
        let at_risk = i64::from(at_risk);
        if self.seen.deleting {
            return Totals {
                restarts,
                leaving: restarts,
                at_risk,
                ..Totals::default()
            };
        }
        let kept = self.kept();
        Totals {
            restarts,
            under_way: i64::from(self.seen.swapped.containers) + self.claim,
            kept,
            ending: i64::from(self.is_begun() && kept == 0),
            leaving: 0,
            mains_run: i64::from(self.seen.mains_run),
            idle: i64::from(!self.is_begun()),
            at_risk,
        }
    }
}

impl Totals {
    /// Adds these totals, or subtracts them where `sign` is -1.
    fn add(&mut self, other: Self, sign: i64) {
        self.restarts += sign * other.restarts;
        self.under_way += sign * other.under_way;
        self.kept += sign * other.kept;
        self.ending += sign * other.ending;
        self.leaving += sign * other.leaving;
        self.mains_run += sign * other.mains_run;
        self.idle += sign * other.idle;
        self.at_risk += sign * other.at_risk;
    }

    /// Returns the restarts that no pod has shown, may cause or keeps.
    fn room(&self, limit: u32) -> i64 {
        allowed(limit) - self.restarts - self.kept
    }

    /// Returns true if this many swaps of a pod without any may be made. The first swap may use all
    /// the room; those beside it leave a rest.
    fn admits(&self, swaps: i64, limit: u32) -> bool {
        let (room, busy) = (self.room(limit), self.under_way + self.kept);
        let all = room + busy;
        swaps <= room && (busy == 0 || busy + swaps <= all - self.rest(all))
    }

    /// Returns the room to leave free. Containers may fail at any moment and be restarted, and
    /// together with swaps this must not fail the Job. So half of the room is left to main
    /// containers as long as any runs, and one restart to the sidecars of pods that wait.
    const fn rest(&self, all: i64) -> i64 {
        match (self.mains_run, self.idle) {
            (1.., _) => all / 2,
            (_, 2..) => 1,
            _ => 0,
        }
    }
}

/// Returns true if this many swaps in one pod, and nothing else, fit into the `backoffLimit` of its
/// Job. Under `OnFailure` each is a restart that counts.
pub fn fits_alone(swaps: u32, limit: u32) -> bool {
    i64::from(swaps) <= allowed(limit)
}

/// Returns the largest sum of restarts that does not fail the Job.
fn allowed(limit: u32) -> i64 {
    i64::from(limit).saturating_sub(1).max(0)
}

impl Account {
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Returns how many pods beside this one may fail, or will; `None` if a swap of it has begun.
    pub(crate) fn at_risk_beside(&self, uid: &str) -> Option<i64> {
        let is_begun = self.pods.get(uid).is_some_and(Entry::is_begun);
        (!is_begun).then_some(self.totals.at_risk)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Returns the uids of the pods whose main containers are done.
    pub(crate) fn done_pods(&self) -> impl Iterator<Item = Box<str>> {
        self.pods
            .iter()
            .filter(|(_, entry)| !entry.seen.mains_run)
            .map(|(uid, _)| uid.clone())
    }

    pub(crate) fn observe(&mut self, uid: &str, seen: Seen, list: u64) {
        let entry = self.take(uid);
        let (claim, waits) = entry.map_or((0, None), |entry| (entry.claim, entry.waits));
        self.put(
            uid.into(),
            Entry {
                seen,
                claim,
                waits,
                list,
            },
        );
    }

    pub(crate) fn forget(&mut self, uid: &str) {
        self.take(uid);
    }

    /// Keeps a pod that has failed until its Job counts it, or pods are listed.
    pub(crate) fn failed(&mut self, uid: &str) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.list = FAILED;
        }
    }

    /// Forgets the pods that have failed, because their Job has counted some.
    pub(crate) fn counted(&mut self) {
        self.forget_all(|entry| entry.list == FAILED);
    }

    /// Forgets pods that the list did not contain.
    pub(crate) fn sweep(&mut self, list: u64) {
        self.forget_all(|entry| entry.list != list);
    }

    fn forget_all(&mut self, is_gone: impl Fn(&Entry) -> bool) -> Vec<Box<str>> {
        let gone = self.pods.iter().filter(|(_, entry)| is_gone(entry));
        let gone: Vec<_> = gone.map(|(uid, _)| uid.clone()).collect();
        gone.iter().for_each(|uid| self.forget(uid));
        gone
    }

    /// Records what a pod needs.
    pub(crate) fn need(&mut self, turn: Turn, need: Need) {
        let Some(mut entry) = self.take(&turn.uid) else {
            return;
        };
        let uid = turn.uid.clone();
        match need {
            Need::Nothing => (entry.claim, entry.waits) = (0, None),
            Need::Waits(swaps) => (entry.claim, entry.waits) = (0, Some((turn, swaps.into()))),
            Need::Held => entry.waits = None,
            Need::Begun(restarts) => (entry.claim, entry.waits) = (restarts.into(), None),
        }
        self.put(uid, entry);
    }

    /// Wakes the pods that fit now, first come, first served: a later one passes the first only
    /// while nothing is in progress that the first one could wait for. So a pod that needs much
    /// room gets it when the others have ended. Where nothing makes room any more, all learn it.
    pub(crate) fn settle(&mut self, limit: u32, wakes: &mut Vec<Box<str>>) {
        let mut totals = self.totals;
        let mut woken = Vec::new();
        for turn in &self.line {
            let waits = self.pods.get(&turn.uid).and_then(|pod| pod.waits.as_ref());
            let swaps = waits.map_or(0, |(_, swaps)| *swaps);
            if totals.admits(swaps, limit) {
                totals.restarts += swaps;
                totals.under_way += swaps;
                woken.push(turn.uid.clone());
            } else if totals.under_way > 0 || totals.room(limit) <= 0 {
                break;
            }
        }
        let stands = woken.is_empty() && !self.makes_room(&self.totals, limit, None);
        if stands && !self.stands {
            woken.extend(self.line.iter().map(|turn| turn.uid.clone()));
        }
        self.stands = stands;
        woken.iter().for_each(|uid| self.stops_waiting(uid));
        wakes.extend(woken);
    }

    /// Wakes all pods whose main containers are done, also those that wait: what they were told may not
    /// be true any more.
    pub(crate) fn wake_all(&mut self, wakes: &mut Vec<Box<str>>) {
        let all: Vec<_> = self.done_pods().collect();
        all.iter().for_each(|uid| self.stops_waiting(uid));
        wakes.extend(all);
    }

    /// Returns true if a pod in progress ends without more room than there is: all its sidecars are
    /// swapped, or it is half-way and what it needs fits. `but`: what a pod that is left out needs,
    /// if it is half-way; it is not in the sums.
    fn makes_room(&self, totals: &Totals, limit: u32, but: Option<i64>) -> bool {
        let mut others = self.half_way.iter().filter_map(|(needs, pods)| {
            (*pods > usize::from(but == Some(*needs))).then_some(*needs)
        });
        totals.ending > 0
            || others
                .next()
                .is_some_and(|least| least <= allowed(limit) - totals.restarts)
    }

    fn stops_waiting(&mut self, uid: &str) {
        if let Some(entry) = self.take(uid) {
            let waits = None;
            self.put(uid.into(), Entry { waits, ..entry });
        }
    }

    fn take(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.pods.remove(uid)?;
        self.totals.add(entry.totals(), -1);
        let kept = entry.kept();
        if let Some(pods) = self.half_way.get_mut(&kept) {
            *pods -= 1;
            if *pods == 0 {
                self.half_way.remove(&kept);
            }
        }
        if let Some((turn, _)) = &entry.waits {
            self.line.remove(turn);
        }
        Some(entry)
    }

    fn put(&mut self, uid: Box<str>, entry: Entry) {
        self.totals.add(entry.totals(), 1);
        if entry.kept() > 0 {
            *self.half_way.entry(entry.kept()).or_default() += 1;
        }
        if let Some((turn, _)) = &entry.waits {
            self.line.insert(turn.clone());
        }
        self.pods.insert(uid, entry);
    }
}

// Pods that name a Job of another namespace. They are observed before the Job where pods are
// listed first, and many of them never again.

impl Account {
    /// Forgets the pods of all namespaces but the one with this digest; returns their uids.
    pub(crate) fn forget_strangers(&mut self, namespace: u64) -> Vec<Box<str>> {
        self.forget_all(|entry| entry.seen.namespace != namespace)
    }
}

// The answers of a Job's account to swaps and restarts of containers of its pods.

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
        uid: &str,
        swaps: i64,
        limit: u32,
        pods_known: bool,
        leaves: Leaves,
    ) -> Headroom {
        let Some(entry) = self.pods.get(uid) else {
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
        let (spared, fits) = if entry.is_begun() {
            (0, swaps <= allowed(limit) - with.restarts)
        } else {
            let spared = leaves.taken(&with, swaps, limit);
            (spared, with.admits(swaps, limit) && spared == 0)
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
        others.add(entry.totals(), -1);
        let mut with = others;
        let idle = Entry {
            seen: Seen {
                restarts: entry.own(),
                swapped: Swapped::default(),
                ..entry.seen
            },
            claim: 0,
            waits: None,
            list: entry.list,
        };
        with.add(idle.totals(), 1);
        (others, with)
    }
}
