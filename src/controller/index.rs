//! All pods that matter now, each with its memory: the state of the loop, without any I/O and without a clock.
//!
//! Level-triggered: an event only says that a pod is to be looked at; what is written is decided from the pod's latest state
//! when its turn comes.

mod jobs;
mod requests;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::budgets::Budgets;
use super::derive::Pushed;
use super::nodes::{Learned, Nodes};
use super::openkruise::Known;
use super::queue::FairQueue;
use super::writer::{Outcome, Target};
use crate::decide::circumstances::Circumstances;
use crate::decide::decision::{Action, Decision, Report, Swap};
use crate::decide::derived_images::Paths;
use crate::decide::exit_images::ExitImages;
use crate::decide::headroom::{Ledger, Need, Swapped};
use crate::decide::ladder::Ladder;
use crate::decide::memory::Memory;
use crate::decide::node_table::NodeTable;
use crate::decide::node_verdicts::Proved;
use crate::decide::openkruise::Coexist;
use crate::decide::proof;
use crate::decide::reason::Reason;
use crate::decide::swap::patience;
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

/// What a probe may take beyond the patience with its swap: the write, and the statuses of a provider that is polled.
const PROBE_MARGIN: Duration = Duration::from_secs(30);

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

/// Something to tell about a pod, or about its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object.
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
    /// A write was applied so long after the mains were seen done.
    Swapped(Duration),
    /// A pod is finished, so long after its first swap.
    Ended(Duration),
    /// Push the exit image with these paths.
    Derive(Paths),
    /// A pod has proved how its node treats swaps.
    Learned(Learned),
}

struct Entry {
    pod: Pod,
    memory: Memory,
    last: Option<Reason>,
    /// What to tell if a write turns out to have been applied whose answer was lost.
    unconfirmed: Option<Report>,
    /// The restarts of swaps, as the watch has shown them.
    swapped: Swapped,
    /// The watch has shown another state, which has not been looked at.
    fresh: bool,
    /// Until when a swap counts as made that was applied, or may have been, and that the watch has not shown.
    unseen: Option<Duration>,
    due: Option<Duration>,
    /// Whether it wants an exit image that is not there.
    wants: bool,
    list: u64,
    /// What it has proved about its node: once, for an old proof is no news.
    proved: Option<Proved>,
}

/// The rules of the installation.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The exit images.
    pub exit_images: ExitImages,
    /// The ways to end a sidecar that the administrator allows.
    pub ladder: Ladder,
    /// How nodes are recognised.
    pub node_table: NodeTable,
    /// Who ends sidecars where OpenKruise is there as well.
    pub coexist: Coexist,
}

/// The pods, and which of them want a write or another look.
pub struct Index {
    rules: Rules,
    /// The nodes of the pods. Whoever changes them says which pods are to be looked at ([`Index::look_soon`]).
    pub nodes: Nodes,
    budgets: Budgets,
    openkruise: Known,
    entries: HashMap<Box<str>, Entry>,
    /// Knows more pods than `entries`: all whose restarts count against the limit of a Job.
    headroom: Ledger,
    due: BTreeSet<(Duration, Box<str>)>,
    ready: FairQueue,
    list: u64,
}

impl Index {
    /// An empty index.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let nodes = Nodes::new(rules.node_table.clone());
        let openkruise = Known::new(&rules);
        let (entries, due, ready) = (HashMap::new(), BTreeSet::new(), FairQueue::default());
        Self { rules, nodes, budgets: Budgets::default(), openkruise, entries, headroom: Ledger::default(), due, ready, list: 0 }
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
        self.ready.len() + self.budgets.waiting()
    }

    /// A list of all pods begins.
    pub fn list_starts(&mut self) {
        self.list += 1;
        self.headroom.pod_list_starts();
    }

    /// The list is complete: pods that it did not name are gone.
    pub fn list_ends(&mut self, now: Duration) -> Vec<Effect> {
        let gone: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.list != self.list).map(|(uid, _)| uid.clone()).collect();
        gone.iter().for_each(|uid| self.forget(uid));
        self.headroom.pod_list_ends(self.list);
        self.look_at_woken(now)
    }

    /// A pod was listed, added or has changed.
    pub fn apply(&mut self, pod: Pod, now: Duration) -> Vec<Effect> {
        if pod.restart_policy == RestartPolicy::Always {
            return Vec::new();
        }
        if self.openkruise.learn(&pod, &self.rules.exit_images) {
            self.look_soon(|other| other.namespace == pod.namespace);
        }
        let uid = pod.uid.clone();
        match self.entries.get_mut(&uid) {
            Some(entry) => {
                entry.pod = pod;
                entry.fresh = true;
                entry.list = self.list;
            }
            None => {
                self.entries.insert(uid.clone(), Entry::new(pod, self.list));
            }
        }
        let mut effects = self.look(&uid, now);
        effects.extend(self.look_at_woken(now));
        effects
    }

    /// A pod is gone.
    pub fn remove(&mut self, pod: &Pod, now: Duration) -> Vec<Effect> {
        self.forget(&pod.uid);
        self.headroom.pod_gone(pod);
        self.look_at_woken(now)
    }

    /// Nothing will be done for this pod; its restarts may still count.
    fn forget(&mut self, uid: &str) {
        self.openkruise.request_ends(uid);
        let Some(entry) = self.entries.remove(uid) else { return };
        if let Some(at) = entry.due {
            self.due.remove(&(at, uid.into()));
        }
        if self.nodes.probe_ends(&entry.pod) {
            self.look_soon(|pod| pod.node == entry.pod.node);
        }
    }

    /// These pods are looked at when the index is next woken: something around them has changed.
    pub fn look_soon(&mut self, concerned: impl Fn(&Pod) -> bool) {
        for (uid, entry) in self.entries.iter_mut().filter(|(_, entry)| concerned(&entry.pod)) {
            if let Some(at) = entry.due.replace(Duration::ZERO) {
                self.due.remove(&(at, uid.clone()));
            }
            self.due.insert((Duration::ZERO, uid.clone()));
        }
    }

    /// The next time at which a pod is to be looked at although nothing happened.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// When a provider that is asked too often may be asked again, if a pod waits for that.
    #[must_use]
    pub fn next_budget(&self) -> Option<Duration> {
        self.budgets.next()
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
            effects.extend(self.look(&uid, now));
        }
        effects.extend(self.look_at_woken(now));
        effects
    }

    /// The next write, decided from the latest state of the pod whose turn it is.
    pub fn next_write(&mut self, now: Duration) -> (Option<Write>, Vec<Effect>) {
        let mut effects = Vec::new();
        while let Some(uid) = self.budgets.pop(now).or_else(|| self.ready.pop()) {
            let (decision, more) = self.decide(&uid, now);
            let write = decision.and_then(|decision| self.begin(&uid, decision, now));
            effects.extend(more);
            effects.extend(self.look_at_woken(now));
            if write.is_some() {
                return (write, effects);
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
        if matches!((&write.action, outcome), (Action::Recreate(_), Outcome::Denied(_))) {
            self.openkruise.request_ends(&uid);
        }
        let mut effects = entry.settle(write, outcome, now);
        let gone = (*outcome == Outcome::Gone).then(|| entry.pod.clone());
        if matches!(outcome, Outcome::Conflict | Outcome::Denied(_)) && self.nodes.probe_ends(&entry.pod) {
            let node = entry.pod.node.clone();
            self.look_soon(|pod| pod.node == node);
        }
        if let Some(pod) = gone {
            effects.extend(self.remove(&pod, now));
        } else {
            effects.extend(self.look(&uid, now));
            effects.extend(self.look_at_woken(now));
        }
        effects
    }

    /// Looks at a pod; if something is to be written, it waits its turn.
    fn look(&mut self, uid: &str, now: Duration) -> Vec<Effect> {
        let (decision, effects) = self.decide(uid, now);
        if let (Some(Decision { action: Some(_), .. }), Some(entry)) = (decision, self.entries.get(uid)) {
            self.ready.push(&entry.pod.namespace, uid);
        }
        effects
    }

    /// The push of a derived exit image has come back: the pods that want one are looked at.
    pub fn derived_came(&mut self, paths: &[String], pushed: Pushed, now: Duration) -> Vec<Effect> {
        self.rules.exit_images.derived_came(paths, pushed, now);
        let waiting: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.wants).map(|(uid, _)| uid.clone()).collect();
        waiting.iter().flat_map(|uid| self.look(uid, now)).collect()
    }

    /// Decides about a pod and does with the decision all that is not a write.
    fn decide(&mut self, uid: &str, now: Duration) -> (Option<Decision>, Vec<Effect>) {
        let Some(entry) = self.entries.get_mut(uid) else { return (None, Vec::new()) };
        let Rules { exit_images, ladder, .. } = &self.rules;
        entry.pod.platform_ends_eci_sidecars = self.nodes.ends_eci_sidecars(&entry.pod);
        entry.memory.observe(&entry.pod, exit_images, now);
        let shown = entry.shown(exit_images);
        self.headroom.observe(&entry.pod, entry.swapped, entry.list);
        let proved = proof::proved(&entry.pod, &entry.memory, now).filter(|proved| entry.proved.replace(*proved) != Some(*proved));
        let learned = proved.and_then(|proved| self.nodes.learn(&entry.pod, proved, now));
        let (node, facts) = self.nodes.about(&entry.pod, entry.memory.mains_done_at, now);
        let node = self.openkruise.class(&entry.pod, node);
        let openkruise = self.openkruise.around(&entry.pod);
        entry.memory.observe_request(openkruise.request, now);
        let around = Circumstances { exit_images, ladder, headroom: &self.headroom, node, facts, openkruise, now };
        let decision = decide(&entry.pod, &entry.memory, &around);
        let need = entry.need(&decision, shown, now);
        self.headroom.need(&entry.pod, need);
        let mut effects = entry.effects(&decision, &mut self.headroom, now);
        entry.wants = !decision.wants.is_empty();
        for paths in &decision.wants {
            if self.rules.exit_images.ask_derived(&entry.pod.namespace, paths, now) {
                effects.push(Effect::Derive(paths.clone()));
            }
        }
        let again = decision.again.into_iter().chain(entry.unseen.filter(|_| decision.swaps_wanted > 0)).min();
        let before = std::mem::replace(&mut entry.due, again);
        self.reschedule(uid, before, again);
        if is_over(decision.reason) {
            self.forget(uid);
        }
        effects.extend(learned.map(|learned| self.learned(learned, uid)));
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

    /// The other pods of the node are looked at again.
    fn learned(&mut self, learned: Learned, by: &str) -> Effect {
        if let Some(entry) = self.entries.get(by) {
            self.nodes.probe_ends(&entry.pod);
        }
        self.look_soon(|pod| pod.node == learned.node && &*pod.uid != by);
        Effect::Learned(learned)
    }

    fn begin(&mut self, uid: &str, decision: Decision, now: Duration) -> Option<Write> {
        let action = decision.action?;
        let entry = self.entries.get_mut(uid)?;
        if matches!(action, Action::Swap(_)) {
            let pod = &entry.pod;
            if let Some((provider, rate)) = self.nodes.budget(pod)
                && !self.budgets.take(&provider, rate, (&pod.namespace, &pod.uid), now)
            {
                return None;
            }
            self.nodes.probe_starts(pod, now + patience(pod) + PROBE_MARGIN, now);
        }
        if let Action::Recreate(containers) = &action {
            self.openkruise.request_begins(&entry.pod, containers, now);
        }
        entry.memory.in_flight = true;
        self.headroom.need(&entry.pod, Need::Held);
        if let (Action::Finish(_), Some(record)) = (&action, &mut entry.memory.finish) {
            record.begun(now);
        }
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
            | Reason::PodFailedAfterFinish
            | Reason::PodFailedAfterRecreate
    )
}

fn notice(target: Target, report: Option<Report>) -> Option<Effect> {
    report.map(|report| Effect::Notice(Notice { target, report }))
}

impl Entry {
    fn new(pod: Pod, list: u64) -> Self {
        let (memory, swapped) = (Memory::default(), Swapped::default());
        Self { pod, memory, last: None, unconfirmed: None, swapped, fresh: true, unseen: None, due: None, wants: false, list, proved: None }
    }

    fn effects(&mut self, decision: &Decision, headroom: &mut Ledger, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.last != Some(decision.reason) && !(self.last.is_none() && is_over(decision.reason)) {
            effects.push(Effect::Decided(decision.reason));
        }
        self.last = Some(decision.reason);
        for report in &decision.reports {
            effects.extend(self.tell(report, headroom));
        }
        let memory = &self.memory;
        let first_write = memory.first_write();
        let confirmed = self.unconfirmed.take_if(|report| match report.reason {
            Reason::RecreateRequested => memory.request_seen_at.is_some(),
            _ => first_write.is_some(),
        });
        effects.extend(notice(Target::of(&self.pod), confirmed));
        if let (Reason::SidecarEnded | Reason::PodFailedAfterSwap | Reason::PodFailedAfterFinish, Some(at)) = (decision.reason, first_write)
        {
            effects.push(Effect::Ended(now.saturating_sub(at)));
        }
        effects
    }

    /// Remembers what became of a write.
    fn settle(&mut self, write: Write, outcome: &Outcome, now: Duration) -> Vec<Effect> {
        if let Action::Recreate(_) = write.action {
            return self.settle_request(write, outcome, now);
        }
        self.note_unseen(&write, outcome, now);
        if matches!(outcome, Outcome::Conflict | Outcome::Denied(_)) {
            self.memory.finish.iter_mut().for_each(|record| record.not_written());
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
        // The event of our own write may come later; until then this is what we know to be stored.
        match &write.action {
            Action::Swap(swaps) => self.swapped(swaps, stored, now),
            Action::Finish(finish) => {
                self.pod.phase = finish.phase;
                self.memory.finish.iter_mut().for_each(|record| record.written(now));
            }
            Action::Recreate(_) => {}
        }
        let done = self.memory.mains_done_at.filter(|_| write.report.is_some());
        let waited = done.map(|done| Effect::Swapped(now.saturating_sub(done)));
        waited.into_iter().chain(notice(write.target, write.report)).collect()
    }

    fn swapped(&mut self, swaps: &[Swap], stored: &[Box<str>], now: Duration) {
        for (swap, image) in swaps.iter().zip(stored) {
            if let Some(container) = self.pod.containers.get_mut(swap.index) {
                self.memory.swapped(container, image, now);
                container.image.clone_from(image);
            }
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
        Action::Finish(_) => "write the phase of the pod (grant patch of pods/status, or start with --finish=never)".to_owned(),
        Action::Recreate(containers) => format!("ask for an end of {}", containers.join(", ")),
    }
}

fn names(swaps: &[Swap]) -> String {
    swaps.iter().map(|swap| &*swap.container).collect::<Vec<_>>().join(", ")
}
