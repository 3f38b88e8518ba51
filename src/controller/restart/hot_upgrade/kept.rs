//! A set with the pods that it selects, as kept in memory.

mod pod;
mod pods;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::label_selector;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::hot_upgrade::pair::Change;
use swaplet_core::restart::hot_upgrade::pod::UpgradePod;
use swaplet_core::restart::hot_upgrade::rollout::{Member, Plan, plan};
use swaplet_core::restart::hot_upgrade::sidecar_set::{SidecarSet, UpgradeImages};

use self::pods::Pods;
use super::AT_ONCE;
use super::write::HotWrite;
use crate::frame::isolated::isolated;
use crate::frame::watch::Event;
use crate::frame::watch::mirror::{self, Mirror};
use crate::frame::writer::RETRY;
use crate::frame::writer::report::Notice;
use crate::frame::writer::shares::Shares;

/// The minimum interval between two writes of a status.
const STATUS_EVERY: Duration = Duration::from_secs(2);
/// The minimum interval between two lists for the sake of pods that were left out.
const LIST_EVERY: Duration = Duration::from_secs(600);
/// The time within which the watch must show a write.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// The pods that a set selects in one namespace (empty for all), and which of them are upgraded:
/// both are label selectors of the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Selected {
    pub(super) set: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) pods: String,
    updated: String,
    /// The namespaces that the set selects. Pods of others are not kept, so that all are listed
    /// again for other ones.
    namespaces: String,
    /// The number of lists for the sake of pods that were left out: each is a watch of its own.
    list: u32,
}

impl Selected {
    fn has(&self, pod: &UpgradePod) -> bool {
        self.namespace.is_empty() || self.namespace == pod.namespace
    }

    /// Returns `updateStrategy.selector`.
    pub(super) fn updated(&self) -> kube::core::Selector {
        label_selector::parse(&self.updated).unwrap_or_default()
    }
}

type Uid = Box<str>;

/// A set and its state.
pub(super) struct Kept {
    pub(super) set: SidecarSet,
    /// The time of the next reconcile.
    pub(super) due: Option<Moment>,
    /// The lists of its pods, by what is watched.
    mirrors: BTreeMap<Selected, Mirror<Uid>>,
    /// The selections whose namespaces are hidden, which count as empty.
    hidden: BTreeSet<Selected>,
    pods: Pods,
    /// The number of lists for the sake of pods that were left out.
    list: u32,
    /// When the last of these lists began, or the first of all.
    list_at: Moment,
    /// True while there are too many sets: this one handles no pod.
    pub(super) is_left_out: bool,
    /// `status` as the API server has it, or as it was written last.
    status: Value,
    status_due: Moment,
    /// The last status that was stored, and until when it is not written again: somebody else may
    /// write another one each time.
    stored: (Value, Moment),
    is_status_under_way: bool,
}

/// The room for writes to pods.
pub(super) struct Room<'a> {
    /// The number of writes that may begin.
    pub(super) left: usize,
    pub(super) shares: &'a mut Shares,
}

impl Room<'_> {
    /// Takes the next of these writes whose namespace may begin one: one that does not answer holds
    /// up no other.
    fn take<'n, T>(
        &mut self,
        writes: &mut Vec<T>,
        namespace: impl Fn(&T) -> &'n str,
        now: Moment,
    ) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        let next = self.shares.next(AT_ONCE, now, |may_begin| {
            writes.iter().position(|write| may_begin(namespace(write)))
        })?;
        let write = writes.remove(next);
        self.shares.began(namespace(&write));
        Some(write)
    }
}

/// The result of a reconcile of a set.
pub(super) struct Step {
    pub(super) writes: Vec<HotWrite>,
    pub(super) notices: Vec<Notice>,
}

/// The sidecars that sets claim, by the uid of the pod.
pub(super) type Taken = BTreeMap<Uid, Vec<Box<str>>>;

/// Returns the sidecars that these sets claim.
pub(super) fn taken<'a>(sets: impl Iterator<Item = &'a Kept>) -> Taken {
    let mut taken = Taken::new();
    for kept in sets {
        let names = || kept.set.containers.iter().map(|one| one.name.clone());
        for uid in kept.pods.by_uid.keys() {
            taken.entry(uid.clone()).or_default().extend(names());
        }
    }
    taken
}

impl Kept {
    pub(super) fn new(set: SidecarSet, places: &[Box<str>], now: Moment) -> Self {
        let status = set.status.clone();
        let selected = select(&set, places, 0).into_iter();
        Self {
            set,
            due: Some(now),
            mirrors: selected.map(|one| (one, Mirror::new())).collect(),
            hidden: BTreeSet::new(),
            pods: Pods::default(),
            list: 0,
            list_at: now,
            is_left_out: false,
            status,
            status_due: now,
            stored: (Value::Null, now),
            is_status_under_way: false,
        }
    }

    /// Returns a set that handles no pod, because there are too many.
    pub(super) fn left_out(set: SidecarSet, now: Moment) -> Self {
        Self {
            is_left_out: true,
            ..Self::new(set, &[], now)
        }
    }

    /// Handles a change of the set.
    pub(super) fn apply(&mut self, set: SidecarSet, places: &[Box<str>], now: Moment) {
        let places: &[Box<str>] = if self.is_left_out { &[] } else { places };
        let selected = select(&set, places, self.list);
        if !self.mirrors.keys().eq(&selected) {
            // Its watches start again, and so does everything that is known of pods.
            *self = Self::new(set, places, now);
            return;
        }
        // The watches of a set that was recreated with the same selectors go on: they list no pod
        // again. A status in flight is that of the old one.
        if !self.is_status_under_way || self.set.uid != set.uid {
            self.status = set.status.clone();
        }
        if self.set.uid != set.uid {
            self.stored = (Value::Null, now);
        }
        self.set = set;
    }

    /// Schedules a reconcile at this time, unless an earlier one is due.
    pub(super) fn wake(&mut self, at: Moment) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Returns the selections to watch for the set.
    pub(super) fn selected(&self) -> impl Iterator<Item = &Selected> {
        self.mirrors.keys()
    }

    /// Handles an event of the watch of its pods. Returns true if it may change anything.
    pub(super) fn observe(
        &mut self,
        selected: &Selected,
        event: Event<Option<UpgradePod>>,
    ) -> bool {
        let Some(mirror) = self.mirrors.get_mut(selected) else {
            return false;
        };
        if matches!(event, Event::Hidden(_)) {
            return self.hidden.insert(selected.clone());
        }
        let (was_listed, before) = (mirror.is_complete(), self.pods.by_uid.len());
        let pods = self.pods.by_uid.iter();
        let known = pods.filter(|(_, kept)| selected.has(&kept.pod));
        let read = |pod: Option<UpgradePod>| pod.map(|pod| (pod.uid.clone(), pod));
        match mirror.change(event, known.map(|(uid, _)| uid.clone()), read) {
            Some(mirror::Change::Put(pod)) => self.keep(pod),
            Some(mirror::Change::Gone(uids)) => {
                uids.iter().for_each(|uid| self.pods.forget(uid));
                !was_listed || self.pods.by_uid.len() < before
            }
            None => false,
        }
    }

    /// Returns true if all pods have been listed.
    fn are_listed(&self) -> bool {
        let mut all = self.mirrors.iter();
        all.all(|(selected, mirror)| mirror.is_complete() || self.hidden.contains(selected))
    }

    fn keep(&mut self, pod: UpgradePod) -> bool {
        let is_kept = self.set.has_namespace(&pod.namespace);
        if is_kept {
            let is_new = self.are_listed();
            self.pods.keep(pod, is_new);
        }
        is_kept
    }

    /// Lists all pods again, if there may be room for some that were left out: nothing else is known
    /// of them. Returns true if other watches are needed for that.
    pub(super) fn lists_again(&mut self, now: Moment) -> bool {
        let is_due = self.pods.have_room && self.list_at + LIST_EVERY <= now;
        if is_due {
            self.pods.begin_list();
            self.list += 1;
            self.list_at = now;
            let list = self.list;
            let next = |selected: Selected| Selected { list, ..selected };
            // They stay complete: a pod that appears in the list is none of ours.
            let mirrors = std::mem::take(&mut self.mirrors).into_iter();
            self.mirrors = mirrors.map(|(one, mirror)| (next(one), mirror)).collect();
            let hidden = std::mem::take(&mut self.hidden).into_iter();
            self.hidden = hidden.map(next).collect();
        }
        is_due
    }

    /// Reconciles the set, with as many writes to pods as there is room for.
    ///
    /// # Errors
    /// Returns the message of a panic.
    pub(super) fn reconcile(
        &mut self,
        images: &UpgradeImages,
        taken: &Taken,
        room: &mut Room<'_>,
        now: Moment,
    ) -> Result<Step, String> {
        let mut step = Step {
            writes: Vec::new(),
            notices: Vec::new(),
        };
        // The number that may be upgraded at once is a share of all pods, so all must be listed.
        if !self.are_listed() {
            return Ok(step);
        }
        let plan = self.plan(images, taken, now)?;
        let pods: Vec<Uid> = self.pods.by_uid.keys().cloned().collect();
        self.due = plan.due;
        for (nth, report) in plan.reports {
            let kept = self.pods.by_uid.get_mut(&pods[nth]);
            step.notices.extend(kept.and_then(|kept| kept.news(report)));
        }
        let mut waiting = plan.writes;
        while !waiting.is_empty() {
            let namespace = |(nth, _): &(usize, Change)| {
                let kept = self.pods.by_uid.get(&pods[*nth]);
                kept.map_or("", |kept| &*kept.pod.namespace)
            };
            let Some((nth, change)) = room.take(&mut waiting, namespace, now) else {
                // The next write that finishes makes room.
                self.wake(now + STATUS_EVERY);
                break;
            };
            let Some(kept) = self.pods.by_uid.get_mut(&pods[nth]) else {
                continue;
            };
            kept.hold(now + SHOWN_WITHIN);
            step.writes.push(HotWrite::Pod {
                set: self.set.name.clone(),
                target: kept.target(),
                change,
            });
        }
        self.wake_for_holds(now);
        if self.pods.have_room {
            self.wake(self.list_at + LIST_EVERY);
        }
        step.writes.extend(self.next_status(&plan.counts, now));
        Ok(step)
    }

    fn plan(&mut self, images: &UpgradeImages, taken: &Taken, now: Moment) -> Result<Plan, String> {
        let set = &self.set;
        let pods = &mut self.pods.by_uid;
        isolated(&set.name, || {
            let mut members: Vec<_> = pods
                .iter_mut()
                .map(|(uid, kept)| Member {
                    is_busy: kept.is_held(now),
                    is_refused: kept.is_refused,
                    is_foreign: kept.is_foreign,
                    pod: &kept.pod,
                    memory: &mut kept.memory,
                    taken: taken.get(uid).cloned().unwrap_or_default(),
                })
                .collect();
            plan(set, images, &mut members, now)
        })
    }

    /// Schedules a reconcile for the end of the next hold.
    fn wake_for_holds(&mut self, now: Moment) {
        let pods = self.pods.by_uid.values();
        let holds = pods.filter_map(|kept| kept.hold.as_ref());
        let next = holds.map(|hold| hold.until).filter(|at| *at > now).min();
        if let Some(at) = next {
            self.wake(at);
        }
    }

    /// Handles the outcome of a write. Returns what to report.
    pub(super) fn written(
        &mut self,
        write: &HotWrite,
        outcome: &Result<Option<Box<str>>, WriteError>,
        now: Moment,
    ) -> Option<Notice> {
        let HotWrite::Pod { target, change, .. } = write else {
            self.is_status_under_way = false;
            self.stored = (self.status.clone(), now + RETRY.longest);
            if let Err(error) = outcome {
                self.status = Value::Null;
                self.stored = (Value::Null, now);
                // After a conflict the set has changed, and its next version is seen soon.
                self.status_due = now
                    + match error {
                        WriteError::Conflict => STATUS_EVERY,
                        _ => RETRY.longest,
                    };
            }
            return None;
        };
        let kept = self.pods.by_uid.get_mut(&target.uid)?;
        let notice = kept.written(outcome, target, change, now);
        if let Some(hold) = &kept.hold {
            let until = hold.until;
            self.wake(until);
        }
        notice
    }
}

fn select(set: &SidecarSet, places: &[Box<str>], list: u32) -> BTreeSet<Selected> {
    let Some(pods) = set.pods.as_ref().filter(|_| !set.containers.is_empty()) else {
        return BTreeSet::new();
    };
    let selected = |namespace: &str| Selected {
        set: set.name.clone(),
        namespace: namespace.into(),
        pods: pods.to_string(),
        updated: set.update.selector.to_string(),
        namespaces: set.namespaces.to_string(),
        list,
    };
    places.iter().map(|place| selected(place)).collect()
}
