//! The loop of a node: it watches its pods, advances their machines, and makes their writes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, Stream, StreamExt as _, pin_mut};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use tokio::sync::{broadcast, mpsc};

use super::machine::{Disturbance, Machine};
use super::object::{AGAIN, NodeObject};
use super::options::NodeOptions;
use super::registration::{Owner, Refused};
use super::reporter::{EventWriter, PodId, PodWriter, pods_of_any_version};
use crate::clock::Clock;
use crate::virtual_node::action::{Action, PodEvent};
use crate::virtual_node::images::Images;

/// A node that runs nothing, at any API server.
#[derive(Clone)]
pub struct VirtualNode {
    client: Client,
    clock: Clock,
    options: NodeOptions,
    owner: Owner,
    images: Arc<Mutex<Images>>,
    disturbances: broadcast::Sender<Disturbance>,
}

impl VirtualNode {
    /// Returns a node that runs on this clock. Nothing happens before [`run`](Self::run).
    pub fn new(client: Client, clock: Clock, options: NodeOptions) -> Self {
        let images = Arc::new(Mutex::new(Images::new(options.images.clone())));
        Self {
            client,
            clock,
            options,
            owner: Owner::unique(),
            images,
            disturbances: broadcast::Sender::new(DISTURBANCES),
        }
    }

    /// Creates the Node object, or adopts that of a mock node that is dead.
    ///
    /// # Errors
    /// A Node or a Lease of this name belongs to somebody else, or the API server does not answer.
    pub async fn register(&self) -> Result<(), Refused> {
        self.object().register().await.map(|_| ())
    }

    /// Registers the node and runs it until it is dropped, or the Node object is gone: a kubelet
    /// does not create another either. As long as somebody else's Node has the name, nothing
    /// happens. The Node object stays: see [`remove`](Self::remove).
    pub async fn run(self) {
        let uid = loop {
            match self.object().register().await {
                Ok(uid) => break uid,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut events = EventWriter::new(self.client.clone(), self.clock, &self.options);
        let tell = async {
            while let Some((pod, event)) = receiver.recv().await {
                events.write(pod, event).await;
            }
        };
        let object = self.object();
        tokio::select! {
            biased;
            () = object.keep(&uid) => (),
            _ = futures::future::join(Pods::new(self, sender).run(), tell) => (),
        }
    }

    /// Like [`run`](Self::run), until it is dropped: if the Node object is deleted, it creates
    /// another.
    pub async fn run_for_ever(self) {
        loop {
            self.clone().run().await;
        }
    }

    /// Deletes the Node object, if this process has created it.
    ///
    /// # Errors
    /// The API server does not delete it.
    pub async fn remove(&self) -> kube::Result<()> {
        self.object().remove().await
    }

    /// Causes a failure on the node, if it runs.
    pub fn disturb(&self, disturbance: Disturbance) {
        // There is no receiver if the node does not run.
        let _ = self.disturbances.send(disturbance);
    }

    /// Changes the images that registries do not have, from now on.
    pub fn set_missing_images(&self, missing: Vec<swaplet_core::image::ImagePattern>) {
        self.images().set_missing(missing);
    }

    /// Changes the Secrets that exist, from now on.
    pub fn set_secrets(&self, secrets: Vec<String>) {
        self.images().set_secrets(secrets);
    }

    fn object(&self) -> NodeObject {
        NodeObject {
            client: self.client.clone(),
            clock: self.clock,
            options: self.options.clone(),
            owner: self.owner.clone(),
        }
    }

    fn images(&self) -> MutexGuard<'_, Images> {
        // Every change of the images is complete in itself, so a poisoned lock is safe.
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The capacity for pending failures: more than a test causes at once.
const DISTURBANCES: usize = 16;

/// A pod of the node with its machine.
struct Slot {
    machine: Machine,
    /// The next step of the machine, as entered in the order of wakes.
    wake: Option<Timestamp>,
    /// The pending writes, made one after another.
    outbox: VecDeque<Action>,
    writing: bool,
    /// True if the pod was listed since the watch restarted.
    listed: bool,
}

/// A finished write: the pod, and whether the status needs a retry.
type Done = (PodId, bool);

struct Pods {
    node: VirtualNode,
    writer: PodWriter,
    slots: BTreeMap<PodId, Slot>,
    wakes: BTreeSet<(Timestamp, PodId)>,
    writes: FuturesUnordered<BoxFuture<'static, Done>>,
    events: mpsc::UnboundedSender<(PodId, PodEvent)>,
}

impl Pods {
    fn new(node: VirtualNode, events: mpsc::UnboundedSender<(PodId, PodEvent)>) -> Self {
        let writer = PodWriter {
            client: node.client.clone(),
        };
        Self {
            node,
            writer,
            slots: BTreeMap::new(),
            wakes: BTreeSet::new(),
            writes: FuturesUnordered::new(),
            events,
        }
    }

    async fn run(mut self) {
        let pods = self.watch();
        pin_mut!(pods);
        let mut disturbances = self.node.disturbances.subscribe();
        loop {
            let sleep = self.until_next();
            tokio::select! {
                biased;
                Some(done) = self.writes.next(), if !self.writes.is_empty() => self.written(done),
                Some(seen) = pods.next() => self.saw(seen),
                Ok(disturbance) = disturbances.recv() => self.disturb(disturbance),
                () = tokio::time::sleep(sleep) => self.wake_up(),
            }
        }
    }

    fn watch(&self) -> impl Stream<Item = Event<DynamicObject>> + use<> {
        let api: Api<DynamicObject> =
            Api::all_with(self.node.client.clone(), &pods_of_any_version());
        let ours = Config::default().fields(&format!("spec.nodeName={}", self.node.options.name));
        // Errors are left to the watch, which restarts.
        watcher(api, ours)
            .default_backoff()
            .filter_map(|event| ready(event.ok()))
    }

    fn until_next(&self) -> Duration {
        // Without pods nothing happens; an hour is as good as forever.
        let Some((at, _)) = self.wakes.first() else {
            return Duration::from_secs(3600);
        };
        let rest = at.duration_since(self.node.clock.now());
        // Sleeping takes whole milliseconds, and one too few would spin.
        Duration::try_from(rest)
            .map(|rest| rest + Duration::from_millis(1))
            .unwrap_or_default()
    }

    fn saw(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.slots.values_mut().for_each(|slot| slot.listed = false),
            Event::Apply(pod) | Event::InitApply(pod) => self.saw_pod(pod),
            Event::InitDone => {
                let gone: Vec<PodId> = self
                    .slots
                    .iter()
                    .filter(|(_, slot)| !slot.listed)
                    .map(|(id, _)| id.clone())
                    .collect();
                gone.iter().for_each(|id| self.forget(id));
            }
            Event::Delete(pod) => self.forget(&id_of(&pod)),
        }
    }

    fn saw_pod(&mut self, mut pod: DynamicObject) {
        pod.metadata.managed_fields = None;
        let id = id_of(&pod);
        let Ok(pod) = serde_json::to_value(&pod) else {
            return;
        };
        let now = self.node.clock.now();
        self.advance(&id, now);
        let profile = self.node.options.profile;
        let known = self.slots.contains_key(&id);
        let slot = self
            .slots
            .entry(id.clone())
            .or_insert_with(|| Slot::new(Machine::new(profile, &pod, now)));
        slot.listed = true;
        if known {
            slot.machine.see(&pod, now);
        }
        self.advance(&id, now);
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        let now = self.node.clock.now();
        let ids: Vec<PodId> = self.slots.keys().cloned().collect();
        for id in ids {
            self.advance(&id, now);
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.machine.disturb(disturbance, now);
            }
            self.advance(&id, now);
        }
    }

    fn forget(&mut self, id: &PodId) {
        if let Some(Slot { wake: Some(at), .. }) = self.slots.remove(id) {
            self.wakes.remove(&(at, id.clone()));
        }
    }

    fn wake_up(&mut self) {
        let now = self.node.clock.now();
        while let Some((at, id)) = self.wakes.first().cloned().filter(|(at, _)| *at <= now) {
            self.advance(&id, now);
            // A machine that wants the same time again has to wait: nothing may keep the node from
            // its other pods.
            if self.wakes.first() == Some(&(at, id)) {
                break;
            }
        }
    }

    /// Advances the machine of a pod to now.
    fn advance(&mut self, id: &PodId, now: Timestamp) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let mut images = self
            .node
            .images
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let actions = slot.machine.advance(&mut images, now);
        drop(images);
        let wake = slot.machine.wake();
        if wake != slot.wake {
            if let Some(before) = slot.wake {
                self.wakes.remove(&(before, id.clone()));
            }
            slot.wake = wake;
            self.wakes.extend(wake.map(|at| (at, id.clone())));
        }
        for action in actions {
            match action {
                // The receiver is gone only when the node is dropped.
                Action::Event(event) => drop(self.events.send((id.clone(), event))),
                other => slot.post(other),
            }
        }
        self.write_next(id);
    }

    fn write_next(&mut self, id: &PodId) {
        let Some(slot) = self.slots.get_mut(id).filter(|slot| !slot.writing) else {
            return;
        };
        let Some(action) = slot.outbox.pop_front() else {
            return;
        };
        slot.writing = true;
        let (writer, id) = (self.writer.clone(), id.clone());
        self.writes
            .push(async move { (id.clone(), write(&writer, &id, action).await) }.boxed());
    }

    fn written(&mut self, (id, well): Done) {
        let now = self.node.clock.now();
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.writing = false;
            if !well {
                slot.machine.not_written(now);
            }
        }
        self.advance(&id, now);
    }
}

impl Slot {
    fn new(machine: Machine) -> Self {
        Self {
            machine,
            wake: None,
            outbox: VecDeque::new(),
            writing: false,
            listed: true,
        }
    }

    /// Queues an action. Of queued status patches only the last is written, as by kubelets.
    fn post(&mut self, action: Action) {
        match (self.outbox.back_mut(), action) {
            (Some(Action::PatchStatus(waiting)), Action::PatchStatus(newer)) => *waiting = newer,
            (_, action) => self.outbox.push_back(action),
        }
    }
}

async fn write(writer: &PodWriter, id: &PodId, action: Action) -> bool {
    match action {
        Action::PatchStatus(status) => writer.patch_status(id, status).await,
        Action::PutStatus(pod) => writer.put_status(id, &pod).await,
        Action::Delete => {
            writer.delete(id).await;
            true
        }
        Action::Event(_) => true,
    }
}

fn id_of(pod: &DynamicObject) -> PodId {
    let metadata = &pod.metadata;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    PodId {
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
    }
}
