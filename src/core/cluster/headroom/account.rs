//! The account of one Job: the restarts of its pods, and the queue for room.
//!
//! Swaps do not use all the room that a Job has: half of it is left to main containers that still
//! run, and one restart to the sidecars of pods that wait. A container that fails at the wrong
//! moment must not fail the Job either. Where only one swap fits, it takes the last restart only if
//! nothing else ends its pod ([`Leaves`]).

mod answer;
mod strangers;

use std::collections::{BTreeMap, BTreeSet};

use super::Need;
use crate::objects::pod::{Pod, roles};
use crate::report::reason::Reason;
pub(crate) use answer::Leaves;
pub(crate) use strangers::digest;

/// The place of a pod in the queue: by the time at which the last of its main containers ended,
/// then by name.
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
    /// Its containers with an exit image: the pod will end, and its restarts will not count any
    /// more.
    pub(crate) swapped: i64,
    /// The restarts that the swapped containers may still cause.
    pub(crate) coming: i64,
    /// True until its main containers are done.
    pub(crate) mains_run: bool,
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
    claim: Claim,
    list: u64,
}

/// The claim of a pod on the room of its Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Claim {
    #[default]
    None,
    /// The pod is queued for this many swaps.
    Waiting(Turn, i64),
    /// The pod may write and has not begun, so this can be revoked.
    Granted(Turn, i64),
    /// The pod may have written.
    Held(i64),
}

/// The swaps that were made in a pod, by any writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swapped {
    /// Containers whose image in the spec is an exit image.
    pub containers: u32,
    /// The restarts that are to be expected of these. If the status does not show one, it counts as
    /// still to come.
    pub coming: u32,
}

/// The account of one Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    pods: BTreeMap<Box<str>, Entry>,
    line: BTreeSet<Turn>,
    totals: Totals,
    /// The first in the queue, if nothing in progress will make room for it.
    blocked: Option<Box<str>>,
    /// Set while the granted swaps do not fit any more, because containers restarted by themselves.
    overdrawn: bool,
    /// The reasons reported for the Job under this limit.
    said: BTreeSet<Reason>,
}

/// Sums over all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Totals {
    /// The restarts that the Job controller counts, and those that swaps will add.
    restarts: i64,
    /// Swaps that are granted, written, or done in a pod that has not ended.
    under_way: i64,
    /// The restarts of pods that are being deleted, which will not count any more.
    leaving: i64,
    /// Pods whose main containers are not done.
    mains_run: i64,
    /// Pods without a granted or made swap, including those whose main containers are not done.
    idle: i64,
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

impl Claim {
    const fn granted(&self) -> i64 {
        match self {
            Self::Granted(_, swaps) | Self::Held(swaps) => *swaps,
            Self::None | Self::Waiting(..) => 0,
        }
    }
}

impl Totals {
    fn of(entry: &Entry) -> Self {
        let Entry { seen, claim, .. } = entry;
        // A queued pod does not end by itself, whatever was swapped in it.
        let under_way = if matches!(claim, Claim::Waiting(..)) || seen.deleting {
            0
        } else {
            seen.swapped + claim.granted()
        };
        let restarts = seen.restarts + seen.coming + claim.granted();
        Self {
            restarts,
            under_way,
            leaving: if seen.deleting { restarts } else { 0 },
            mains_run: i64::from(seen.mains_run && !seen.deleting),
            idle: i64::from(under_way == 0 && !seen.deleting),
        }
    }

    fn add(&mut self, other: Self) {
        self.restarts += other.restarts;
        self.under_way += other.under_way;
        self.leaving += other.leaving;
        self.mains_run += other.mains_run;
        self.idle += other.idle;
    }

    fn subtract(&mut self, other: Self) {
        let Self {
            restarts,
            under_way,
            leaving,
            mains_run,
            idle,
        } = other;
        self.add(Self {
            restarts: -restarts,
            under_way: -under_way,
            leaving: -leaving,
            mains_run: -mains_run,
            idle: -idle,
        });
    }

    fn room(&self, limit: u32) -> i64 {
        allowed(limit) - self.restarts
    }

    /// Returns true if this many swaps of an idle pod may be granted. The first swap may use all
    /// the room; those beside it leave a rest.
    fn admits(&self, swaps: i64, limit: u32) -> bool {
        let room = self.room(limit);
        let all = room + self.under_way;
        swaps <= room && (self.under_way == 0 || self.under_way + swaps <= all - self.rest(all))
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
#[must_use]
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
        if self
            .pods
            .get(uid)
            .is_some_and(|entry| entry.seen == seen && entry.list == list)
        {
            return;
        }
        let claim = self.take(uid).map(|entry| entry.claim).unwrap_or_default();
        self.put(uid.into(), Entry { seen, claim, list });
    }

    pub(crate) fn forget(&mut self, uid: &str) {
        self.take(uid);
    }

    /// Returns the uids of the pods that may have written.
    pub(crate) fn held_pods(&self) -> impl Iterator<Item = Box<str>> {
        self.pods
            .iter()
            .filter(|(_, entry)| matches!(entry.claim, Claim::Held(_)))
            .map(|(uid, _)| uid.clone())
    }

    /// Forgets pods that the list did not contain.
    pub(crate) fn sweep(&mut self, list: u64) {
        let gone: Vec<_> = self
            .pods
            .iter()
            .filter(|(_, entry)| entry.list != list)
            .map(|(uid, _)| uid.clone())
            .collect();
        gone.iter().for_each(|uid| self.forget(uid));
    }

    /// Records a reported reason; true the first time.
    pub(crate) fn first_time(&mut self, reason: Reason) -> bool {
        self.said.insert(reason)
    }

    /// Records that the limit has changed: what was reported is no longer true.
    pub(crate) fn limit_changed(&mut self) {
        self.said.clear();
        self.begin_anew();
    }

    /// Discards all earlier answers, except for what may be written already.
    pub(crate) fn begin_anew(&mut self) {
        self.revoke();
        self.blocked = None;
    }

    /// Revokes what was granted and not begun: those pods are queued again.
    fn revoke(&mut self) {
        let granted = self
            .pods
            .iter()
            .filter(|(_, entry)| matches!(entry.claim, Claim::Granted(..)));
        let granted: Vec<_> = granted.map(|(uid, _)| uid.clone()).collect();
        for uid in granted {
            self.change(&uid, |claim| match claim {
                Claim::Granted(turn, swaps) => Claim::Waiting(turn, swaps),
                other => other,
            });
        }
    }

    /// Records what a pod needs. What can never fit is not queued.
    pub(crate) fn need(&mut self, turn: Turn, need: Need, limit: Option<u32>) {
        let Some(entry) = self.pods.get(&turn.uid) else {
            return;
        };
        let own = entry.seen.restarts + entry.seen.coming;
        let fits_ever = |swaps: i64| limit.is_some_and(|limit| own + swaps <= allowed(limit));
        let uid = turn.uid.clone();
        self.change(&uid, |claim| match (need, claim) {
            (Need::Nothing, _) => Claim::None,
            (Need::Held, Claim::Granted(_, swaps)) => Claim::Held(swaps),
            (Need::Held, claim) => claim,
            (Need::Asked(restarts), _) => Claim::Held(restarts.into()),
            (Need::Swaps(swaps), Claim::Granted(_, granted) | Claim::Held(granted))
                if i64::from(swaps) <= granted =>
            {
                Claim::Granted(turn, swaps.into())
            }
            (Need::Swaps(swaps), _) if fits_ever(swaps.into()) => {
                Claim::Waiting(turn, swaps.into())
            }
            (Need::Swaps(_), _) => Claim::None,
        });
    }

    /// Grants what fits, first come, first served; adds the pods whose answer has changed to
    /// `wakes`.
    pub(crate) fn settle(&mut self, limit: u32, wakes: &mut Vec<Box<str>>) {
        let overdrawn = self.totals.room(limit) < 0;
        if overdrawn {
            self.revoke();
        } else if self.overdrawn {
            wakes.extend(self.held_pods());
        }
        self.overdrawn = overdrawn;
        while let Some(turn) = self.next(limit) {
            self.change(&turn.uid, |claim| match claim {
                Claim::Waiting(turn, swaps) => Claim::Granted(turn, swaps),
                other => other,
            });
            wakes.push(turn.uid);
        }
        let blocked = self
            .line
            .first()
            .filter(|_| self.totals.under_way == 0)
            .map(|turn| turn.uid.clone());
        if blocked != self.blocked {
            wakes.extend(blocked.clone());
            self.blocked = blocked;
        }
    }

    /// Returns the next pod to grant swaps to. A later one passes the first only if nothing is in
    /// progress that the first one could wait for. So a pod that needs much room gets it when the
    /// others have ended.
    fn next(&self, limit: u32) -> Option<Turn> {
        if self.totals.room(limit) < 1 {
            return None;
        }
        let fits = |turn: &&Turn| match self.pods.get(&turn.uid).map(|entry| &entry.claim) {
            Some(Claim::Waiting(_, swaps)) => self.totals.admits(*swaps, limit),
            _ => false,
        };
        let reach = if self.totals.under_way == 0 {
            self.line.len()
        } else {
            1
        };
        self.line.iter().take(reach).find(fits).cloned()
    }

    fn change(&mut self, uid: &str, change: impl FnOnce(Claim) -> Claim) {
        if let Some(entry) = self.take(uid) {
            self.put(
                uid.into(),
                Entry {
                    claim: change(entry.claim),
                    ..entry
                },
            );
        }
    }

    fn take(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.pods.remove(uid)?;
        self.totals.subtract(Totals::of(&entry));
        if let Claim::Waiting(turn, _) = &entry.claim {
            self.line.remove(turn);
        }
        Some(entry)
    }

    fn put(&mut self, uid: Box<str>, entry: Entry) {
        self.totals.add(Totals::of(&entry));
        if let Claim::Waiting(turn, _) = &entry.claim {
            self.line.insert(turn.clone());
        }
        self.pods.insert(uid, entry);
    }
}
