//! The model: one pod with one container to restart, one request, its node, its user and one or two
//! controllers, in every order of events. Requests and pods are the real ones, kept once each; the
//! controllers run the real decision, once for each thing that there is to decide.

mod pods;

use std::hash::Hash;
use std::sync::Arc;

use jiff::Timestamp;
use swaplet::image::alias::is_same_image;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::Headroom;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::report::denial::UNDONE;
use swaplet_core::restart::pod::RestartPod;
use swaplet_core::restart::reconcile::{Action, Around, Memory, ParkImage, Sight, decide, orphan};
use swaplet_core::restart::request::{Mark, Parking, RestartRequest, StatePhase};

pub use self::pods::{PodChange, started_at};
use super::facts::{Message, PodFacts, RequestFacts, WriteFacts};
use super::forger::forged_journal;
use super::mutants::with_old_names;
use super::state::{ABSENT, Controller, Id, ImageId, NOTHING};
use super::store::{Known, Store, key};
use super::webhooks::{Webhook, plain};
use crate::expect::{EXIT, moment};
use crate::restart::leash::admits_in;
use crate::restart::world::{PARK, apply, images, is_honest};

/// Longer than everything that a decision waits for.
const LONG: Moment = moment(100_000);

/// The image of the container before it is restarted.
pub const ORIGINAL: ImageId = 0;
pub const PARKED: ImageId = 1;
pub const EXITED: ImageId = 2;
/// Another image, by the user.
pub const OTHER: ImageId = 3;

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
    /// The generation for which a change is written down is not stored.
    ForgetsGeneration,
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
    /// The API server admits no image without the digest that the one before had.
    DeniesBack,
    /// The names of an image are two in turn, and not a new one each time.
    NamesComeBack,
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

/// All requests, pods, memories and writes that were met, and what was decided and done with them.
pub struct Stores {
    pub mutant: Mutant,
    exit_images: ExitImages,
    /// `None` where there is none.
    pub park: Option<ParkImage>,
    pub webhook: Webhook,
    images: Vec<Box<str>>,
    /// The images that these are of, by the name without what a webhook has made of it.
    plain: Vec<ImageId>,
    requests: Store<RestartRequest>,
    request_facts: Vec<RequestFacts>,
    pods: Store<Kept>,
    pod_facts: Vec<PodFacts>,
    actions: Store<Action>,
    write_facts: Vec<WriteFacts>,
    messages: Store<Message>,
    answers: Store<(Id, Id)>,
    same_bytes: Known<bool>,
    decisions: Known<Id>,
    changes: Known<Id>,
    writes: Known<Id>,
    orphans: Known<Id>,
    admissions: Known<bool>,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            mutant: Mutant::None,
            exit_images: ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new()),
            park: None,
            webhook: Webhook::None,
            plain: vec![ORIGINAL, PARKED, EXITED, OTHER],
            images: [&images("app").0, PARK, EXIT, "r.example/app:2"]
                .map(Into::into)
                .into(),
            requests: Store::default(),
            request_facts: Vec::new(),
            pods: Store::default(),
            pod_facts: Vec::new(),
            actions: Store::default(),
            write_facts: Vec::new(),
            messages: Store::default(),
            answers: Store::default(),
            same_bytes: Known::default(),
            decisions: Known::default(),
            changes: Known::default(),
            writes: Known::default(),
            orphans: Known::default(),
            admissions: Known::default(),
        }
    }
}

impl Stores {
    fn image(&mut self, image: &str) -> ImageId {
        let known = self.images.iter().position(|known| **known == *image);
        let id = known.unwrap_or_else(|| {
            let plain = (plain(image) != image).then(|| self.image(&plain(image)));
            self.images.push(image.into());
            let id = self.images.len() - 1;
            self.plain
                .push(plain.unwrap_or_else(|| id.try_into().unwrap()));
            id
        });
        id.try_into().unwrap()
    }

    /// The image that was written where a webhook has stored this one.
    pub fn plain(&self, image: ImageId) -> ImageId {
        self.plain[usize::from(image)]
    }

    /// Whether both names are of the same image.
    pub fn are_same_bytes(&mut self, one: ImageId, other: ImageId) -> bool {
        let (one, other) = (self.plain(one), self.plain(other));
        let images = &self.images;
        *self
            .same_bytes
            .entry(key([one.into(), other.into(), 0, 0]))
            .or_insert_with(|| {
                is_same_image(&images[usize::from(one)], &images[usize::from(other)])
            })
    }

    pub fn request(&mut self, request: RestartRequest) -> Id {
        let facts = RequestFacts::of(&request);
        let (id, is_new) = self.requests.add(request);
        if is_new {
            self.request_facts.push(facts);
        }
        id
    }

    pub fn request_facts(&self, id: Id) -> &RequestFacts {
        &self.request_facts[usize::from(id - super::state::FIRST)]
    }

    pub fn pod(&mut self, pod: RestartPod) -> Id {
        let image = self.image(&pod.find("app").unwrap().1.image);
        let facts = PodFacts::of(&pod, image);
        let text = format!("{pod:?}").into();
        let (id, is_new) = self.pods.add(Kept(Arc::new(pod), text));
        if is_new {
            self.pod_facts.push(facts);
        }
        id
    }

    pub fn pod_facts(&self, id: Id) -> &PodFacts {
        &self.pod_facts[usize::from(id - super::state::FIRST)]
    }

    fn action(&mut self, action: Action) -> Id {
        let swap = if let Action::Swap(change) = &action {
            change.swaps.first().cloned()
        } else {
            None
        };
        let facts = WriteFacts::of(
            &action,
            swap.map(|swap| (self.image(&swap.from), self.image(&swap.to))),
        );
        let (id, is_new) = self.actions.add(action);
        if is_new {
            self.write_facts.push(facts);
        }
        id
    }

    pub fn write_facts(&self, id: Id) -> &WriteFacts {
        &self.write_facts[usize::from(id - super::state::FIRST)]
    }

    pub fn message(&mut self, message: Message) -> Id {
        self.messages.id(message)
    }

    pub fn read_message(&self, id: Id) -> Message {
        *self.messages.get(id)
    }

    /// What a controller remembers of an answer, if a webhook has stored another image than was
    /// written, or `NOTHING`.
    pub fn answer(&mut self, write: Id, pod: Id) -> Id {
        let WriteFacts::Swap(swap) = *self.write_facts(write) else {
            return NOTHING;
        };
        match [swap.from, swap.to].contains(&self.pod_facts(pod).image) {
            true => NOTHING,
            false => self.answers.id((write, pod)),
        }
    }

    /// What a controller writes, or `NOTHING`; `late` is whether all that it waits for, or does in
    /// vain, has lasted too long. What was undone once is remembered before that, too.
    pub fn decide(&mut self, controller: Controller, late: bool) -> Id {
        let Controller {
            request,
            pod,
            stored,
            in_vain,
            ..
        } = controller;
        let in_vain = in_vain != NOTHING;
        let key = key([
            request,
            pod,
            Id::from(late) | Id::from(in_vain) << 1,
            stored,
        ]);
        if let Some(known) = self.decisions.get(&key) {
            return *known;
        }
        let object = self.requests.get(request);
        let seen = Arc::clone(&self.pods.get(pod).0);
        let mut remembered = Memory::default();
        remembered.observe(object, &seen, Moment::START);
        if stored != NOTHING {
            let (write, pod) = *self.answers.get(stored);
            if let Action::Swap(change) = self.actions.get(write) {
                remembered.note_stored(change, &self.pods.get(pod).0);
            }
        }
        if in_vain {
            remembered.note_in_vain("pods", UNDONE, Moment::START);
        }
        let room = |_| Headroom::Free;
        let mut around = Around {
            exit_images: &self.exit_images,
            park: self.park.as_ref(),
            node: Some(NodeClass::Kubelet),
            kubelet: None,
            runs_on: RunsOn::named(Some("linux"), Some("amd64")),
            room: &room,
            is_first: true,
            left_to_vendor: Some(true),
            now: Moment::START,
            today: Timestamp::UNIX_EPOCH,
        };
        let mut decided = decide(object, Sight::There(&seen), &remembered, &around);
        if late {
            remembered.note(&decided, around.now);
            for seconds in (0..=700).step_by(100).filter(|_| in_vain) {
                remembered.note_in_vain("pods", UNDONE, moment(seconds));
            }
            around.now = LONG;
            decided = decide(object, Sight::There(&seen), &remembered, &around);
        }
        let mut action = decided.action;
        if self.mutant == Mutant::NamesComeBack {
            action = action.map(|action| with_old_names(action, object, &seen));
        }
        let decided = action.map_or(NOTHING, |action| self.action(action));
        self.decisions.insert(key, decided);
        decided
    }

    /// The change by which a controller puts back what it sees parked for nobody, or `NOTHING`.
    pub fn orphan(&mut self, request: Id, pod: Id) -> Id {
        let key = key([request, pod, 0, 0]);
        if let Some(known) = self.orphans.get(&key) {
            return *known;
        }
        let object = (request != ABSENT).then(|| self.requests.get(request));
        let is_park = |image: &str| self.park.as_ref().is_some_and(|park| park.is(image));
        let found = orphan(&self.pods.get(pod).0, object.into_iter(), is_park);
        let change = found.and_then(|orphan| orphan.change);
        let found = change.map_or(NOTHING, |change| self.action(Action::Swap(change)));
        self.orphans.insert(key, found);
        found
    }

    /// Whether it is told that a container stays parked which is parked for nobody.
    pub fn stays(&self, request: Id, pod: Id) -> bool {
        let object = (request != ABSENT).then(|| self.requests.get(request));
        let is_park = |image: &str| self.park.as_ref().is_some_and(|park| park.is(image));
        orphan(&self.pods.get(pod).0, object.into_iter(), is_park)
            .is_some_and(|orphan| !orphan.stays.is_empty())
    }

    /// A request in which somebody has written this journal.
    pub fn forge_journal(&mut self, request: Id, form: u8) -> Id {
        let mut object = self.requests.get(request).clone();
        let journal = forged_journal(form);
        object.journal = journal
            .is_taken_up(object.phase, object.active && object.pod_uid.is_some())
            .then_some(journal);
        self.request(object)
    }

    /// A request that somebody deletes: it stays as long as a finalizer keeps it.
    pub fn delete_request(&mut self, request: Id) -> Id {
        let mut object = self.requests.get(request).clone();
        object.deleting = true;
        let deleted = self.request(object);
        self.without_what_is_gone(deleted)
    }

    pub fn without_what_is_gone(&self, request: Id) -> Id {
        if self.request_facts(request).is_gone {
            ABSENT
        } else {
            request
        }
    }

    /// Whether an image is one that the container had, an alias of it or the park image.
    pub fn is_honest(&self, image: ImageId) -> bool {
        is_honest(&self.images[usize::from(image)])
    }

    /// A request after a write to it.
    pub fn write(&mut self, request: Id, action: Id) -> Id {
        let key = key([request, action, 0, 0]);
        if let Some(known) = self.writes.get(&key) {
            return *known;
        }
        let mut object = self.requests.get(request).clone();
        let mut written = self.actions.get(action).clone();
        match (&mut written, self.mutant) {
            (Action::WriteDown(journal), Mutant::Forgets) => {
                journal.0.values_mut().for_each(|mark| mark.intent = None)
            }
            (Action::WriteDown(journal), Mutant::ForgetsBack) => {
                let is_back = |mark: &Mark| {
                    mark.intent
                        .as_ref()
                        .is_some_and(|intent| intent.parking == Some(Parking::Back))
                };
                let before = object.journal.clone().unwrap_or_default();
                journal
                    .0
                    .iter_mut()
                    .filter(|(_, mark)| is_back(mark))
                    .for_each(|(name, mark)| *mark = before.0[name].clone());
            }
            (Action::WriteDown(journal), Mutant::ForgetsGeneration) => {
                let intents = journal
                    .0
                    .values_mut()
                    .filter_map(|mark| mark.intent.as_mut());
                intents.for_each(|intent| intent.generation = None);
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
        let id = self.request(object);
        self.writes.insert(key, id);
        id
    }

    /// Whether the admission policy lets a write of the pod pass; `ours` is whether a controller
    /// has written the image that is there.
    pub fn admits(&mut self, pod: Id, write: Id, ours: bool) -> bool {
        let Action::Swap(change) = self.actions.get(write) else {
            unreachable!("this write is not of the pod")
        };
        let Some(swap) = change.swaps.first() else {
            return true;
        };
        if self.mutant == Mutant::DeniesBack && swap.from.contains('@') && !swap.to.contains('@') {
            return false;
        }
        let object = &self.pods.get(pod).0;
        *self
            .admissions
            .entry(key([pod, write, ours.into(), 0]))
            .or_insert_with(|| admits_in(object, swap, ours))
    }
}
