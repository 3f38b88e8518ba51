//! The model: one pod with one container to restart, one request, its node, its user and one or two controllers, in every order of
//! events. Requests, pods and memories are the real ones, kept once each; the controllers run the real decision.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use swaplet::decide::exit_images::ExitImages;
use swaplet::decide::headroom::Headroom;
use swaplet::decide::node_class::NodeClass;
use swaplet::decide::restart::{Action, Around, Made, Memory, Sight, decide, orphan};
use swaplet::objects::parked::Parked;
use swaplet::objects::pod::{Container, ContainerState, Terminated};
use swaplet::objects::restart_pod::RestartPod;
use swaplet::objects::restart_request::{Mark, Parking, RestartRequest, StatePhase};

use crate::expect::EXIT;
use crate::restart::world::{PARK, apply, images, park_image};

/// Longer than everything that a decision waits for.
const LONG: Duration = Duration::from_secs(100_000);
/// Another image, by the user.
pub const OTHER: &str = "r.example/app:2";

/// What is wrong with the protocol on purpose: each must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    None,
    /// Writes to a request are made to any version of it.
    RequestUnguarded,
    /// The patch of the pod tests nothing.
    PodUnguarded,
    /// The patch of the pod does not test the generation.
    GenerationUnguarded,
    /// What is written down before a change is not stored.
    Forgets,
    /// An answer that was lost counts as a refusal.
    LostIsRefused,
    /// What was not restarted is reported as restarted.
    Lies,
    /// A pod is parked without a word about the image before.
    ParksWithoutNote,
    /// That the image before is to be put back is not written down.
    ForgetsBack,
    /// The park image ends at once, as an exit image does.
    ParkEnds,
    /// Nobody looks for what is parked for nobody.
    NoOrphans,
}

/// Things, each with its number.
struct Store<T>(HashMap<T, u32>, Vec<T>);

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self(HashMap::new(), Vec::new())
    }
}

impl<T: Hash + Eq + Clone> Store<T> {
    fn id(&mut self, thing: T) -> u32 {
        let next = u32::try_from(self.1.len()).unwrap();
        *self.0.entry(thing.clone()).or_insert_with(|| {
            self.1.push(thing);
            next
        })
    }

    fn get(&self, id: u32) -> T {
        self.1[id as usize].clone()
    }
}

/// A pod and its text, by which it is found again.
#[derive(Clone)]
struct Kept(Arc<RestartPod>, Arc<str>);

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl Eq for Kept {}

impl Hash for Kept {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.1.hash(state);
    }
}

type DecisionKey = (u32, Option<u32>, u32, bool);

/// All requests, pods, memories and writes that were met, and what was decided and done with them.
#[derive(Default)]
pub struct Stores {
    requests: Store<RestartRequest>,
    pods: Store<Kept>,
    memories: Store<Memory>,
    actions: Store<Action>,
    decisions: HashMap<DecisionKey, (Option<u32>, u32)>,
    changes: HashMap<(u32, PodChange), u32>,
    writes: HashMap<(u32, u32), u32>,
    settled: HashMap<(u32, u32, u32, u8), u32>,
    orphans: HashMap<(Option<u32>, u32), Option<u32>>,
    /// Whether there is a park image.
    pub parks: bool,
}

/// What happens to the object of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodChange {
    Image(Box<str>),
    /// By the controller, with what the pod is to say of parked containers.
    Swap(Box<str>, Option<Option<Parked>>),
    Status(Real, i64),
    Deleting,
    Replaced,
}

/// The container as it is on the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Real {
    pub image: Box<str>,
    pub count: u8,
    pub run: Run,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Run {
    Running,
    Stopped,
    /// By itself, with exit code 0.
    Ended,
    NotPulled,
}

impl Stores {
    pub fn request(&mut self, request: RestartRequest) -> u32 {
        self.requests.id(request)
    }

    pub fn read_request(&self, id: u32) -> RestartRequest {
        self.requests.get(id)
    }

    pub fn pod(&mut self, pod: RestartPod) -> u32 {
        let text = format!("{pod:?}").into();
        self.pods.id(Kept(Arc::new(pod), text))
    }

    pub fn read_pod(&self, id: u32) -> Arc<RestartPod> {
        self.pods.get(id).0
    }

    pub fn new_memory(&mut self) -> u32 {
        self.memories.id(Memory::default())
    }

    pub fn action(&self, id: u32) -> Action {
        self.actions.get(id)
    }

    /// The container of a pod.
    pub fn container(&self, pod: u32) -> Container {
        self.read_pod(pod).find("app").unwrap().1.clone()
    }

    /// What a controller decides, and what it remembers then; `late` is whether all that it waits for has lasted too long.
    pub fn decide(&mut self, request: u32, pod: Option<u32>, memory: u32, late: bool) -> (Option<u32>, u32) {
        if let Some(known) = self.decisions.get(&(request, pod, memory, late)) {
            return *known;
        }
        let object = self.requests.get(request);
        let seen = pod.map(|pod| self.read_pod(pod));
        let mut remembered = self.memories.get(memory);
        if let Some(pod) = &seen {
            remembered.observe(&object, pod, Duration::ZERO);
        }
        let exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new());
        let park = self.parks.then(park_image);
        let now = if late { LONG } else { Duration::ZERO };
        let room = |_| Headroom::Free;
        let around = Around {
            exit_images: &exit_images,
            park: park.as_ref(),
            node: Some(NodeClass::Kubelet),
            kubelet: None,
            room: &room,
            is_first: true,
            now,
            today: Timestamp::UNIX_EPOCH,
        };
        let sight = seen.as_deref().map_or(Sight::Absent, Sight::There);
        let action = decide(&object, sight, &remembered, &around).action.map(|action| self.actions.id(action));
        let decided = (action, self.memories.id(remembered));
        self.decisions.insert((request, pod, memory, late), decided);
        decided
    }

    /// The change by which a controller puts back what it sees parked for nobody.
    pub fn orphan(&mut self, request: Option<u32>, pod: u32) -> Option<u32> {
        if let Some(known) = self.orphans.get(&(request, pod)) {
            return *known;
        }
        let object = request.map(|request| self.requests.get(request));
        let found = orphan(&self.read_pod(pod), object.iter()).map(|orphan| self.actions.id(Action::Swap(orphan.change)));
        self.orphans.insert((request, pod), found);
        found
    }

    /// What a life remembers of a write that has come back.
    pub fn settle(&mut self, memory: u32, request: u32, action: u32, made: Made) -> u32 {
        let key = (memory, request, action, made as u8);
        if let Some(known) = self.settled.get(&key) {
            return *known;
        }
        let mut remembered = self.memories.get(memory);
        remembered.settle(&self.requests.get(request), &self.actions.get(action), made);
        let id = self.memories.id(remembered);
        self.settled.insert(key, id);
        id
    }

    /// A request after a write to it.
    pub fn write(&mut self, request: u32, action: u32, mutant: Mutant) -> u32 {
        if let Some(known) = self.writes.get(&(request, action)) {
            return *known;
        }
        let mut object = self.requests.get(request);
        let mut written = self.actions.get(action);
        match (&mut written, mutant) {
            (Action::WriteDown(journal), Mutant::Forgets) => journal.0.values_mut().for_each(|mark| mark.intent = None),
            (Action::WriteDown(journal), Mutant::ForgetsBack) => {
                let is_back = |mark: &Mark| mark.intent.as_ref().is_some_and(|intent| intent.parking == Some(Parking::Back));
                let before = object.journal.clone().unwrap_or_default();
                journal.0.iter_mut().filter(|(_, mark)| is_back(mark)).for_each(|(name, mark)| *mark = before.0[name].clone());
            }
            (Action::Report(status), Mutant::Lies) => {
                status
                    .states
                    .iter_mut()
                    .filter(|state| state.phase == StatePhase::Failed)
                    .for_each(|state| state.phase = StatePhase::Succeeded);
            }
            _ => {}
        }
        apply(&mut object, None, &written, Timestamp::UNIX_EPOCH);
        let id = self.requests.id(object);
        self.writes.insert((request, action), id);
        id
    }

    /// A pod after a change of it.
    pub fn change(&mut self, pod: u32, change: PodChange) -> u32 {
        if let Some(known) = self.changes.get(&(pod, change.clone())) {
            return *known;
        }
        let mut object = (*self.read_pod(pod)).clone();
        match &change {
            PodChange::Swap(image, note) => {
                object.pod.containers[0].image.clone_from(image);
                object.generation = object.generation.map(|generation| generation + 1);
                object.parked = note.clone().unwrap_or(object.parked);
            }
            PodChange::Image(image) => {
                object.pod.containers[0].image.clone_from(image);
                object.generation = object.generation.map(|generation| generation + 1);
            }
            PodChange::Status(real, generation) => show(&mut object, real, *generation),
            PodChange::Deleting => object.pod.deleting = true,
            PodChange::Replaced => {
                object.pod.uid = "another".into();
                object.pod.deleting = false;
                object.generation = Some(1);
                object.parked = None;
                object.pod.containers[0].image = images("app").0.into();
                show(&mut object, &Real { image: images("app").0.into(), count: 0, run: Run::Running }, 1);
            }
        }
        let id = self.pod(object);
        self.changes.insert((pod, change), id);
        id
    }
}

/// The status that a kubelet of 1.34 writes.
fn show(object: &mut RestartPod, real: &Real, generation: i64) {
    object.observed_generation = object.observed_generation.map(|_| generation);
    object.details[0].ready = real.run == Run::Running;
    let status = object.pod.containers[0].status.as_mut().unwrap();
    status.image = if *real.image == *PARK { PARK.into() } else { images("app").0.into() };
    status.restart_count = real.count.into();
    status.container_id = format!("containerd://app-{}", real.count).into();
    status.state = match real.run {
        Run::Running => ContainerState::Running { started_at: None },
        Run::Ended => ContainerState::Terminated(Terminated { exit_code: Some(0), ..Terminated::default() }),
        Run::Stopped => ContainerState::Terminated(Terminated { exit_code: Some(143), ..Terminated::default() }),
        Run::NotPulled => ContainerState::Waiting { reason: "ErrImagePull".into(), message: real.image.clone() },
    };
}
