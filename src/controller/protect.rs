//! Deletion protection of Namespaces and CRDs. Protected objects are watched, and so is what they
//! contain; the count is kept on the object. Which count is written, and when, is decided in
//! [`decide`](swaplet_core::protect::decide).
//!
//! Nothing else is watched: without a protected object there are two silent watches.

use std::collections::BTreeMap;
use std::convert::Infallible;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, ListParams, Patch};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::json;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::protect::decide::{Counts, Memory, Step, decide, lets_go, says_nothing};
use swaplet_core::protect::held::Held;
use swaplet_core::protect::object::{
    ClaimWire, Content, Guarded, GuardedKind, GuardedWire, HOLDS, IsGuarded, LABEL, MetadataWire,
    Mode, Served,
};
use swaplet_core::report::write_error::WriteError;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::cluster::rules::Beside;
use crate::frame::clock::{Clock, IDLE};
use crate::frame::connection::Namespaces;
use crate::frame::in_flight::{InFlight, Writes};
use crate::frame::isolated::{TaskDied, read as isolated_read};
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::store::{Changes, Store};
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::named::NamedWatches;
use crate::frame::watch::{Event, heard, watch};
use crate::frame::writer::{RETRY, Writer, params, requests_for};

/// The most objects whose contents are watched at a time; any others stay until there is room.
const AT_ONCE: usize = 256;

const fn right_to_watch(kind: GuardedKind) -> Right {
    match kind {
        GuardedKind::Namespace => Right::WatchProtectedNamespaces,
        GuardedKind::CustomResourceDefinition => Right::WatchProtectedCrds,
    }
}

type Key = (GuardedKind, Box<str>);

/// Counts until `stopping` is true; then withdraws every count that allows a deletion, because it
/// would get stale. Returns otherwise only with the reason why it cannot continue.
pub(crate) async fn run(
    beside: Beside,
    mut stopping: watch::Receiver<bool>,
) -> Result<Infallible, TaskDied> {
    let (client, tools) = (beside.discovery.client().clone(), beside.tools);
    let mut heartbeat = tools.health.heartbeat("protected objects");
    let ages = &tools.metrics.watch_ages;
    let labelled = || ListParams::default().labels(LABEL);
    let spaces = Api::<GuardedWire<Namespace>>::all(client.clone());
    let mut spaces = watch(spaces, labelled(), ages);
    let crds = Api::<GuardedWire<CustomResourceDefinition>>::all(client.clone());
    let mut crds = watch(crds, labelled(), ages);
    let mut protect = Protect {
        clock: Clock::start(),
        watches: watches(client, ages.clone()),
        writer: tools.writer,
        writes: none_in_flight(),
        health: tools.health,
        namespaces: beside.common.namespaces,
        objects: BTreeMap::new(),
        leaving: BTreeMap::new(),
        epoch: 0,
        is_changed: false,
    };
    loop {
        heartbeat.beat();
        protect.follow();
        let now = protect.clock.now();
        protect.reconcile(now);
        let due = protect.clock.instant(protect.next_due(now));
        tokio::select! {
            event = heard(&mut spaces, "Namespaces") => protect.observe(event?),
            event = heard(&mut crds, "CRDs") => protect.observe(event?),
            Some((contents, event)) = protect.watches.next() => protect.count(&contents, event),
            Some(((object, text), outcome, _)) = protect.writes.next() => protect.written(&object, text, outcome),
            () = sleep_until(due) => {}
            () = heartbeat.due() => {}
            () = told_to_stop(&mut stopping) => {
                protect.withdraw().await;
                return Err(TaskDied::of("the counting of protected objects, which was stopped"));
            }
        }
    }
}

/// Waits until the loop is to stop, or the sender is gone.
async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stops| *stops).await;
}

struct Protect {
    clock: Clock,
    writer: Writer,
    writes: Counting,
    health: Health,
    namespaces: Namespaces,
    objects: BTreeMap<GuardedKind, Store<Guarded, Entry>>,
    /// The objects that are gone or no longer have the label, until their counts are removed.
    leaving: BTreeMap<Key, (Guarded, Entry)>,
    watches: NamedWatches<Contents, (Box<str>, bool)>,
    /// The epoch of the newest entry.
    epoch: u64,
    /// True if the set of watches may have to change.
    is_changed: bool,
}

/// The count of the contents of a protected object, and what is kept beside it.
#[derive(Default)]
struct Entry {
    /// The epoch of the entry: events of watches for another epoch are ignored.
    epoch: u64,
    held: Held,
    claims: Held,
    memory: Memory,
    due: Option<Moment>,
    /// The writes to it that failed since the last applied one.
    failures: u32,
    is_writing: bool,
    /// True if its contents are watched, which takes one of the limited places.
    is_watched: bool,
}

impl Entry {
    /// Returns the watches that count its contents; none unless its mode is `Cascading`.
    fn contents(&self, object: &Guarded) -> Vec<Contents> {
        let Guarded {
            kind, name, mode, ..
        } = object;
        if *mode != Some(Mode::Cascading) || object.deleting {
            return Vec::new();
        }
        let what = match (kind, &object.served) {
            (GuardedKind::Namespace, _) => vec![What::Pods, What::Claims],
            (GuardedKind::CustomResourceDefinition, Some(served)) => {
                vec![What::Objects(served.clone())]
            }
            // Objects that are not served cannot be counted.
            (GuardedKind::CustomResourceDefinition, None) => Vec::new(),
        };
        let contents = |what| Contents {
            object: (*kind, name.clone()),
            epoch: self.epoch,
            what,
        };
        what.into_iter().map(contents).collect()
    }

    fn counts(&self, kind: GuardedKind) -> Option<Counts> {
        let claims = match kind {
            GuardedKind::Namespace => self.claims.count()?,
            GuardedKind::CustomResourceDefinition => 0,
        };
        let objects = self.held.count()?;
        Some(Counts { objects, claims })
    }
}

impl Protect {
    fn follow(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let (mut room, mut wanted) = (AT_ONCE, Vec::new());
        // What has left, or is being deleted, gives its place to others.
        for (_, object, entry) in self.objects.values_mut().flat_map(Store::iter_mut) {
            entry.is_watched &= !entry.contents(object).is_empty();
            room = room.saturating_sub(entry.is_watched.into());
        }
        for (_, object, entry) in self.objects.values_mut().flat_map(Store::iter_mut) {
            let contents = entry.contents(object);
            if !entry.is_watched && !contents.is_empty() {
                if room == 0 {
                    let (kind, name) = (object.kind.as_str(), &object.name);
                    tracing::warn!(kind, %name, "{AT_ONCE} protected objects are counted, the limit: this one stays protected as if it were not empty");
                    continue;
                }
                (entry.is_watched, room) = (true, room - 1);
            }
            wanted.extend(contents);
        }
        self.watches.follow(wanted.iter());
    }

    /// Returns the next time at which an object is due without an event. One that is due by now
    /// waits for a write to finish.
    fn next_due(&self, now: Moment) -> Moment {
        let due = self.all().filter_map(|(_, entry)| entry.due);
        due.filter(|due| *due > now).min().unwrap_or(now + IDLE)
    }

    /// Returns all objects, also those that are leaving.
    fn all(&self) -> impl Iterator<Item = (&Guarded, &Entry)> {
        let objects = self.objects.values().flat_map(Store::iter);
        let objects = objects.map(|(_, object, entry)| (object, entry));
        let leaving = self.leaving.values();
        objects.chain(leaving.map(|(object, entry)| (object, entry)))
    }

    /// Returns an object, and whether it is leaving.
    fn entry(&mut self, key: &Key) -> Option<(&Guarded, &mut Entry, bool)> {
        if let Some((object, entry)) = self.leaving.get_mut(key) {
            return Some((object, entry, true));
        }
        let objects = self.objects.get_mut(&key.0)?;
        let (object, entry) = objects.get_mut(&(Box::default(), key.1.clone()))?;
        Some((object, entry, false))
    }

    fn observe<K: IsGuarded>(&mut self, event: Event<GuardedWire<K>>) {
        self.health.note_watch(right_to_watch(K::KIND), "", &event);
        let is_counted = |object: &Guarded| {
            object.kind != GuardedKind::Namespace || self.namespaces.contain(&object.name)
        };
        let read = |object: GuardedWire<K>| {
            let object = isolated_read(K::KIND.as_str(), || object.read())?.0;
            is_counted(&object).then_some(object)
        };
        let objects = self.objects.entry(K::KIND).or_default();
        let changes = objects.observe(event, self.clock.now(), read);
        self.apply(K::KIND, changes);
    }

    fn apply(&mut self, kind: GuardedKind, changes: Changes<Guarded, Entry>) {
        let now = self.clock.now();
        // It is gone or no longer has the label: then its count is removed.
        for ((_, name), mut object, mut entry) in changes.gone {
            (object.mode, object.deleting, entry.due) = (None, false, Some(now));
            self.leaving.insert((kind, name), (object, entry));
            self.is_changed = true;
        }
        let Some((key, before)) = changes.put else {
            return;
        };
        let left = self.leaving.remove(&(kind, key.1.clone()));
        let objects = self.objects.get_mut(&kind);
        let Some((object, entry)) = objects.and_then(|objects| objects.get_mut(&key)) else {
            return;
        };
        if let Some(before) =
            before.filter(|before| (before.mode, &before.served) == (object.mode, &object.served))
        {
            self.is_changed |= before.deleting != object.deleting;
            // What a write that was not taken has left behind is no reason for the next one.
            entry.due = entry.due.filter(|_| entry.failures > 0).or(Some(now));
            return;
        }
        self.epoch += 1;
        let known = left.as_ref().map_or(&*entry, |(_, left)| left);
        *entry = Entry {
            is_writing: known.is_writing,
            failures: known.failures,
            epoch: self.epoch,
            due: Some(now),
            ..Entry::default()
        };
        self.is_changed = true;
    }

    fn count(&mut self, contents: &Contents, event: Event<(Box<str>, bool)>) {
        let namespace = contents.namespace();
        self.health
            .note_watch(contents.what.right(), namespace, &event);
        let (kind, name) = &contents.object;
        let objects = self.objects.get_mut(kind);
        let key = (Box::default(), name.clone());
        let Some((_, entry)) = objects
            .and_then(|objects| objects.get_mut(&key))
            .filter(|(_, entry)| entry.epoch == contents.epoch)
        else {
            return;
        };
        let held = match contents.what {
            What::Claims => &mut entry.claims,
            What::Pods | What::Objects(_) => &mut entry.held,
        };
        reported(held, event);
        if held.needs_list() {
            self.is_changed = true;
            self.epoch += 1;
            entry.epoch = self.epoch;
            entry.held = Held::default();
            entry.claims = Held::default();
        }
        let now = self.clock.now();
        entry.due = entry.due.filter(|_| entry.failures > 0).or(Some(now));
    }
}

// The only write of deletion protection: the count of its contents, on the protected object.

impl Writer {
    /// Writes the count into the annotation of the object with this uid (the API server denies the
    /// write for another uid), or removes it. A count of nothing is written to the observed version
    /// only, so that a late write of an earlier process fails. Returns the object as it is stored;
    /// `None` if the answer cannot be read.
    async fn hold(
        &self,
        object: &Guarded,
        text: Option<&str>,
    ) -> Result<Option<Guarded>, WriteError> {
        let objects = match object.kind {
            GuardedKind::Namespace => requests_for::<Namespace>(&(), None),
            GuardedKind::CustomResourceDefinition => {
                requests_for::<CustomResourceDefinition>(&(), None)
            }
        };
        let mut metadata = json!({"uid": object.uid, "annotations": {HOLDS: text}});
        if text.is_some_and(|text| says_nothing(object, text)) {
            metadata["resourceVersion"] = (&*object.version).into();
        }
        let patch = json!({"metadata": metadata});
        let built = objects.patch(&object.name, &params(), &Patch::Merge(patch));
        let body = self.sent(object.kind.plural(), built).await?;
        Ok(match object.kind {
            GuardedKind::Namespace => stored::<Namespace>(&body),
            GuardedKind::CustomResourceDefinition => stored::<CustomResourceDefinition>(&body),
        })
    }
}

fn stored<K: IsGuarded>(body: &[u8]) -> Option<Guarded> {
    let object: GuardedWire<K> = serde_json::from_slice(body).ok()?;
    Some(isolated_read(K::KIND.as_str(), || object.read())?.0)
}

// The turns of protected objects: each is decided when it is due, and its write is made beside the
// loop, so that one that hangs delays no other.

/// The most writes in flight. An object has one at a time.
const WRITES_AT_ONCE: usize = 8;

const fn right_to_count(kind: GuardedKind) -> Right {
    match kind {
        GuardedKind::Namespace => Right::CountInNamespaces,
        GuardedKind::CustomResourceDefinition => Right::CountInCrds,
    }
}

/// The writes in flight: each the object as it was when the write was decided, and the count.
type Counting = Writes<(Guarded, Option<String>), Option<Guarded>>;

/// Objects have shares of the writes, like namespaces elsewhere, because they are in none.
fn none_in_flight() -> Counting {
    InFlight::new(WRITES_AT_ONCE, |(object, _)| &object.name)
}

fn key_of(object: &Guarded) -> Key {
    (object.kind, object.name.clone())
}

impl Protect {
    /// Reconciles the objects that are due, those that have been due for the longest time first.
    fn reconcile(&mut self, now: Moment) {
        let is_due = |entry: &Entry| !entry.is_writing && entry.due.is_some_and(|due| due <= now);
        loop {
            let next = self.writes.turn(|may_begin| {
                let all = self.all();
                let due = all.filter(|(object, entry)| is_due(entry) && may_begin(&object.name));
                let first = due.min_by_key(|(_, entry)| entry.due);
                first.map(|(object, _)| key_of(object))
            });
            let Some(key) = next else { return };
            self.reconcile_object(&key, now);
        }
    }

    fn reconcile_object(&mut self, key: &Key, now: Moment) {
        let Some((object, entry, is_leaving)) = self.entry(key) else {
            return;
        };
        let counts = entry.counts(object.kind);
        match decide(object, counts, &mut entry.memory, now) {
            Step::Rest if is_leaving => drop(self.leaving.remove(key)),
            Step::Rest => entry.due = None,
            Step::Wait(until) => entry.due = Some(until),
            Step::Write(text) => {
                // What happens meanwhile makes it due again.
                (entry.due, entry.is_writing) = (None, true);
                let object = object.clone();
                self.begin(object, text);
            }
        }
    }

    fn begin(&mut self, object: Guarded, text: Option<String>) {
        let write = (object, text);
        self.writes
            .begin(self.writer.clone(), write, |writer, (object, text)| {
                Box::pin(writer.hold(object, text.as_deref()))
            });
    }

    fn written(
        &mut self,
        object: &Guarded,
        text: Option<String>,
        outcome: Result<Option<Guarded>, WriteError>,
    ) {
        let now = self.clock.now();
        let right = right_to_count(object.kind);
        self.health.note_write(right, "", &outcome);
        let key = key_of(object);
        let Some((_, entry, is_leaving)) = self.entry(&key) else {
            return;
        };
        entry.is_writing = false;
        if outcome.is_err() {
            entry.memory.said_empty = None;
        }
        match outcome {
            Ok(stored) => {
                entry.failures = 0;
                if is_leaving {
                    self.leaves_with(&key, text, now);
                } else if let Some(stored) = stored {
                    self.answered(&object.version, stored);
                }
            }
            // A denied object may have another uid.
            Err(WriteError::Gone | WriteError::Conflict | WriteError::Denied(_)) if is_leaving => {
                self.leaves_with(&key, None, now);
            }
            // The watch shows what has changed, or has shown it.
            Err(WriteError::Gone | WriteError::Conflict) => {}
            Err(WriteError::Denied(error) | WriteError::Failed { error, .. }) => {
                let (kind, name) = (object.kind.as_str(), &object.name);
                tracing::warn!(kind, %name, error, "the count of a protected object is not written; trying again");
                entry.due = Some(now + RETRY.after(entry.failures));
                entry.failures = entry.failures.saturating_add(1);
            }
        }
    }

    /// Records the count that an object has which is leaving.
    fn leaves_with(&mut self, key: &Key, text: Option<String>, now: Moment) {
        if let Some((object, entry)) = self.leaving.get_mut(key) {
            (object.holds, entry.due) = (text.map(Into::into), Some(now));
        }
    }

    /// Handles the answer to a write that was decided on the version `seen`.
    fn answered(&mut self, seen: &str, stored: Guarded) {
        let (now, kind) = (self.clock.now(), stored.kind);
        let key = (Box::default(), stored.name.clone());
        let state = (stored.uid.clone(), stored.version.clone());
        let objects = self.objects.entry(kind).or_default();
        let changes = objects.answered(key, state, seen, stored, now);
        self.apply(kind, changes);
    }

    /// Withdraws the counts that allow a deletion, by one write each; the caller bounds the wait. A
    /// write in flight may be such a count, so it is followed by another.
    async fn withdraw(&mut self) {
        let counts = self.all();
        let counts = counts.filter(|(object, entry)| lets_go(object) && !entry.is_writing);
        let counts: Vec<_> = counts.map(|(object, _)| object.clone()).collect();
        let mut in_flight = std::mem::replace(&mut self.writes, none_in_flight());
        counts
            .into_iter()
            .for_each(|object| self.begin(object, None));
        while let Some(((object, _), ..)) = in_flight.next().await {
            self.begin(object, None);
        }
        while self.writes.next().await.is_some() {}
    }
}

// Watches of what protected objects contain. Of pods and of objects of CRDs only metadata is read.

/// The field selector of pods that have not ended, so that the API server sends no others.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A watch of one kind of contents of a protected object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Contents {
    /// The kind and the name of the protected object.
    object: (GuardedKind, Box<str>),
    /// The epoch of the object's entry for which the watch was started.
    epoch: u64,
    what: What,
}

/// The contents that are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The pods of a namespace.
    Pods,
    /// The PersistentVolumeClaims of a namespace.
    Claims,
    /// The objects of a CRD, in all namespaces.
    Objects(Served),
}

impl Contents {
    /// Returns the namespace in which the right to watch is needed; empty for all namespaces.
    fn namespace(&self) -> &str {
        match self.what {
            What::Pods | What::Claims => &self.object.1,
            What::Objects(_) => "",
        }
    }
}

impl What {
    const fn right(&self) -> Right {
        match self {
            Self::Pods => Right::WatchPodsOfNamespaces,
            Self::Claims => Right::WatchClaims,
            Self::Objects(_) => Right::WatchObjectsOfCrds,
        }
    }
}

/// Creates the watches; each returns the uid of an object, and true if the object counts.
fn watches(client: Client, ages: WatchAges) -> NamedWatches<Contents, Content> {
    NamedWatches::new(ages, move |contents: &Contents, listener| {
        let namespace = contents.namespace();
        match &contents.what {
            What::Pods => {
                let pods: Api<MetadataWire<Pod>> = Api::namespaced(client.clone(), namespace);
                let params = ListParams::default().fields(NOT_ENDED);
                listener.watch_selected(pods, params, |pod| content(|| Some(pod.read()?.0)))
            }
            What::Claims => {
                let claims: Api<ClaimWire> = Api::namespaced(client.clone(), namespace);
                listener.watch_selected(claims, ListParams::default(), |claim| {
                    content(|| Some(claim.read()?.0))
                })
            }
            What::Objects(served) => {
                let objects: Api<MetadataWire<BoundedObject>> =
                    Api::all_with(client.clone(), &resource(served));
                listener.watch_selected(objects, ListParams::default(), |object| {
                    content(|| Some(object.read()?.0))
                })
            }
        }
    })
}

/// Returns what was read; nothing that counts where that fails.
fn content(read_one: impl FnOnce() -> Option<Content>) -> Content {
    isolated_read("content of a protected object", read_one).unwrap_or_default()
}

/// Returns the API resource. A list of metadata does not need the kind.
fn resource(served: &Served) -> ApiResource {
    let kind = GroupVersionKind::gvk(&served.group, &served.version, &served.plural);
    ApiResource::from_gvk_with_plural(&kind, &served.plural)
}

/// Records an event of a watch in the count.
fn reported(held: &mut Held, event: Event<(Box<str>, bool)>) {
    match event {
        Event::ListStart => held.list_begins(),
        Event::Listed((uid, counts)) | Event::Applied((uid, counts)) => held.is_there(uid, counts),
        Event::Deleted((uid, _)) => held.is_gone(&uid),
        Event::ListEnd => held.list_ends(),
        Event::Current(_) => held.comes_in_sight(),
        Event::Relists(_) => {}
        Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => held.goes_out_of_sight(),
    }
}
