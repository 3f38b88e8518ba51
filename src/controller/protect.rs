//! Deletion protection of Namespaces and CRDs. Protected objects are watched, and so is what they
//! contain; the count is kept on the object. Which count is written, and when, is decided in
//! [`decide`](swaplet_core::protect::decide).
//!
//! Nothing else is watched: without a protected object there are two silent watches.

mod contents;
mod turns;

use std::collections::BTreeMap;

use self::contents::{Contents, What};
use self::turns::Written;
use crate::frame::clock::{Clock, IDLE};
use crate::frame::connection::Namespaces;
use crate::frame::isolated::{TaskDied, read as isolated_read};
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::watch::mirror::{Change, Mirror};
use crate::frame::watch::named::NamedWatches;
use crate::frame::watch::{Event, watch};
use crate::frame::writer::shares::Shares;
use crate::frame::writer::tools::Tools;
use crate::frame::writer::{Writer, params, requests_for};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch};
use kube::{Api, Client};
use serde_json::json;
use swaplet_core::objects::moment::Moment;
use swaplet_core::protect::decide::{Counts, Memory, says_nothing};
use swaplet_core::protect::held::Held;
use swaplet_core::protect::object::{
    Guarded, GuardedKind, GuardedWire, HOLDS, IsGuarded, LABEL, Mode,
};
use swaplet_core::report::write_error::WriteError;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

/// The most objects whose contents are watched at a time; any others stay until there is room.
const AT_ONCE: usize = 256;

/// Returns the right to watch the kind.
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
    client: Client,
    namespaces: Namespaces,
    tools: Tools,
    mut stopping: watch::Receiver<bool>,
) -> TaskDied {
    let ages = &tools.metrics.watch_ages;
    let labelled = || ListParams::default().labels(LABEL);
    let spaces = Api::<GuardedWire<Namespace>>::all(client.clone());
    let mut spaces = watch(spaces, labelled(), ages);
    let crds = Api::<GuardedWire<CustomResourceDefinition>>::all(client.clone());
    let mut crds = watch(crds, labelled(), ages);
    let mut protect = Protect {
        clock: Clock::start(),
        watches: contents::watches(client, ages.clone()),
        writer: tools.writer,
        writes: JoinSet::new(),
        shares: Shares::default(),
        health: tools.health,
        namespaces,
        objects: BTreeMap::new(),
        mirrors: BTreeMap::new(),
        epoch: 0,
        is_changed: false,
    };
    loop {
        protect.follow();
        let now = protect.clock.now();
        protect.reconcile(now);
        let due = protect.clock.instant(protect.next_due(now));
        tokio::select! {
            event = spaces.recv() => match event {
                Some(event) => protect.observe(event),
                None => return TaskDied::of("the watch of Namespaces"),
            },
            event = crds.recv() => match event {
                Some(event) => protect.observe(event),
                None => return TaskDied::of("the watch of CRDs"),
            },
            Some((contents, event)) = protect.watches.next() => protect.count(&contents, event),
            Some(done) = protect.writes.join_next() => match done {
                Ok(written) => protect.written(written),
                Err(error) => return turns::died(&error),
            },
            () = sleep_until(due) => {}
            () = told_to_stop(&mut stopping) => {
                protect.withdraw().await;
                return TaskDied::of("the counting of protected objects, which was stopped");
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
    writes: JoinSet<Written>,
    shares: Shares,
    health: Health,
    namespaces: Namespaces,
    objects: BTreeMap<Key, Entry>,
    mirrors: BTreeMap<GuardedKind, Mirror<Key>>,
    watches: NamedWatches<Contents, (Box<str>, bool)>,
    /// The epoch of the newest entry.
    epoch: u64,
    /// True if the set of watches may have to change.
    is_changed: bool,
}

/// A protected object, and the count of its contents.
struct Entry {
    object: Guarded,
    /// The epoch of the entry: events of watches for another epoch are ignored.
    epoch: u64,
    held: Held,
    claims: Held,
    memory: Memory,
    due: Option<Moment>,
    /// The writes to it that failed since the last applied one.
    failures: u32,
    /// True while a write to it is in flight.
    is_writing: bool,
    /// True if its contents are watched, which takes one of the limited places.
    is_watched: bool,
    /// True if it no longer has the label, or is gone.
    has_left: bool,
}

impl Entry {
    /// Returns the watches that count its contents; none unless its mode is `Cascading`.
    fn contents(&self) -> Vec<Contents> {
        let Guarded {
            kind, name, mode, ..
        } = &self.object;
        if *mode != Some(Mode::Cascading) || self.object.deleting {
            return Vec::new();
        }
        let what = match (kind, &self.object.served) {
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

    fn counts(&self) -> Option<Counts> {
        let claims = match self.object.kind {
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
        // What has left, or is being deleted, gives its place to others.
        for entry in self.objects.values_mut() {
            entry.is_watched &= !entry.contents().is_empty();
        }
        let watched = self.objects.values().filter(|entry| entry.is_watched);
        let mut room = AT_ONCE.saturating_sub(watched.count());
        for entry in self.objects.values_mut() {
            if entry.is_watched || entry.contents().is_empty() {
                continue;
            }
            if room == 0 {
                let (kind, name) = (entry.object.kind.as_str(), &entry.object.name);
                tracing::warn!(kind, %name, "{AT_ONCE} protected objects are counted, the limit: this one stays protected as if it were not empty");
                continue;
            }
            entry.is_watched = true;
            room -= 1;
        }
        let watched = self.objects.values().filter(|entry| entry.is_watched);
        let wanted: Vec<Contents> = watched.flat_map(Entry::contents).collect();
        self.watches.follow(wanted.iter());
    }

    /// Returns the next time at which an object is due without an event. One that is due by now
    /// waits for a write to finish.
    fn next_due(&self, now: Moment) -> Moment {
        let due = self.objects.values().filter_map(|entry| entry.due);
        due.filter(|due| *due > now).min().unwrap_or(now + IDLE)
    }

    fn observe<K: IsGuarded>(&mut self, event: Event<GuardedWire<K>>) {
        self.health.note_watch(right_to_watch(K::KIND), "", &event);
        let of_kind = |key: &&Key| key.0 == K::KIND;
        let known = self.objects.keys().filter(of_kind).cloned();
        let read = |object: GuardedWire<K>| {
            let object = isolated_read(K::KIND.as_str(), || object.read())?.0;
            Some(((object.kind, object.name.clone()), object))
        };
        match self
            .mirrors
            .entry(K::KIND)
            .or_default()
            .change(event, known, read)
        {
            Some(Change::Put(object)) if self.is_counted(&object) => self.apply(object),
            Some(Change::Gone(keys)) => keys.iter().for_each(|key| self.leaves(key)),
            Some(Change::Put(_)) | None => {}
        }
    }

    fn is_counted(&self, object: &Guarded) -> bool {
        object.kind != GuardedKind::Namespace || self.namespaces.contain(&object.name)
    }

    fn apply(&mut self, object: Guarded) {
        let key = (object.kind, object.name.clone());
        let now = self.clock.now();
        if let Some(entry) = self.objects.get_mut(&key).filter(|entry| {
            let known = &entry.object;
            (&known.uid, known.mode, &known.served) == (&object.uid, object.mode, &object.served)
        }) {
            self.is_changed |= entry.object.deleting != object.deleting;
            entry.object = object;
            // What a write that was not taken has left behind is no reason for the next one.
            entry.due = entry.due.filter(|_| entry.failures > 0).or(Some(now));
            return;
        }
        self.epoch += 1;
        let known = self.objects.get(&key);
        let entry = Entry {
            is_writing: known.is_some_and(|entry| entry.is_writing),
            failures: known.map_or(0, |entry| entry.failures),
            object,
            epoch: self.epoch,
            held: Held::default(),
            claims: Held::default(),
            memory: Memory::default(),
            due: Some(now),
            is_watched: false,
            has_left: false,
        };
        self.objects.insert(key, entry);
        self.is_changed = true;
    }

    /// Records that it is gone or no longer has the label: then its count is removed.
    fn leaves(&mut self, key: &Key) {
        let now = self.clock.now();
        if let Some(entry) = self.objects.get_mut(key) {
            entry.object.mode = None;
            entry.object.deleting = false;
            entry.has_left = true;
            self.is_changed = true;
            entry.due = Some(now);
        }
    }

    fn count(&mut self, contents: &Contents, event: Event<(Box<str>, bool)>) {
        let namespace = contents.namespace();
        self.health
            .note_watch(contents.what.right(), namespace, &event);
        let Some(entry) = self
            .objects
            .get_mut(&contents.object)
            .filter(|entry| entry.epoch == contents.epoch)
        else {
            return;
        };
        let held = match contents.what {
            What::Claims => &mut entry.claims,
            What::Pods | What::Objects(_) => &mut entry.held,
        };
        contents::reported(held, event);
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
    /// only, so that a late write of an earlier process fails.
    async fn hold(&self, object: &Guarded, text: Option<&str>) -> Result<(), WriteError> {
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
        self.sent(object.kind.plural(), built).await.map(drop)
    }
}
