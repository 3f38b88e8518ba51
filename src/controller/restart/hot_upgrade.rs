//! Hot upgrades of sidecars by `SidecarSet`s: the sets are watched, and the pods that each of them
//! selects. The decision is in [`rollout`](swaplet_core::restart::hot_upgrade::rollout).
//!
//! Without a set there is one idle watch. Where OpenKruise is installed, there is none, because its
//! manager does this work, unless swaplet is to replace it.

mod kept;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use kube::api::{ListParams, Patch};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::hot_upgrade::pair;
use swaplet_core::restart::hot_upgrade::pod::UpgradePodWire;
use swaplet_core::restart::hot_upgrade::sidecar_set::{
    PLURAL, SidecarSet, UpgradeImages, resource,
};
use swaplet_core::terminate::openkruise::Coexist;
use tokio::time::sleep_until;

use self::kept::{Kept, Selected};
use crate::cluster::rules::Beside;
use crate::cluster::status_owner::StatusOwner;
use crate::frame::clock::{Clock, IDLE};
use crate::frame::in_flight::{InFlight, Writes};
use crate::frame::isolated::{Defects, TaskDied, log, read};
use crate::frame::serve::rights::Right;
use crate::frame::store::Store;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::named::NamedWatches;
use crate::frame::watch::served::{Served, watch_served};
use crate::frame::watch::{Event, heard, watch};
use crate::frame::writer::{Built, Target, Tools, Writer, params, requests_for};

/// The maximum number of sets in effect; the status of further ones says so.
const MOST_SETS: usize = 64;
/// The maximum number of sets that are known; further ones are named in the log.
const MOST_KNOWN: usize = 256;
/// The maximum number of writes in flight, of which each namespace has a share.
const AT_ONCE: usize = 8;
/// How long changes of a set's pods are collected before a reconcile.
const GATHER: Duration = Duration::from_millis(200);

/// Runs the loop of the installation with this state namespace, which writes no images but these;
/// returns only with the reason why it cannot continue.
pub(crate) async fn run(
    beside: Beside,
    images: UpgradeImages,
    state_namespace: Option<String>,
) -> Result<Infallible, TaskDied> {
    let (discovery, common, tools) = (beside.discovery, beside.common, beside.tools);
    let mut heartbeat = tools.health.heartbeat("hot upgrades");
    let client = discovery.client().clone();
    let ages = tools.metrics.watch_ages.clone();
    let served = Served {
        plural: PLURAL,
        is_ours_alone: common.rules.coexist != Coexist::Own,
        reports_absence: false,
    };
    let of_sets = ages.clone();
    let mut sets = watch_served(discovery, served, move |discovery| {
        let sets = Api::all_with(discovery.client().clone(), &resource());
        watch(sets, ListParams::default(), &of_sets)
    });
    let mut upgrades = HotUpgrades {
        clock: Clock::start(),
        images,
        places: common.namespaces.places(),
        watches: watch_pods(client, ages),
        writes: InFlight::new(AT_ONCE, HotWrite::namespace),
        tools,
        sets: BTreeMap::new(),
        known: Store::default(),
        is_changed: false,
        defects: Defects::default(),
        owner: StatusOwner::new("SidecarSet", state_namespace.as_deref()),
    };
    loop {
        heartbeat.beat();
        upgrades.follow();
        let due = upgrades.clock.instant(upgrades.next_due());
        tokio::select! {
            event = heard(&mut sets, "SidecarSets") => upgrades.observe_set(event?),
            Some((selected, event)) = upgrades.watches.next() => upgrades.observe_pod(&selected, event),
            Some((write, outcome, _)) = upgrades.writes.next() => upgrades.written(&write, outcome),
            () = sleep_until(due) => upgrades.reconcile(),
            () = heartbeat.due() => {}
        }
    }
}

fn watch_pods(client: Client, ages: WatchAges) -> NamedWatches<Selected, UpgradePodWire> {
    NamedWatches::new(ages, move |selected: &Selected, listener| {
        let pods: Api<UpgradePodWire> = match &*selected.namespace {
            "" => Api::all(client.clone()),
            namespace => Api::namespaced(client.clone(), namespace),
        };
        let params = ListParams::default().labels(&selected.pods);
        listener.watch_selected(pods, params, |pod| pod)
    })
}

struct HotUpgrades {
    clock: Clock,
    tools: Tools,
    images: UpgradeImages,
    /// The namespaces in which the controller works; the empty one stands for all.
    places: Vec<Box<str>>,
    /// The sets that exist, but for those that are ignored.
    known: Store<()>,
    sets: BTreeMap<Box<str>, Kept>,
    /// True if the watches may have to change.
    is_changed: bool,
    watches: NamedWatches<Selected, UpgradePodWire>,
    writes: HotWrites,
    defects: Defects<Box<str>>,
    owner: StatusOwner,
}

impl HotUpgrades {
    fn follow(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            self.watches
                .follow(self.sets.values().flat_map(Kept::selected));
        }
    }

    fn next_due(&self) -> Moment {
        let due = self.sets.values().filter_map(|kept| kept.due).min();
        due.unwrap_or(self.clock.now() + IDLE)
    }

    fn observe_set(&mut self, event: Event<BoundedObject>) {
        self.tools.note_watch(Right::WatchSidecarSets, "", &event);
        let read = |object| read("SidecarSet", || SidecarSet::read(object, &self.images));
        let now = self.clock.now();
        let (mut gone, seen) = self.known.observe_names(event, now, read);
        // The watches of a set that was created again go on.
        gone.retain(|(key, ())| seen.as_ref().is_none_or(|(again, _)| again != key));
        if !gone.is_empty() {
            for ((_, name), ()) in gone {
                self.sets.remove(&name);
            }
            self.take_up();
            self.wake_all();
        }
        if let Some((_, set)) = seen {
            self.apply(set);
        }
    }

    fn apply(&mut self, set: SidecarSet) {
        let now = self.clock.now();
        if let Some(kept) = self.sets.get_mut(&set.name) {
            kept.apply(set, &self.places, now);
        } else if self.sets.len() < MOST_KNOWN {
            let kept = Kept::left_out(set, now);
            self.sets.insert(kept.set.name.clone(), kept);
            self.take_up();
        } else {
            let name = &*set.name;
            self.known.forget(&(Box::default(), name.into()));
            tracing::warn!(
                name,
                "there are more than {MOST_KNOWN} SidecarSets: this one is ignored"
            );
        }
        self.wake_all();
    }

    /// Gives the free places to sets that have none.
    fn take_up(&mut self) {
        let now = self.clock.now();
        let in_effect = self.sets.values().filter(|kept| !kept.is_left_out).count();
        let left_out = self.sets.values_mut().filter(|kept| kept.is_left_out);
        for kept in left_out.take(MOST_SETS.saturating_sub(in_effect)) {
            *kept = Kept::new(kept.set.clone(), &self.places, now);
        }
    }

    /// Schedules a reconcile of all sets: the watched pods, and the set of a pair, may have
    /// changed.
    fn wake_all(&mut self) {
        self.is_changed = true;
        let now = self.clock.now();
        self.sets
            .values_mut()
            .for_each(|kept| kept.wake(now + GATHER));
    }

    fn observe_pod(&mut self, selected: &Selected, event: Event<UpgradePodWire>) {
        let namespace = &selected.namespace;
        self.tools
            .note_watch(Right::WatchUpgradedPods, namespace, &event);
        let Some(kept) = self.sets.get_mut(&selected.set) else {
            return;
        };
        let were_listed = kept.are_listed();
        let now = self.clock.now();
        if kept.observe(selected, event, now) {
            kept.wake(now + GATHER);
        }
        if !were_listed && kept.are_listed() {
            self.wake_all();
        }
    }

    /// Reconciles the sets that are due.
    fn reconcile(&mut self) {
        let now = self.clock.now();
        let is_due = |kept: &Kept| kept.due.is_some_and(|due| due <= now);
        let due = self.sets.iter().filter(|(_, kept)| is_due(kept));
        let due: Vec<_> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            self.reconcile_set(&name, now);
        }
    }

    fn reconcile_set(&mut self, name: &str, now: Moment) {
        let Some(is_left_out) = self.sets.get(name).map(|kept| kept.is_left_out) else {
            return;
        };
        // A pair in two sets belongs to the first of them by name, whose pods must be known.
        let is_before = |other: &str| !is_left_out && other < name;
        let before = self.sets.iter().take_while(|(other, _)| is_before(other));
        let before: Vec<_> = before.map(|(_, kept)| kept).collect();
        let taken = kept::taken(before.iter().copied());
        let may_be_taken = self.sets.get(name).is_some_and(|kept| {
            let mut unlisted = before.iter().filter(|other| !other.are_listed());
            unlisted.any(|other| kept.set.shares_sidecars(&other.set))
        });
        let Some(kept) = self.sets.get_mut(name) else {
            return;
        };
        kept.due = self.defects.left_alone_until(&name.into(), now);
        if kept.due.is_some() || may_be_taken {
            return;
        }
        self.is_changed |= kept.lists_again(now);
        let (writes, owner) = (&mut self.writes, &mut self.owner);
        let step = kept.reconcile(&self.images, &taken, writes, &self.tools, owner, now);
        if let Err(defect) = step {
            kept.due = Some(self.defects.meet(name.into(), now));
            self.tools.metrics.decisions_failed(1);
            log("SidecarSet", "", name, &defect);
        }
    }

    fn written(&mut self, write: &HotWrite, outcome: Result<Option<UpgradePodWire>, WriteError>) {
        let now = self.clock.now();
        let right = match write {
            HotWrite::Pod { .. } => Right::UpgradeSidecars,
            HotWrite::Status { .. } => Right::ReportSidecarSets,
        };
        let namespace = write.namespace();
        self.tools.health.note_write(right, namespace, &outcome);
        if let Some(kept) = self.sets.get_mut(write.set()) {
            let notice = kept.written(write, outcome, now);
            kept.wake(now);
            if let Some(notice) = notice {
                self.tools.reporter.report(notice);
            }
        }
    }
}

// The writes of hot upgrades: an image with the annotations about it, to one version of a pod; and
// the status of a set.

#[derive(Clone, Debug)]
enum HotWrite {
    Pod {
        set: Box<str>,
        target: Target,
        change: pair::Change,
    },
    Status {
        set: Box<str>,
        uid: Box<str>,
        status: Value,
    },
}

impl HotWrite {
    fn set(&self) -> &str {
        match self {
            Self::Pod { set, .. } | Self::Status { set, .. } => set,
        }
    }

    /// A status is in no namespace, and takes no turn: each set writes one in two seconds at most.
    fn namespace(&self) -> &str {
        match self {
            Self::Pod { target, .. } => &target.namespace,
            Self::Status { .. } => "",
        }
    }

    fn begin(self, writes: &mut HotWrites, tools: &Tools) {
        let writer = tools.writer.clone();
        writes.begin(writer, self, |writer, write| Box::pin(writer.hot(write)));
    }
}

/// The writes in flight, each of which returns the pod that the API server has stored; none of a
/// status.
type HotWrites = Writes<HotWrite, Option<UpgradePodWire>>;

impl Writer {
    /// Makes the write, within the deadline.
    async fn hot(&self, write: &HotWrite) -> Result<Option<UpgradePodWire>, WriteError> {
        let (resource, built, images) = match write {
            HotWrite::Pod { target, change, .. } => {
                let image = (&*change.container, &*change.before, &*change.image);
                let images = Some(image).filter(|(_, before, image)| before != image);
                ("pods", of_pod(target, change), images.into_iter().collect())
            }
            HotWrite::Status { set, uid, status } => (PLURAL, of_status(set, uid, status), vec![]),
        };
        self.in_time(resource, async {
            let answer = self.send_images(built, &images).await?;
            Ok(answer.map(|body| serde_json::from_slice(&body).ok()))
        })
        .await
    }
}

/// Returns a patch for this uid and version alone (409): any other change is observed before
/// anything is written. The server merges containers by their names.
fn of_pod(target: &Target, change: &pair::Change) -> Built {
    let annotations: Map<String, Value> = change
        .annotations
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect();
    let mut patch = json!({"metadata": {"uid": target.uid, "resourceVersion": change.version, "annotations": annotations}});
    if change.image != change.before {
        patch["spec"] = json!({"containers": [{"name": change.container, "image": change.image}]});
    }
    let pods = requests_for::<UpgradePodWire>(&(), Some(&target.namespace));
    pods.patch(&target.name, &params(), &Patch::Strategic(patch))
}

fn of_status(set: &str, uid: &str, status: &Value) -> Built {
    let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
    let sets = requests_for::<BoundedObject>(&resource(), None);
    sets.patch_subresource("status", set, &params(), &patch)
}
