//! A set with the pods that it selects, as kept in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{AT_ONCE, HotWrite};
use crate::cluster::status_owner::{StatusOwner, Unread};
use crate::frame::isolated::isolated;
use crate::frame::watch::Event;
use crate::frame::watch::mirror::{self, Mirror};
use crate::frame::writer::report::Notice;
use crate::frame::writer::shares::Shares;
use crate::frame::writer::{RETRY, Target, TargetKind};
use crate::restart::hot_upgrade::MOST_SETS;
use kube::core::{Expression, Selector};
use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::objects::values::label_selector;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::hot_upgrade::pair::Change;
use swaplet_core::restart::hot_upgrade::pod::UpgradePod;
use swaplet_core::restart::hot_upgrade::rollout::{Counts, Member, Plan, PodMemory, plan};
use swaplet_core::restart::hot_upgrade::sidecar_set::{SidecarSet, UpgradeImages};

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

    /// Returns `updateStrategy.selector`. What cannot be read selects nothing.
    pub(super) fn updated(&self) -> Selector {
        let nothing = || Selector::from(Expression::In("app".to_owned(), BTreeSet::new()));
        label_selector::parse(&self.updated).unwrap_or_else(|_| nothing())
    }
}

type Uid = Box<str>;

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
    status_due: Moment,
    /// The last status that was stored, and until when it is not written again: the watch has not
    /// shown it yet, or somebody else writes another one each time.
    stored: (Value, Moment),
    is_status_under_way: bool,
    unread: Unread,
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
            status_due: now,
            stored: (Value::Null, now),
            is_status_under_way: false,
            unread: Unread::default(),
        }
    }

    /// Returns a set that handles no pod, because there are too many.
    pub(super) fn left_out(set: SidecarSet, now: Moment) -> Self {
        Self {
            is_left_out: true,
            ..Self::new(set, &[], now)
        }
    }

    pub(super) fn apply(&mut self, set: SidecarSet, places: &[Box<str>], now: Moment) {
        let places: &[Box<str>] = if self.is_left_out { &[] } else { places };
        let selected = select(&set, places, self.list);
        if !self.mirrors.keys().eq(&selected) {
            // Its watches start again, and so does everything that is known of pods.
            *self = Self::new(set, places, now);
            return;
        }
        // The watches of a set that was recreated with the same selectors go on: they list no pod
        // again.
        if self.set.uid != set.uid {
            (self.stored, self.unread) = ((Value::Null, now), Unread::default());
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
        let is_new = !mirror.is_complete();
        if matches!(event, Event::Hidden(_)) || is_new && matches!(event, Event::Forbidden(_)) {
            return self.hidden.insert(selected.clone());
        }
        // A list that goes on is not all that there is.
        let is_seen =
            matches!(event, Event::ListEnd) || is_new && matches!(event, Event::Listed(_));
        let was_hidden = is_seen && self.hidden.remove(selected);
        let (was_listed, before) = (mirror.is_complete(), self.pods.by_uid.len());
        let pods = self.pods.by_uid.iter();
        let known = pods.filter(|(_, kept)| selected.has(&kept.pod));
        let read = |pod: Option<UpgradePod>| pod.map(|pod| (pod.uid.clone(), pod));
        match mirror.change(event, known.map(|(uid, _)| uid.clone()), read) {
            Some(mirror::Change::Put(pod)) => self.keep(pod),
            Some(mirror::Change::Gone(uids)) => {
                uids.iter().for_each(|uid| self.pods.forget(uid));
                was_hidden || !was_listed || self.pods.by_uid.len() < before
            }
            None => false,
        }
    }

    pub(super) fn are_listed(&self) -> bool {
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

    /// Reconciles the set, with as many writes to pods as there is room for. Returns the writes, and
    /// what to report.
    ///
    /// # Errors
    /// Returns the message of a panic.
    pub(super) fn reconcile(
        &mut self,
        images: &UpgradeImages,
        taken: &Taken,
        room: &mut Room<'_>,
        owner: &mut StatusOwner,
        now: Moment,
    ) -> Result<(Vec<HotWrite>, Vec<Notice>), String> {
        let (mut writes, mut notices) = (Vec::new(), Vec::new());
        // The number that may be upgraded at once is a share of all pods, so all must be listed.
        if !self.are_listed() {
            return Ok((writes, notices));
        }
        let plan = self.plan(images, taken, now)?;
        let pods: Vec<Uid> = self.pods.by_uid.keys().cloned().collect();
        self.due = plan.due;
        for (nth, report) in plan.reports {
            let kept = self.pods.by_uid.get_mut(&pods[nth]);
            notices.extend(kept.and_then(|kept| kept.news(report)));
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
            if let Some(sidecar) = change.sidecar().filter(|_| change.begins) {
                let memory = kept.memory.entry(sidecar.into()).or_default();
                memory.begun = Some(change.version.clone());
            }
            writes.push(HotWrite::Pod {
                set: self.set.name.clone(),
                target: kept.target(),
                change,
            });
        }
        self.wake_for_holds(now);
        if self.pods.have_room {
            self.wake(self.list_at + LIST_EVERY);
        }
        writes.extend(self.next_status(&plan.counts, owner, now));
        Ok((writes, notices))
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
        let (target, change) = match write {
            HotWrite::Pod { target, change, .. } => (target, change),
            HotWrite::Status { uid, status, .. } => {
                self.is_status_under_way = false;
                self.stored = (Value::Null, now);
                match outcome {
                    Ok(_) if *uid == self.set.uid => {
                        self.stored = (status.clone(), now + RETRY.longest);
                    }
                    Ok(_) => {}
                    // The set has changed, and its next version is seen soon.
                    Err(WriteError::Conflict) => self.status_due = now + STATUS_EVERY,
                    Err(_) => self.status_due = now + RETRY.longest,
                }
                return None;
            }
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

// The status of a set.

impl Kept {
    /// Returns the write of the status with these counts, if it is to be written now. Of several
    /// installations one that has pods of the set writes it.
    fn next_status(
        &mut self,
        counts: &Counts,
        owner: &mut StatusOwner,
        now: Moment,
    ) -> Option<HotWrite> {
        let (status, generation) = (&self.set.status, self.set.generation);
        let others_have = status["matchedPods"].as_u64() > Some(0);
        let theirs = others_have.cmp(&(counts.matched > 0));
        let left = owner.leaves((status, generation), &mut self.unread, theirs, now);
        if let Some(until) = left {
            self.wake(until);
            return None;
        }
        let mut status = self.status_of(counts);
        owner.sign(&mut status, &self.set.status);
        if status == self.set.status || self.is_status_under_way {
            return None;
        }
        let mut due = self.status_due;
        if status == self.stored.0 {
            due = due.max(self.stored.1);
        }
        if due > now {
            self.wake(due);
            return None;
        }
        self.status_due = now + STATUS_EVERY;
        self.is_status_under_way = true;
        Some(HotWrite::Status {
            set: self.set.name.clone(),
            uid: self.set.uid.clone(),
            status,
        })
    }

    fn status_of(&self, counts: &Counts) -> Value {
        let mut message = self.set.problems.clone();
        if self.is_left_out {
            message.push(format!(
                "there are more than {MOST_SETS} SidecarSets: this one handles no pod until another one is deleted"
            ));
        }
        if let Some(selected) = self.hidden.first() {
            message.push(match &*selected.namespace {
                "" => "its pods cannot be listed, so they are not counted".to_owned(),
                namespace => {
                    format!("pods of {namespace} cannot be listed, so they are not counted")
                }
            });
        }
        if counts.failed > 0 {
            message.push(format!(
                "a new image was reverted in {} pods (`kubectl describe pod` says why), and is tried in no other of their namespaces: change the set to try again",
                counts.failed
            ));
        }
        if counts.unknown > 0 {
            message.push(format!("{} pods have no empty container", counts.unknown));
        }
        if self.pods.are_left_out {
            message.push(format!(
                "it selects more pods than are upgraded ({MOST_PODS} at most, and half of them in one namespace): the others wait until pods of it are gone"
            ));
        }
        json!({
            "observedGeneration": self.set.generation,
            "matchedPods": counts.matched,
            "updatedPods": counts.updated,
            "readyPods": counts.ready,
            "updatedReadyPods": counts.updated_ready,
            "message": message.join("; "),
        })
    }
}

// The pods of a set that are kept: anyone may create pods that a set selects, so each namespace has
// a share.

/// The maximum number of pods kept per set.
const MOST_PODS: usize = 20_000;

#[derive(Default)]
struct Pods {
    by_uid: BTreeMap<Uid, KeptPod>,
    /// The number of them in each namespace.
    taken: BTreeMap<Box<str>, usize>,
    /// True if pods were left out of the list, or have been since.
    are_left_out: bool,
    /// True if there may be room for pods that were left out.
    have_room: bool,
}

impl Pods {
    /// Keeps a pod as it is now, unless there is no room for a new one. A namespace takes a place
    /// only while more are free than it has. So one alone has half of them, and there is a place for
    /// the pods of others.
    fn keep(&mut self, pod: UpgradePod, is_new: bool) {
        if let Some(kept) = self.by_uid.get_mut(&pod.uid) {
            kept.pod = pod;
            return;
        }
        let taken = self.taken.get(&pod.namespace).copied().unwrap_or_default();
        if taken >= MOST_PODS.saturating_sub(self.by_uid.len()) {
            self.are_left_out = true;
            return;
        }
        self.taken.insert(pod.namespace.clone(), taken + 1);
        self.by_uid
            .insert(pod.uid.clone(), KeptPod::new(pod, is_new));
    }

    fn forget(&mut self, uid: &str) {
        let Some(gone) = self.by_uid.remove(uid) else {
            return;
        };
        if let Some(taken) = self.taken.get_mut(&gone.pod.namespace) {
            *taken -= 1;
            if *taken == 0 {
                self.taken.remove(&gone.pod.namespace);
            }
        }
        self.have_room = self.are_left_out;
    }

    /// Begins a new list, which shows what is still left out.
    const fn begin_list(&mut self) {
        (self.are_left_out, self.have_room) = (false, false);
    }
}

// A pod of a set, as kept in memory, and the outcome of the writes to it.

/// The backoff after a denial: somebody has to change the pod, or the policies.
const DENIED: Backoff = Backoff::seconds(60, 900);
/// The maximum number of reports that are remembered per pod.
const MOST_TOLD: usize = 8;

struct KeptPod {
    pod: UpgradePod,
    memory: PodMemory,
    hold: Option<Hold>,
    /// True if the last write to it was not applied.
    is_refused: bool,
    /// True if it has appeared since all pods were listed, and this process has begun no upgrade in
    /// it. To end one that it shows is not to begin it.
    is_foreign: bool,
    failures: u32,
    /// The recent reports about it.
    reported: Vec<Report>,
}

/// A pause: no write to the pod until this time, or until it has another version.
struct Hold {
    version: Box<str>,
    until: Moment,
}

impl KeptPod {
    const fn new(pod: UpgradePod, is_foreign: bool) -> Self {
        Self {
            pod,
            memory: PodMemory::new(),
            hold: None,
            is_refused: false,
            is_foreign,
            failures: 0,
            reported: Vec::new(),
        }
    }

    fn target(&self) -> Target {
        let pod = &self.pod;
        Target::new(TargetKind::Pod, &pod.namespace, &pod.name, &pod.uid)
    }

    /// Returns true while nothing may be written to the pod.
    fn is_held(&self, now: Moment) -> bool {
        let is_for = |version: &str| version.is_empty() || *version == *self.pod.version;
        let hold = self.hold.as_ref();
        hold.is_some_and(|hold| now < hold.until && is_for(&hold.version))
    }

    /// Holds writes to the current version of the pod until this time.
    fn hold(&mut self, until: Moment) {
        let version = self.pod.version.clone();
        self.hold = Some(Hold { version, until });
    }

    /// Handles the outcome of a write. Returns what to report.
    fn written(
        &mut self,
        outcome: &Result<Option<Box<str>>, WriteError>,
        target: &Target,
        change: &Change,
        now: Moment,
    ) -> Option<Notice> {
        self.is_refused = outcome.is_err();
        match outcome {
            // The watch shows the new version.
            Ok(stored) => {
                self.failures = 0;
                if let Some(sidecar) = change.sidecar() {
                    let stored = stored.clone().filter(|image| *image != change.image);
                    self.memory.entry(sidecar.into()).or_default().stored = stored;
                }
                self.is_foreign &= !change.begins;
                return change.report.clone().map(|report| Notice {
                    target: target.clone(),
                    report,
                });
            }
            Err(WriteError::Conflict | WriteError::Gone) => self.hold(now + RETRY.after(2)),
            Err(WriteError::Failed { retry_after, error }) => {
                let wait = RETRY
                    .after(self.failures)
                    .max(retry_after.unwrap_or_default());
                self.failures += 1;
                self.hold(now + wait);
                if wait >= RETRY.longest {
                    let note = format!("the API server does not apply a hot upgrade: {error}");
                    let reason = Reason::WriteDenied;
                    return self.news(Report::new(reason, note));
                }
            }
            Err(WriteError::Denied(words)) => {
                self.hold = Some(Hold {
                    // No version: it holds whatever changes about the pod.
                    version: Box::default(),
                    until: now + DENIED.after(self.failures),
                });
                self.failures += 1;
                let note = format!("the API server forbids a hot upgrade: {words}");
                let reason = Reason::WriteDenied;
                return self.news(Report::new(reason, note));
            }
        }
        None
    }

    /// Returns the report as a notice, unless it was emitted recently.
    fn news(&mut self, report: Report) -> Option<Notice> {
        if self.reported.contains(&report) {
            return None;
        }
        if self.reported.len() >= MOST_TOLD {
            self.reported.clear();
        }
        self.reported.push(report.clone());
        Some(Notice {
            target: self.target(),
            report,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::sync::LazyLock;
    use std::time::Duration;

    use kube::core::Selector;
    use serde_json::{Value, json};
    use swaplet_core::objects::moment::Moment;
    use swaplet_core::restart::hot_upgrade::pod::UpgradePodWire;
    use swaplet_core::restart::hot_upgrade::sidecar_set::{
        HotContainer, SidecarSet, UpdateStrategy,
    };

    use super::*;
    use super::{Kept, Selected};
    use crate::frame::watch::Event;

    const HALF: usize = MOST_PODS / 2;

    static SOME: LazyLock<UpgradePod> = LazyLock::new(|| {
        let containers = [json!({"name": "mesh-1", "image": "mesh:1"})];
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "p"}, "spec": {"containers": containers}});
        let wire: UpgradePodWire = serde_json::from_value(pod).unwrap();
        wire.read().unwrap().for_update(&Selector::default())
    });

    fn of(namespace: &str, number: usize) -> UpgradePod {
        UpgradePod {
            namespace: namespace.into(),
            uid: format!("{namespace}-{number}").into(),
            ..SOME.clone()
        }
    }

    #[test]
    fn one_namespace_leaves_places_to_others_and_what_is_left_out_is_known_until_a_new_list() {
        let mut pods = Pods::default();
        (0..MOST_PODS).for_each(|number| pods.keep(of("greedy", number), false));
        assert_eq!(pods.by_uid.len(), HALF);
        assert!(pods.are_left_out && !pods.have_room);
        for number in 0..3 {
            pods.keep(of("modest", number), false);
            pods.keep(of("modest", number), false);
        }
        assert_eq!(pods.by_uid.len(), HALF + 3);
        pods.forget("unknown");
        assert!(!pods.have_room);
        (0..9).for_each(|number| pods.forget(&format!("greedy-{number}")));
        assert!(pods.are_left_out && pods.have_room);
        pods.begin_list();
        assert!(!pods.are_left_out && !pods.have_room);
        pods.keep(of("greedy", MOST_PODS), false);
        assert!(!pods.are_left_out && pods.by_uid.contains_key("greedy-20000"));
        (0..3).for_each(|number| pods.forget(&format!("modest-{number}")));
        assert!(!pods.taken.contains_key("modest") && !pods.have_room);
    }

    fn set() -> SidecarSet {
        let container = HotContainer {
            name: "mesh".into(),
            image: "mesh:2".into(),
            empty: "park:1".into(),
        };
        SidecarSet {
            name: "set".into(),
            uid: "set".into(),
            version: "1".into(),
            generation: 1,
            pods: Some(Selector::default()),
            namespaces: Selector::default(),
            containers: vec![container],
            update: UpdateStrategy::default(),
            problems: Vec::new(),
            status: Value::Null,
        }
    }

    /// Lists these pods of one namespace.
    fn lists(kept: &mut Kept, selected: &Selected, numbers: RangeInclusive<usize>) {
        kept.observe(selected, Event::ListStart);
        for number in numbers {
            kept.observe(selected, Event::Listed(Some(of("greedy", number))));
        }
        kept.observe(selected, Event::ListEnd);
    }

    fn selected(kept: &Kept) -> Selected {
        kept.selected().next().unwrap().clone()
    }

    #[test]
    fn pods_that_were_left_out_are_listed_again_after_others_are_gone() {
        let everywhere: [Box<str>; 1] = [Box::default()];
        let after = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let hour = after(3600);
        let mut kept = Kept::new(set(), &everywhere, Moment::START);
        let first = selected(&kept);
        lists(&mut kept, &first, 0..=HALF);
        assert!(kept.pods.are_left_out && !kept.lists_again(hour));
        kept.observe(&first, Event::Deleted(Some(of("greedy", 0))));
        assert!(!kept.lists_again(after(9)), "not so soon");
        assert!(kept.lists_again(hour));
        let second = selected(&kept);
        assert_ne!(first, second, "another watch");
        assert!(!kept.observe(&first, Event::Listed(Some(of("modest", 0)))));
        lists(&mut kept, &second, 1..=HALF);
        assert_eq!(kept.pods.by_uid.len(), HALF);
        assert!(!kept.pods.are_left_out && !kept.lists_again(after(7200)));
        // A change that leaves the selectors as they are begins no other one.
        kept.apply(set(), &everywhere, hour);
        assert_eq!(selected(&kept), second);
    }
}

#[cfg(test)]
mod pod_tests {
    use kube::core::Selector;
    use serde_json::json;
    use swaplet_core::restart::hot_upgrade::pod::UpgradePodWire;

    use super::*;

    /// Anyone can create a pod that seems to be upgraded, and have its upgrade ended.
    #[test]
    fn a_pod_is_none_of_ours_until_an_upgrade_was_begun_in_it() {
        let containers = [
            json!({"name": "mesh-1", "image": "mesh:1"}),
            json!({"name": "mesh-2", "image": "mesh:2"}),
        ];
        let pod = json!({"metadata": {"name": "p", "namespace": "evil", "uid": "p"}, "spec": {"containers": containers}});
        let wire: UpgradePodWire = serde_json::from_value(pod).unwrap();
        let mut kept = KeptPod::new(wire.read().unwrap().for_update(&Selector::default()), true);
        let target = kept.target();
        for begins in [false, true, false] {
            let change = Change {
                version: "1".into(),
                container: "mesh-2".into(),
                before: "park:1".into(),
                image: "mesh:2".into(),
                annotations: Vec::new(),
                report: None,
                begins,
            };
            let was_foreign = kept.is_foreign;
            kept.written(&Ok(None), &target, &change, Moment::START);
            assert_eq!(kept.is_foreign, was_foreign && !begins);
        }
        assert!(!kept.is_foreign);
    }
}
