//! All pods that matter now, each with its memory: the state of the loop, without any I/O and without a clock.
//!
//! Level-triggered: an event only says that a pod is to be looked at; what is written is decided from the pod's latest state
//! when its turn comes.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::openkruise::{Concerns, Known, News};
use super::queue::FairQueue;
use super::writer::{Outcome, Target};
use crate::decide::circumstances::Circumstances;
use crate::decide::decision::{Action, Decision, Report, Swap};
use crate::decide::exit_images::ExitImages;
use crate::decide::ladder::Ladder;
use crate::decide::memory::Memory;
use crate::decide::node_class::NodeClass;
use crate::decide::openkruise::Coexist;
use crate::decide::reason::Reason;
use crate::decide::terminate::decide;
use crate::objects::pod::{Pod, RestartPolicy};

/// The wait after the first failed write; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest wait after failed writes.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// The first wait after a denial: an administrator has to change something.
const DENIED_RETRY: Duration = Duration::from_secs(60);
/// The longest wait after denials.
const LAST_DENIED_RETRY: Duration = Duration::from_secs(15 * 60);
/// The longest wait after failed requests to OpenKruise, which are tried for 40 s only.
const LAST_REQUEST_RETRY: Duration = Duration::from_secs(5);

/// A write to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The pod.
    pub target: Target,
    /// What to write.
    pub action: Action,
    /// What to tell once it is applied.
    pub report: Option<Report>,
}

/// Something to tell about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The pod.
    pub target: Target,
    /// What.
    pub report: Report,
}

/// What the index wants the loop to do besides writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell something.
    Notice(Notice),
    /// A decision about a pod, where it differs from the one before.
    Decided(Reason),
    /// A swap was applied so long after the mains were seen done.
    Swapped(Duration),
    /// A pod is finished, so long after its first swap.
    Ended(Duration),
}

struct Entry {
    pod: Pod,
    memory: Memory,
    last: Option<Reason>,
    /// What to tell if a write turns out to have been applied whose answer was lost.
    unconfirmed: Option<Report>,
    due: Option<Duration>,
    list: u64,
}

/// The rules of the installation.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The exit images.
    pub exit_images: ExitImages,
    /// The ways to end a sidecar that the administrator allows.
    pub ladder: Ladder,
    /// Who ends sidecars where OpenKruise is there as well.
    pub coexist: Coexist,
}

/// The pods, and which of them want a write or another look.
pub struct Index {
    rules: Rules,
    openkruise: Known,
    entries: HashMap<Box<str>, Entry>,
    due: BTreeSet<(Duration, Box<str>)>,
    ready: FairQueue,
    list: u64,
}

impl Index {
    /// An empty index.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let openkruise = Known::new(&rules);
        Self { rules, openkruise, entries: HashMap::new(), due: BTreeSet::new(), ready: FairQueue::default(), list: 0 }
    }

    /// How many pods are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no pod is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many pods wait for a write.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// A list of all pods begins.
    pub fn list_starts(&mut self) {
        self.list += 1;
    }

    /// The list is complete: pods that it did not name are gone.
    pub fn list_ends(&mut self) {
        let gone: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.list != self.list).map(|(uid, _)| uid.clone()).collect();
        gone.iter().for_each(|uid| self.remove(uid));
    }

    /// A pod was listed, added or has changed.
    pub fn apply(&mut self, pod: Pod, now: Duration) -> Vec<Effect> {
        if pod.restart_policy == RestartPolicy::Always {
            return Vec::new();
        }
        self.openkruise.learn(&pod, &self.rules.exit_images);
        let uid = pod.uid.clone();
        match self.entries.get_mut(&uid) {
            Some(entry) => {
                entry.pod = pod;
                entry.list = self.list;
            }
            None => {
                let entry = Entry { pod, memory: Memory::default(), last: None, unconfirmed: None, due: None, list: self.list };
                self.entries.insert(uid.clone(), entry);
            }
        }
        self.look(&uid, now).1
    }

    /// There is something new about OpenKruise.
    pub fn hear(&mut self, news: News, now: Duration) -> Vec<Effect> {
        let uids: Vec<Box<str>> = match self.openkruise.hear(news) {
            Concerns::Nobody => Vec::new(),
            Concerns::Pod(uid) => vec![uid],
            Concerns::Node(node) => self.entries.iter().filter(|(_, entry)| entry.pod.node == node).map(|(uid, _)| uid.clone()).collect(),
            Concerns::Everybody => self.entries.keys().cloned().collect(),
        };
        uids.iter().flat_map(|uid| self.look(uid, now).1).collect()
    }

    /// A pod is gone.
    pub fn remove(&mut self, uid: &str) {
        if let Some(Entry { due: Some(at), .. }) = self.entries.remove(uid) {
            self.due.remove(&(at, uid.into()));
        }
    }

    /// The next time at which a pod is to be looked at although nothing happened.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Looks at the pods whose time has come.
    pub fn wake(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((at, uid)) = self.due.pop_first() {
            if at > now {
                self.due.insert((at, uid));
                break;
            }
            if let Some(entry) = self.entries.get_mut(&uid) {
                entry.due = None;
            }
            effects.extend(self.look(&uid, now).1);
        }
        effects
    }

    /// The next write, decided from the latest state of the pod whose turn it is.
    pub fn next_write(&mut self, now: Duration) -> (Option<Write>, Vec<Effect>) {
        let mut effects = Vec::new();
        while let Some(uid) = self.ready.pop() {
            let (decision, more) = self.look(&uid, now);
            effects.extend(more);
            if let Some(write) = decision.and_then(|decision| self.begin(&uid, decision)) {
                return (Some(write), effects);
            }
        }
        (None, effects)
    }

    /// A write has come back.
    pub fn written(&mut self, write: Write, outcome: &Outcome, now: Duration) -> Vec<Effect> {
        let uid = write.target.uid.clone();
        let Some(entry) = self.entries.get_mut(&uid) else {
            // The pod is gone; what was done to it is still told.
            return if matches!(outcome, Outcome::Applied(_)) {
                notice(write.target, write.report).into_iter().collect()
            } else {
                Vec::new()
            };
        };
        entry.memory.in_flight = false;
        let mut effects = entry.settle(write, outcome, now);
        if *outcome == Outcome::Gone {
            self.remove(&uid);
        } else {
            effects.extend(self.look(&uid, now).1);
        }
        effects
    }

    /// Decides about a pod and does with the decision all that is not a write.
    fn look(&mut self, uid: &str, now: Duration) -> (Option<Decision>, Vec<Effect>) {
        let Some(entry) = self.entries.get_mut(uid) else { return (None, Vec::new()) };
        let Rules { exit_images, ladder, .. } = &self.rules;
        let node = self.openkruise.class(&entry.pod, NodeClass::Kubelet);
        let openkruise = self.openkruise.around(&entry.pod, node);
        let around = Circumstances { exit_images, ladder, node, openkruise, now };
        let decision = entry.decide(&around);
        let effects = entry.effects(&decision, now);
        let before = std::mem::replace(&mut entry.due, decision.again);
        if decision.action.is_some() {
            self.ready.push(&entry.pod.namespace, uid);
        }
        self.reschedule(uid, before, decision.again);
        if is_over(decision.reason) {
            self.remove(uid);
        }
        (Some(decision), effects)
    }

    fn reschedule(&mut self, uid: &str, before: Option<Duration>, after: Option<Duration>) {
        if before == after {
            return;
        }
        if let Some(at) = before {
            self.due.remove(&(at, uid.into()));
        }
        if let Some(at) = after {
            self.due.insert((at, uid.into()));
        }
    }

    fn begin(&mut self, uid: &str, decision: Decision) -> Option<Write> {
        let action = decision.action?;
        let entry = self.entries.get_mut(uid)?;
        entry.memory.in_flight = true;
        Some(Write { target: Target::of(&entry.pod), action, report: decision.done })
    }
}

/// Whether nothing will ever be done for the pod again, so that it need not be kept.
const fn is_over(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::PodDeleting
            | Reason::PodFinished
            | Reason::RestartPolicyAlways
            | Reason::NoSidecar
            | Reason::SidecarEnded
            | Reason::PodFailedAfterSwap
            | Reason::PodFailedAfterRecreate
    )
}

fn notice(target: Target, report: Option<Report>) -> Option<Effect> {
    report.map(|report| Effect::Notice(Notice { target, report }))
}

impl Entry {
    fn decide(&mut self, around: &Circumstances<'_>) -> Decision {
        self.memory.observe(&self.pod, around.exit_images, around.now);
        self.memory.observe_request(around.openkruise.request, around.now);
        decide(&self.pod, &self.memory, around)
    }

    fn effects(&mut self, decision: &Decision, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.last != Some(decision.reason) && !(self.last.is_none() && is_over(decision.reason)) {
            effects.push(Effect::Decided(decision.reason));
        }
        self.last = Some(decision.reason);
        for report in &decision.reports {
            self.memory.said.push(report.reason);
            effects.extend(notice(Target::of(&self.pod), Some(report.clone())));
        }
        let memory = &self.memory;
        let confirmed = self.unconfirmed.take_if(|report| match report.reason {
            Reason::RecreateRequested => memory.request_seen_at.is_some(),
            _ => !memory.swaps.is_empty(),
        });
        effects.extend(notice(Target::of(&self.pod), confirmed));
        let first_swap = self.memory.swaps.iter().map(|record| record.at).min();
        if let (Reason::SidecarEnded | Reason::PodFailedAfterSwap, Some(at)) = (decision.reason, first_swap) {
            effects.push(Effect::Ended(now.saturating_sub(at)));
        }
        effects
    }

    /// Remembers what became of a write.
    fn settle(&mut self, write: Write, outcome: &Outcome, now: Duration) -> Vec<Effect> {
        if let Action::Recreate(_) = write.action {
            return self.settle_request(write, outcome, now);
        }
        match outcome {
            Outcome::Applied(stored) => self.applied(write, stored, now),
            Outcome::Conflict => self.back_off(now, FIRST_RETRY, LAST_RETRY, None),
            Outcome::Gone => Vec::new(),
            Outcome::Failed { retry_after, .. } => {
                self.unconfirmed = write.report;
                self.back_off(now, FIRST_RETRY, LAST_RETRY, *retry_after)
            }
            Outcome::Denied(words) => {
                let mut effects = self.back_off(now, DENIED_RETRY, LAST_DENIED_RETRY, None);
                if self.memory.first_time(Reason::WriteDenied) {
                    let note = format!("the API server forbids to {}: {words}", attempt(&write.action));
                    effects.extend(notice(write.target, Some(Report { reason: Reason::WriteDenied, note })));
                }
                effects
            }
        }
    }

    fn applied(&mut self, write: Write, stored: &[Box<str>], now: Duration) -> Vec<Effect> {
        self.memory.failures = 0;
        self.memory.not_before = None;
        self.unconfirmed = None;
        let swaps = if let Action::Swap(swaps) = &write.action { &swaps[..] } else { &[] };
        for (swap, image) in swaps.iter().zip(stored) {
            if let Some(container) = self.pod.containers.get_mut(swap.index) {
                self.memory.swapped(container, image, now);
                // The event of our own write may come later; until then this is what we know to be stored.
                container.image.clone_from(image);
            }
        }
        let waited = self.memory.mains_done_at.map(|done| Effect::Swapped(now.saturating_sub(done)));
        waited.into_iter().chain(notice(write.target, write.report)).collect()
    }

    /// A request that was not created leads to the next rung, so a denial is not tried again.
    fn settle_request(&mut self, write: Write, outcome: &Outcome, now: Duration) -> Vec<Effect> {
        let error = match outcome {
            Outcome::Failed { error, .. } | Outcome::Denied(error) => Some(error.clone()),
            // It is there, by whomever; what becomes of it is seen.
            Outcome::Applied(_) | Outcome::Conflict | Outcome::Gone => None,
        };
        self.memory.asked_for(error, matches!(outcome, Outcome::Denied(_)), now);
        match outcome {
            Outcome::Applied(stored) => self.applied(write, stored, now),
            Outcome::Failed { retry_after, .. } => {
                self.unconfirmed = write.report;
                self.back_off(now, FIRST_RETRY, LAST_REQUEST_RETRY, *retry_after)
            }
            _ => Vec::new(),
        }
    }

    fn back_off(&mut self, now: Duration, first: Duration, last: Duration, at_least: Option<Duration>) -> Vec<Effect> {
        let wait = first.saturating_mul(1 << self.memory.failures.min(16)).min(last);
        self.memory.failures += 1;
        self.memory.not_before = Some(now + wait.max(at_least.unwrap_or_default()));
        Vec::new()
    }
}

/// What was tried, in words that follow "forbids to".
fn attempt(action: &Action) -> String {
    match action {
        Action::Swap(swaps) => format!("change the image of {}", names(swaps)),
        Action::Recreate(containers) => format!("ask for an end of {}", containers.join(", ")),
    }
}

fn names(swaps: &[Swap]) -> String {
    swaps.iter().map(|swap| &*swap.container).collect::<Vec<_>>().join(", ")
}
