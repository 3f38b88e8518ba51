//! A set with the pods that it selects, as kept in memory.

mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::pod::{KeptPod, target};
use super::{HotWrite, HotWrites};
use crate::cluster::status_owner::{StatusOwner, Unread};
use crate::frame::isolated::{isolated, read};
use crate::frame::store::{Changes, Key, Store};
use crate::frame::watch::Event;
use crate::frame::writer::report::Notice;
use crate::frame::writer::{RETRY, Tools};
use crate::restart::hot_upgrade::MOST_SETS;
use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::hot_upgrade::pod::{UpgradePod, UpgradePodWire};
use swaplet_core::restart::hot_upgrade::rollout::{Counts, Member, Plan, plan};
use swaplet_core::restart::hot_upgrade::sidecar_set::{SidecarSet, UpgradeImages};

/// The minimum interval between two writes of a status.
const STATUS_EVERY: Duration = Duration::from_secs(2);
/// The minimum interval between two lists for the sake of pods that were left out.
const LIST_EVERY: Duration = Duration::from_secs(600);

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

type Uid = Box<str>;

pub(super) struct Kept {
    pub(super) set: SidecarSet,
    /// The time of the next reconcile.
    pub(super) due: Option<Moment>,
    /// Its pods, by what is watched. A namespace that is hidden counts as empty.
    pods: BTreeMap<Selected, Store<UpgradePod, KeptPod>>,
    places: Places,
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

/// The sidecars that sets claim, by the uid of the pod.
pub(super) type Taken = BTreeMap<Uid, Vec<Box<str>>>;

/// Returns the sidecars that these sets claim.
pub(super) fn taken<'a>(sets: impl Iterator<Item = &'a Kept>) -> Taken {
    let mut taken = Taken::new();
    for kept in sets {
        let names = || kept.set.containers.iter().map(|one| one.name.clone());
        for (_, pod, _) in kept.pods.values().flat_map(Store::iter) {
            taken.entry(pod.uid.clone()).or_default().extend(names());
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
            pods: selected.map(|one| (one, Store::default())).collect(),
            places: Places::default(),
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
        if !self.pods.keys().eq(&selected) {
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
        self.pods.keys()
    }

    /// Handles an event of the watch of its pods. Returns true if it may change anything.
    pub(super) fn observe(
        &mut self,
        selected: &Selected,
        event: Event<UpgradePodWire>,
        now: Moment,
    ) -> bool {
        let Some(pods) = self.pods.get_mut(selected) else {
            return false;
        };
        let event = match event {
            Event::Forbidden(why) if !pods.is_complete() => Event::Hidden(why),
            event => event,
        };
        let set = &self.set;
        let read = |pod: UpgradePodWire| {
            let pod = read("pod", || Some(pod.read()?.for_update(&set.update.selector)))?;
            set.has_namespace(&pod.namespace).then_some(pod)
        };
        let state = |pods: &Store<_, _>| (pods.is_complete(), pods.hidden().is_some());
        let before = state(pods);
        let changes = pods.observe(event, now, read);
        let is_news = state(pods) != before || changes.put.is_some() || !changes.gone.is_empty();
        self.follow(selected, changes);
        is_news
    }

    /// Handles changes of its pods.
    fn follow(&mut self, selected: &Selected, changes: Changes<UpgradePod, KeptPod>) {
        let gone = changes.gone.iter();
        gone.for_each(|((namespace, _), ..)| self.places.give_back(namespace));
        let is_foreign = self.are_listed();
        let pods = self.pods.get_mut(selected);
        let (Some((key, before)), Some(pods)) = (changes.put, pods) else {
            return;
        };
        if before.is_none() && !self.places.take(&key.0) {
            pods.forget(&key);
        } else if let Some((pod, kept)) = pods.get_mut(&key) {
            match before {
                None => kept.is_foreign = is_foreign,
                Some(before) if before.version != pod.version && !kept.is_denied => {
                    kept.not_before = Moment::START;
                }
                Some(_) => {}
            }
        }
    }

    pub(super) fn are_listed(&self) -> bool {
        let mut all = self.pods.values();
        all.all(|pods| pods.is_complete() || pods.hidden().is_some())
    }

    fn kept(&mut self, key: &Key) -> Option<(&UpgradePod, &mut KeptPod)> {
        self.pods.values_mut().find_map(|pods| pods.get_mut(key))
    }

    /// Lists all pods again, if there may be room for some that were left out: nothing else is known
    /// of them. Returns true if other watches are needed for that.
    pub(super) fn lists_again(&mut self, now: Moment) -> bool {
        let is_due = self.places.have_room && self.list_at + LIST_EVERY <= now;
        if is_due {
            self.places.begin_list();
            self.list += 1;
            self.list_at = now;
            let list = self.list;
            let next = |selected: Selected| Selected { list, ..selected };
            // They stay complete: a pod that appears in the list is none of ours.
            let pods = std::mem::take(&mut self.pods).into_iter();
            self.pods = pods.map(|(one, pods)| (next(one), pods)).collect();
        }
        is_due
    }

    /// Reconciles the set: begins as many writes to pods as there is room for, and reports.
    ///
    /// # Errors
    /// Returns the message of a panic.
    pub(super) fn reconcile(
        &mut self,
        images: &UpgradeImages,
        taken: &Taken,
        writes: &mut HotWrites,
        tools: &Tools,
        owner: &mut StatusOwner,
        now: Moment,
    ) -> Result<(), String> {
        // The number that may be upgraded at once is a share of all pods, so all must be listed.
        if !self.are_listed() {
            return Ok(());
        }
        let plan = self.plan(images, taken, now)?;
        let pods = self.pods.values().flat_map(Store::iter);
        let pods: Vec<Key> = pods.map(|(key, ..)| key.clone()).collect();
        self.due = plan.due;
        for (nth, report) in plan.reports {
            let kept = self.kept(&pods[nth]);
            if let Some(notice) = kept.and_then(|(pod, kept)| kept.news(target(pod), report)) {
                tools.reporter.report(notice);
            }
        }
        let mut waiting = plan.writes;
        while !waiting.is_empty() {
            let next = writes.turn(|may_begin| {
                let mut namespaces = waiting.iter().map(|(nth, _)| &pods[*nth].0);
                namespaces.position(|namespace| may_begin(namespace))
            });
            let Some((nth, change)) = next.map(|next| waiting.remove(next)) else {
                // The next write that finishes makes room.
                self.wake(now + STATUS_EVERY);
                break;
            };
            let Some((pod, kept)) = self.kept(&pods[nth]) else {
                continue;
            };
            kept.in_flight = true;
            if let Some(sidecar) = change.sidecar().filter(|_| change.begins) {
                let memory = kept.memory.entry(sidecar.into()).or_default();
                memory.begun = Some(change.version.clone());
            }
            let target = target(pod);
            let write = HotWrite::Pod {
                set: self.set.name.clone(),
                target,
                change,
            };
            write.begin(writes, tools);
        }
        self.wake_for_pauses(now);
        if self.places.have_room {
            self.wake(self.list_at + LIST_EVERY);
        }
        if let Some(status) = self.next_status(&plan.counts, owner, now) {
            status.begin(writes, tools);
        }
        Ok(())
    }

    fn plan(&mut self, images: &UpgradeImages, taken: &Taken, now: Moment) -> Result<Plan, String> {
        let set = &self.set;
        let pods = &mut self.pods;
        isolated(&set.name, || {
            let mut members: Vec<_> = pods
                .values_mut()
                .flat_map(Store::iter_mut)
                .map(|(_, pod, kept)| Member {
                    is_busy: kept.in_flight || now < kept.not_before,
                    is_refused: kept.is_refused,
                    is_foreign: kept.is_foreign,
                    pod,
                    memory: &mut kept.memory,
                    taken: taken.get(&pod.uid).cloned().unwrap_or_default(),
                })
                .collect();
            plan(set, images, &mut members, now)
        })
    }

    /// Schedules a reconcile for the next end of a pause.
    fn wake_for_pauses(&mut self, now: Moment) {
        let pods = self.pods.values().flat_map(Store::iter);
        let ends = pods.map(|(.., kept)| kept.not_before);
        let next = ends.filter(|at| *at > now).min();
        next.into_iter().for_each(|at| self.wake(at));
    }

    /// Handles the outcome of a write. Returns what to report.
    pub(super) fn written(
        &mut self,
        write: &HotWrite,
        outcome: Result<Option<UpgradePodWire>, WriteError>,
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
        let key = (target.namespace.clone(), target.name.clone());
        let mut all = self.pods.iter_mut();
        let (selected, pods) = all.find(|(_, pods)| pods.has(&key))?;
        let (selected, updated) = (selected.clone(), &self.set.update.selector);
        let read = |pod: UpgradePodWire| read("pod", || Some(pod.read()?.for_update(updated)));
        let outcome = outcome.map(|pod| pod.and_then(read));
        let (_, kept) = pods
            .get_mut(&key)
            .filter(|(pod, _)| pod.uid == target.uid)?;
        let notice = kept.written(outcome.as_ref(), target, change, now);
        if let Ok(Some(pod)) = outcome {
            let state = (pod.uid.clone(), pod.version.clone());
            let changes = pods.answered(key, state, &change.version, pod, now);
            self.follow(&selected, changes);
        }
        self.wake_for_pauses(now);
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
        let mut all = self.pods.iter();
        if let Some((selected, _)) = all.find(|(_, pods)| pods.hidden().is_some()) {
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
        if self.places.are_left_out {
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
struct Places {
    /// The number of pods in each namespace.
    taken: BTreeMap<Box<str>, usize>,
    all: usize,
    /// True if pods were left out of the list, or have been since.
    are_left_out: bool,
    /// True if there may be room for pods that were left out.
    have_room: bool,
}

impl Places {
    /// Takes the place of a new pod. Returns false if there is none. A namespace takes a place only
    /// while more are free than it has. So one alone has half of them, and there is a place for the
    /// pods of others.
    fn take(&mut self, namespace: &str) -> bool {
        let taken = self.taken.get(namespace).copied().unwrap_or_default();
        if taken >= MOST_PODS.saturating_sub(self.all) {
            self.are_left_out = true;
            return false;
        }
        self.taken.insert(namespace.into(), taken + 1);
        self.all += 1;
        true
    }

    fn give_back(&mut self, namespace: &str) {
        if let Some(taken) = self.taken.get_mut(namespace) {
            (*taken, self.all) = (*taken - 1, self.all - 1);
            if *taken == 0 {
                self.taken.remove(namespace);
            }
        }
        self.have_room = self.are_left_out;
    }

    /// Begins a new list, which shows what is still left out.
    const fn begin_list(&mut self) {
        (self.are_left_out, self.have_room) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::time::Duration;

    use kube::core::Selector;
    use serde_json::{Value, json};
    use swaplet_core::objects::moment::Moment;
    use swaplet_core::restart::hot_upgrade::pair::Change;
    use swaplet_core::restart::hot_upgrade::pod::UpgradePodWire;
    use swaplet_core::restart::hot_upgrade::sidecar_set::{
        HotContainer, SidecarSet, UpdateStrategy,
    };

    use super::*;
    use super::{Kept, Selected};
    use crate::frame::watch::Event;

    const HALF: usize = MOST_PODS / 2;

    fn of(namespace: &str, number: usize) -> UpgradePodWire {
        at(namespace, number, "10")
    }

    /// A pod in this version.
    fn at(namespace: &str, number: usize, version: &str) -> UpgradePodWire {
        let name = format!("{namespace}-{number}");
        let metadata =
            json!({"name": name, "namespace": namespace, "uid": name, "resourceVersion": version});
        let containers = [json!({"name": "mesh-1", "image": "mesh:1"})];
        let pod = json!({"metadata": metadata, "spec": {"containers": containers}});
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn the_answer_is_the_next_state_of_a_pod_and_no_older_event_takes_it_back() {
        let mut kept = Kept::new(set(), &[Box::default()], Moment::START);
        let all = selected(&kept);
        lists(&mut kept, &all, 1..=1);
        let key = ("greedy".into(), "greedy-1".into());
        kept.kept(&key).unwrap().1.in_flight = true;
        let change = Change {
            version: "10".into(),
            container: "mesh-1".into(),
            before: "park:1".into(),
            image: "mesh:1".into(),
            annotations: Vec::new(),
            report: None,
            begins: true,
        };
        let write = HotWrite::Pod {
            set: "set".into(),
            target: target(kept.kept(&key).unwrap().0),
            change,
        };
        kept.written(&write, Ok(Some(at("greedy", 1, "12"))), Moment::START);
        let mut version_after = |version: &str| {
            let event = Event::Applied(at("greedy", 1, version));
            kept.observe(&all, event, Moment::START);
            let (pod, state) = kept.kept(&key).unwrap();
            assert!(!state.in_flight && state.not_before == Moment::START);
            pod.version.clone()
        };
        let versions = ["11", "12", "13"].map(&mut version_after);
        assert_eq!(
            versions.each_ref().map(|version| &**version),
            ["12", "12", "13"]
        );
    }

    #[test]
    fn one_namespace_leaves_places_to_others_and_what_is_left_out_is_known_until_a_new_list() {
        let everywhere: [Box<str>; 1] = [Box::default()];
        let mut kept = Kept::new(set(), &everywhere, Moment::START);
        let all = selected(&kept);
        let shows = |kept: &mut Kept, namespace: &str, number| {
            let event = Event::Applied(of(namespace, number));
            kept.observe(&all, event, Moment::START);
        };
        let is_gone = |kept: &mut Kept, namespace: &str, number| {
            let event = Event::Deleted(of(namespace, number));
            kept.observe(&all, event, Moment::START);
        };
        let count = |kept: &Kept| kept.pods[&all].len();
        (0..MOST_PODS).for_each(|number| shows(&mut kept, "greedy", number));
        assert_eq!(count(&kept), HALF);
        assert!(kept.places.are_left_out && !kept.places.have_room);
        for number in 0..3 {
            shows(&mut kept, "modest", number);
            shows(&mut kept, "modest", number);
        }
        assert_eq!((count(&kept), kept.places.all), (HALF + 3, HALF + 3));
        is_gone(&mut kept, "unknown", 0);
        assert!(!kept.places.have_room);
        (0..9).for_each(|number| is_gone(&mut kept, "greedy", number));
        assert!(kept.places.are_left_out && kept.places.have_room);
        kept.places.begin_list();
        assert!(!kept.places.are_left_out && !kept.places.have_room);
        shows(&mut kept, "greedy", MOST_PODS);
        let last = ("greedy".into(), "greedy-20000".into());
        assert!(!kept.places.are_left_out && kept.pods[&all].has(&last));
        (0..3).for_each(|number| is_gone(&mut kept, "modest", number));
        assert!(!kept.places.taken.contains_key("modest") && !kept.places.have_room);
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
        for event in Event::list_of(numbers.map(|number| of("greedy", number))) {
            kept.observe(selected, event, Moment::START);
        }
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
        assert!(kept.places.are_left_out && !kept.lists_again(hour));
        kept.observe(&first, Event::Deleted(of("greedy", 0)), hour);
        assert!(!kept.lists_again(after(9)), "not so soon");
        assert!(kept.lists_again(hour));
        let second = selected(&kept);
        assert_ne!(first, second, "another watch");
        assert!(!kept.observe(&first, Event::Listed(of("modest", 0)), hour));
        lists(&mut kept, &second, 1..=HALF);
        assert_eq!(kept.pods[&second].len(), HALF);
        assert!(!kept.places.are_left_out && !kept.lists_again(after(7200)));
        // A change that leaves the selectors as they are begins no other one.
        kept.apply(set(), &everywhere, hour);
        assert_eq!(selected(&kept), second);
    }
}
