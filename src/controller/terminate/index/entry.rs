//! One pod with its memory, and the outcome of the writes to it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::{Ledger, Need, Swapped};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::image::renamed::may_be_renamed;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::annotations::SIDECARS;
use swaplet_core::objects::pod::{Container, Pod, SidecarRule, Terminated, roles};
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::report::decision::{Action, Decision, Method, Report, Swap};
use swaplet_core::report::denial::{By, Denial, UNDONE};
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::ending;
use swaplet_core::terminate::memory::{Memory, proof};

use super::{Census, Counted, Effect, Write, notice};
use crate::cluster::nodes::Nodes;
use crate::cluster::rules::Rules;
use crate::frame::metrics::Timed;
use crate::frame::queue::LOOK_AGAIN;
use crate::frame::writer::{Outcome, RETRY, Target, is_unreached};
use crate::terminate::index::LATE_EFFECT;

/// A pod with everything that is known of it beyond its object.
pub(crate) struct Entry {
    pub(crate) pod: Pod,
    pub(crate) memory: Memory,
    pub(crate) last: Option<Reason>,
    /// The class of its node at the last decision.
    pub(crate) class: NodeClass,
    /// A write whose answer was lost. It is reported if it turns out to have been applied.
    pub(crate) unconfirmed: Option<Box<Write>>,
    /// What the watch has shown since the write in flight began.
    pub(crate) since: SinceBegun,
    /// The restarts by swaps, as shown by the watch, or as stored where more swaps are to follow.
    pub(crate) swapped: Swapped,
    /// How many swapped containers the watch has still to show, where swaps that are stored were
    /// counted at once, and until when a state without them is taken for an older one.
    awaited: Option<(u32, Moment)>,
    /// True if they were counted while the pod was new ([`Memory::was_found_done`]).
    is_new: bool,
    /// True while the watch has shown a state that has not been reconciled.
    pub(crate) fresh: bool,
    /// The time until which an applied, or possibly applied, swap counts although the watch has not
    /// shown it.
    pub(crate) unseen: Option<Moment>,
    pub(crate) due: Option<Moment>,
    /// True if it wants an exit image that does not exist yet.
    pub(crate) wants: bool,
    pub(crate) list: u64,
    /// True if its latest state was read before the policies were known.
    pub(crate) without_policies: bool,
    pub(crate) counted: Counted,
    /// True if it had ended when first observed, and is reported nevertheless. It counts for
    /// nothing and proves nothing: the run that observed the end did both.
    pub(crate) was_ended: bool,
    /// What it has proved about its node; kept, because a proof is news only once.
    proved: Option<Proved>,
}

impl Entry {
    pub(crate) fn new(pod: Pod, list: u64) -> Self {
        let (memory, swapped) = (Memory::default(), Swapped::default());
        Self {
            pod,
            memory,
            last: None,
            class: NodeClass::Unknown,
            unconfirmed: None,
            since: SinceBegun::default(),
            swapped,
            awaited: None,
            is_new: false,
            fresh: true,
            unseen: None,
            due: None,
            wants: false,
            list,
            without_policies: false,
            counted: Counted::default(),
            was_ended: false,
            proved: None,
        }
    }

    /// Updates the pod with a state that the watch shows.
    pub(crate) fn show(&mut self, pod: Pod, list: u64) {
        self.since.any |= self.pod.version != pod.version || pod.version.is_empty();
        let mut pairs = self.pod.containers.iter().zip(&pod.containers);
        self.since.images |= pairs.any(|(before, now)| before.image != now.image);
        self.since.refresh(&pod);
        self.pod = pod;
        self.fresh = true;
        self.list = list;
    }

    /// Updates the census after a decision.
    pub(crate) fn count_in(&mut self, census: &mut Census) {
        // Where every container is a sidecar none of them has to wait for another one.
        let has_mains = roles::mains(&self.pod).next().is_some();
        let waits = has_mains && self.last.is_some_and(waits_for_its_end);
        let now = Counted {
            reason: self.last,
            waits_since: self.memory.mains_done_at.filter(|_| waits),
        };
        let before = std::mem::replace(&mut self.counted, now);
        census.change(&self.pod.uid, before, now);
    }

    pub(crate) fn effects(
        &mut self,
        decision: &Decision,
        headroom: &mut Ledger,
        now: Moment,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.last != Some(decision.reason) && !(self.last.is_none() && is_over(decision.reason))
        {
            effects.push(Effect::Decided(decision.reason));
        }
        self.last = Some(decision.reason);
        for report in &decision.reports {
            effects.extend(self.report(report, headroom));
        }
        let (pod, memory) = (&self.pod, &self.memory);
        let confirmed = self
            .unconfirmed
            .take_if(|write| shows(pod, memory, &write.action));
        if confirmed.is_some() {
            self.memory.failing = None;
        }
        effects.extend(confirmed.and_then(|write| notice(write.target, write.report)));
        let has_ended = decision.reason.is_end() && !self.was_ended;
        if let (true, Some((at, method))) = (has_ended, self.memory.ending()) {
            let ends = ending::ends(&self.pod, &self.memory);
            effects.push(Effect::Ended(self.timed(at, method, now), ends));
        }
        effects
    }

    const fn timed(&self, since: Moment, method: Method, now: Moment) -> Timed {
        Timed {
            after: now.since(since),
            method,
            class: self.class,
        }
    }

    /// Returns true if this container of the pod, as it is read now, was swapped, or its image is
    /// being written: a webhook may have given it any name.
    pub(crate) fn may_have_swapped(&self, container: &Container, images: &ExitImages) -> bool {
        let is_before = |other: &&Container| other.name == container.name;
        let before = self.pod.containers.iter().find(is_before);
        let is_changed = before.is_some_and(|before| before.image != container.image);
        self.memory.shows_exit_image(container, images) || (self.memory.in_flight && is_changed)
    }

    /// Records the outcome of a write.
    pub(crate) fn settle(&mut self, write: Write, outcome: &Outcome, now: Moment) -> Vec<Effect> {
        if let Action::Recreate(_) = write.action {
            return self.settle_request(write, outcome, now);
        }
        self.note_unseen(&write, outcome, now);
        let is_failed = matches!(outcome, Err(WriteError::Failed { .. }));
        // A phase goes before a swap that is in doubt, so no webhook's outage of some seconds makes
        // the swap the next method.
        let is_late =
            |words: &str| matches!(write.action, Action::Finish(_)) && is_unreached(words);
        let is_late = matches!(outcome, Err(WriteError::Denied(words)) if is_late(words));
        if !is_failed && !is_late {
            self.memory.failing = None;
        }
        if matches!(outcome, Err(WriteError::Conflict | WriteError::Denied(_))) {
            self.memory
                .finish
                .iter_mut()
                .for_each(|record| record.not_written());
        }
        if let (Ok(_), Some(record)) = (outcome, &mut self.memory.finish) {
            record.came_in_time();
        }
        match outcome {
            Ok(stored) => self.applied(write, stored, now),
            Err(WriteError::Conflict) => self.came_late(write, now),
            Err(WriteError::Gone) => Vec::new(),
            Err(WriteError::Failed { error, retry_after }) => {
                self.failed(write, error, *retry_after, now)
            }
            Err(WriteError::Denied(words)) if self.was_made(&write.action, words, now) => {
                Vec::new()
            }
            Err(WriteError::Denied(words)) if is_late => self.failed(write, words, None, now),
            Err(WriteError::Denied(words)) => self.denied(write, words, now),
        }
    }

    /// Returns true if the write has changed nothing because it was made before.
    fn was_made(&mut self, action: &Action, words: &str, now: Moment) -> bool {
        match action {
            Action::Swap(swaps) if words.starts_with(UNDONE) => {
                let is_found = self.memory.finds_stored(&self.pod, swaps, now);
                self.fresh |= is_found;
                is_found
            }
            _ => false,
        }
    }

    /// Keeps a write whose answer was lost.
    pub(crate) fn keep_unconfirmed(&mut self, write: Write) {
        self.unconfirmed = Some(Box::new(write));
    }

    /// Records a swap whose answer was lost as made once its images are shown. A webhook may have
    /// given them other names, which nothing else knows for exit images. Call it before the memory
    /// observes the pod.
    pub(crate) fn confirm(&mut self, now: Moment) {
        if self.memory.in_flight {
            return;
        }
        let write = self.unconfirmed.take();
        if let Some(Action::Swap(swaps)) = write.as_deref().map(|write| &write.action)
            && swaps.iter().all(|swap| shows_swap(&self.pod, swap))
        {
            let before = |swap: &Swap| {
                let mut before = self.since.before.iter();
                before.find(|before| before.name == swap.container)
            };
            for swap in swaps {
                let record = self.memory.swap_of(&swap.container);
                let is_known = record.is_some_and(|record| record.before.is_some());
                if let Some(before) = before(swap).filter(|_| !is_known) {
                    let stored = &self.pod.containers[swap.index].image;
                    self.memory.swapped(before, swap, stored, now);
                }
            }
        }
        self.unconfirmed = write;
    }

    /// Returns what the pod proves about its node, if that is new and the node is known.
    pub(crate) fn proves(&mut self, nodes: &Nodes, now: Moment) -> Option<Proved> {
        let proved = proof::proved(&self.pod, &self.memory, now)
            .filter(|_| !self.was_ended && !nodes.is_unseen(&self.pod))?;
        (self.proved.replace(proved) != Some(proved)).then_some(proved)
    }

    pub(crate) fn applied(
        &mut self,
        write: Write,
        stored: &[Box<str>],
        now: Moment,
    ) -> Vec<Effect> {
        self.memory.failures = 0;
        self.memory.not_before = None;
        self.memory.denied.forget(write.action.method());
        self.unconfirmed = None;
        // The event of our own write may come later; until then this is what we know to be stored.
        match &write.action {
            Action::Swap(swaps) => self.swapped(swaps, stored, now),
            // What the watch has shown meanwhile may be newer: the node has taken the phase back.
            Action::Finish(_) if self.since.any => self
                .memory
                .finish
                .iter_mut()
                .for_each(|record| record.written_unseen(now)),
            Action::Finish(finish) => {
                self.pod.phase = finish.phase;
                self.memory
                    .finish
                    .iter_mut()
                    .for_each(|record| record.written(now));
            }
            Action::Recreate(_) => {}
        }
        let done = self.memory.mains_done_at.filter(|_| write.report.is_some());
        let waited = done.map(|done| Effect::Written(self.timed(done, write.action.method(), now)));
        waited
            .into_iter()
            .chain(notice(write.target, write.report))
            .collect()
    }

    fn swapped(&mut self, swaps: &[Swap], stored: &[Box<str>], now: Moment) {
        // One that a webhook has put back alone is written once more, and that is refused.
        let begun_with = std::mem::take(&mut self.since.before);
        let made = swaps.iter().zip(stored);
        for (swap, image) in made.filter(|(swap, image)| **image != swap.from) {
            if let Some(container) = self.pod.containers.get_mut(swap.index) {
                let mut before = begun_with.iter();
                let before = before.find(|before| before.name == swap.container);
                self.memory
                    .swapped(before.unwrap_or(container), swap, image, now);
                // The watch has shown this swap, or a change by somebody else since.
                if !self.since.images {
                    container.image.clone_from(image);
                }
            }
        }
    }

    pub(crate) fn back_off(
        &mut self,
        now: Moment,
        retry: Backoff,
        at_least: Option<Duration>,
    ) -> Vec<Effect> {
        let wait = retry.after(self.memory.failures);
        self.memory.failures = self.memory.failures.saturating_add(1);
        self.memory.not_before = Some(now + wait.max(at_least.unwrap_or_default()));
        Vec::new()
    }
}

/// Returns true if nothing will ever be done for the pod again, so that it need not be kept.
pub(crate) const fn is_over(reason: Reason) -> bool {
    reason.is_end()
        || matches!(
            reason,
            Reason::PodDeleting
                | Reason::PodFinished
                | Reason::RestartPolicyAlways
                | Reason::NoSidecar
        )
}

/// Returns true if swaplet has to end the pod by now, and it has not ended. A delay, and a main
/// container that must succeed, are what the pod's owner asked for.
const fn waits_for_its_end(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::SidecarsEnded
            | Reason::SidecarDelayed
            | Reason::MainFailed
            | Reason::LeftToPlatform
            | Reason::LeftToOpenKruise
            | Reason::NotSelected
            | Reason::PodDeleting
    )
}

// Handles the outcome of requests to OpenKruise's daemon.

/// The backoff after failed requests to OpenKruise, which are retried for 40 s only.
const REQUEST_RETRY: Backoff = Backoff {
    longest: Duration::from_secs(5),
    ..RETRY
};

impl Entry {
    /// Records the outcome. A denial is not retried: without a request, the next method follows.
    pub(crate) fn settle_request(
        &mut self,
        write: Write,
        outcome: &Outcome,
        now: Moment,
    ) -> Vec<Effect> {
        let error = match outcome {
            Err(WriteError::Failed { error, .. } | WriteError::Denied(error)) => {
                Some(error.clone())
            }
            // It exists, whoever created it; the watch shows what becomes of it.
            Ok(_) | Err(WriteError::Conflict | WriteError::Gone) => None,
        };
        self.memory
            .asked_for(error, matches!(outcome, Err(WriteError::Denied(_))), now);
        match outcome {
            Ok(stored) => self.applied(write, stored, now),
            Err(WriteError::Failed { retry_after, .. }) => {
                self.keep_unconfirmed(write);
                self.back_off(now, REQUEST_RETRY, *retry_after)
            }
            _ => Vec::new(),
        }
    }
}

// Pods that ended before they were first observed.

/// The maximum age of the end: more than two terms of the Lease, so that either this leader or the
/// one before observes the end of each pod. Node clocks may be ahead by as much.
const JUST_NOW: SignedDuration = SignedDuration::from_secs(60);

impl Entry {
    /// Takes the exit images of a pod that has just ended for swaps of an earlier run of the
    /// process: its end is reported as if observed. If that run reported it, the API server refuses
    /// the second Event, because the end of a pod has one name.
    pub(crate) fn find_ended(
        &mut self,
        exit_images: &ExitImages,
        started_at: Option<Timestamp>,
        now: Moment,
    ) {
        let today =
            started_at.and_then(|started_at| started_at.checked_add(now.since_start()).ok());
        let age = ended_at(&self.pod).and_then(|ended| Some(today?.duration_since(ended)));
        if age.is_some_and(|age| age.abs() <= JUST_NOW) {
            self.memory.find_ended(&self.pod, exit_images, now);
            self.was_ended = self.memory.ending().is_some();
        }
    }
}

/// Returns when the last container of a finished pod ended, according to its node.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let ends = pod
        .containers
        .iter()
        .filter_map(|container| container.end());
    let last = ends.filter_map(|end| end.finished_at).max();
    last.filter(|_| pod.phase.is_terminal())
}

// The headroom that a pod needs from its Job, and reports about the Job.

impl Entry {
    /// Updates the ledger from the pod; returns true on the first reconcile of a state that the
    /// watch has shown.
    pub(crate) fn count(&mut self, headroom: &mut Ledger, rules: &Rules, now: Moment) -> bool {
        let shown = self.shown(rules, now);
        let is_ours = self.pod.phase.is_terminal() && self.memory.phase_written_at().is_some();
        if is_ours {
            headroom.observe_finished(&self.pod, self.swapped, self.list);
        } else {
            headroom.observe(&self.pod, self.swapped, self.list);
        }
        shown
    }

    /// Reads the restarts by swaps from a state that the watch has shown, on its first reconcile;
    /// returns true if it is one. A swap known only from our own write still counts as granted.
    fn shown(&mut self, rules: &Rules, now: Moment) -> bool {
        let is_new = self.memory.was_found_done(&self.pod, now);
        let is_stored = self.unseen == Some(Moment::NEVER);
        let shows = self.fresh || self.is_new != is_new;
        if shows || is_stored {
            let (images, allowed) = (&rules.exit_images, &rules.allowed);
            let swapped = Swapped::of(&self.pod, &self.memory, images, allowed, is_new);
            if shows && !self.is_older(swapped, now) {
                (self.swapped, self.awaited) = (swapped, None);
            } else if !shows && swapped.left > 0 {
                self.count_stored(swapped, now);
            }
        }
        self.is_new = is_new;
        std::mem::take(&mut self.fresh)
    }

    /// Returns true for a state before swaps that were counted when they were stored.
    fn is_older(&self, swapped: Swapped, now: Moment) -> bool {
        self.awaited
            .is_some_and(|(containers, until)| swapped.containers < containers && now < until)
    }

    /// Counts swaps as soon as they are stored, if sidecars are left: what is granted for those
    /// replaces what was granted for these, and that may be before the watch shows these. A webhook
    /// may have put some of the images back.
    fn count_stored(&mut self, swapped: Swapped, now: Moment) {
        if swapped.containers > self.swapped.containers {
            self.awaited = Some((swapped.containers, now + LATE_EFFECT));
            (self.swapped, self.unseen) = (swapped, None);
        }
    }

    /// Returns the headroom that the decision needs. What a write has taken is kept until the watch
    /// shows its effect, because an older state may arrive after the answer.
    pub(crate) fn need(&mut self, decision: &Decision, shown: bool, now: Moment) -> Need {
        let may_write = self.memory.in_flight
            || decision.swaps_wanted > 0
            || decision.reason == Reason::WriteBackoff;
        self.unseen = self
            .unseen
            .filter(|until| *until > now && (may_write || !shown));
        if self.may_have_written() {
            Need::Held
        } else {
            match (decision.swaps_wanted, decision.reason) {
                (0, _) => Need::Nothing,
                (restarts, Reason::RecreatePending) => Need::Begun(restarts),
                _ if decision.action.is_some() => Need::Nothing,
                (swaps, _) => Need::Waits(swaps),
            }
        }
    }

    /// Returns true if a write may be in flight, or be applied and not be shown.
    pub(crate) const fn may_have_written(&self) -> bool {
        self.memory.in_flight || self.unseen.is_some()
    }

    /// Records a write that the watch may not have shown. A refused write says nothing about those
    /// before it.
    pub(crate) fn note_unseen(&mut self, write: &Write, outcome: &Outcome, now: Moment) {
        let Action::Swap(swaps) = &write.action else {
            return;
        };
        let shows = |swap: &Swap| {
            self.pod
                .containers
                .get(swap.index)
                .is_some_and(|container| container.image != swap.from)
        };
        let (until, is_shown) = match outcome {
            Ok(stored) => {
                let mut stored = swaps.iter().zip(stored.iter().map(|image| &**image));
                let is_undone = |(swap, image): (&Swap, &str)| *image == *swap.from;
                let shown = stored.all(|made| is_undone(made) || shows(made.0));
                (Moment::NEVER, shown)
            }
            Err(WriteError::Failed { .. }) => (now + LATE_EFFECT, swaps.iter().all(shows)),
            Err(WriteError::Conflict | WriteError::Gone | WriteError::Denied(_)) => return,
        };
        if !is_shown {
            self.unseen = self.unseen.max(Some(until));
        } else {
            // What the watch has shown is an exit image only by this write, if a webhook has given it
            // another name.
            self.fresh = true;
        }
    }

    /// Emits a report; one about the Job is emitted once for all its pods.
    pub(crate) fn report(&mut self, report: &Report, headroom: &mut Ledger) -> Option<Effect> {
        let target = match Target::job_of(&self.pod).filter(|_| report.reason.regards_job()) {
            Some(job) => headroom
                .first_time(&self.pod, report.reason)
                .then_some(job)?,
            None => {
                self.memory.said.push(report.reason);
                Target::of(&self.pod)
            }
        };
        notice(target, Some(report.clone()))
    }
}

// Handles writes that the API server forbids, or does not apply for long.

/// The longest backoff after denials.
const LAST_DENIED_RETRY: Duration = Duration::from_secs(15 * 60);
/// How long writes to a pod may fail, one after another, until the next method is tried: a webhook
/// that is down concerns one kind of write.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much later than [`LOOK_AGAIN`] a pod may be looked at again.
const NEXT_LOOK: Duration = Duration::from_secs(5);
/// After how long without a failure the next one is the first again.
const FORGOTTEN: Duration = Duration::from_secs(180);

impl Entry {
    /// Records a denial. A method that is denied repeatedly gives way to the next one, which needs
    /// another right: the first time at once, later after a minute, so that a pod that does not
    /// change gets one write a minute.
    pub(crate) fn denied(&mut self, write: Write, words: &str, now: Moment) -> Vec<Effect> {
        let method = write.action.method();
        let denial = Denial::of(words);
        let what_to_do = self.what_to_do(&denial, &write.action);
        let attempt = attempt(&write.action, &denial);
        // A long message leaves room for what to do.
        let words = cut(
            words,
            MESSAGE.saturating_sub(attempt.len() + what_to_do.len() + 64),
        );
        let note = format!("the API server forbids to {attempt}: {words}{what_to_do}");
        // Who does not answer may be back at any moment; who says no hardly changes it.
        let longest = match is_unreached(&words) {
            true => RETRY.longest,
            false => LAST_DENIED_RETRY,
        };
        let until = self
            .memory
            .denied
            .remember(method, note.as_str().into(), now, longest);
        let denials = self.memory.denied.of(method);
        if !denials.are_lasting() {
            self.memory.not_before = Some(until);
        } else if !denials.are_news() {
            self.memory.not_before = Some(now + RETRY.longest);
        }
        // A denial of one method says nothing about the others.
        let is_news = denials.are_news();
        if !self.memory.denied.are_told_now(method, is_news, now) {
            return Vec::new();
        }
        self.memory.first_time(Reason::WriteDenied);
        notice(write.target, Some(Report::new(Reason::WriteDenied, note)))
            .into_iter()
            .collect()
    }

    /// Records a write that was not applied, or of which that is not known. Where that goes on, a
    /// swap gives way to the next method, and they take turns, one a minute.
    pub(crate) fn failed(
        &mut self,
        write: Write,
        error: &str,
        retry_after: Option<Duration>,
        now: Moment,
    ) -> Vec<Effect> {
        let failing = self.memory.failing.take();
        let failing = failing.filter(|(_, last)| now.since(*last) < FORGOTTEN);
        let (since, _) = failing.unwrap_or((now, now));
        self.memory.failing = Some((since, now));
        let are_lasting = self.memory.denied.are_lasting();
        let at_least = are_lasting.then_some(RETRY.longest).max(retry_after);
        self.back_off(now, RETRY, at_least);
        if now < since + PATIENCE {
            self.keep_unconfirmed(write);
            return Vec::new();
        }
        let method = write.action.method();
        let is_news = !self.memory.denied.of(method).are_lasting();
        let note = format!(
            "the API server has not done for {} s what it was asked, to {}: {error}",
            now.since(since).as_secs(),
            attempt(&write.action, &Denial::of(""))
        );
        // Longer than the pod waits, so that the next method has a turn before this one again.
        let until = now + RETRY.longest * 2;
        self.memory
            .denied
            .failed(method, note.as_str().into(), until);
        if is_news && method == Method::Swap {
            self.memory.not_before = retry_after.map(|wait| now + wait);
        }
        let target = write.target.clone();
        self.keep_unconfirmed(write);
        let report = Report::new(Reason::WriteDenied, note);
        let is_first = self.memory.first_time(report.reason);
        let is_told = self.memory.denied.are_told_now(method, is_first, now);
        notice(target, Some(report).filter(|_| is_told))
            .into_iter()
            .collect()
    }

    /// Records a write that has met another state of the pod than was seen. Where that goes on, a phase
    /// is written whatever the version, and a swap gives way to the next method.
    fn came_late(&mut self, write: Write, now: Moment) -> Vec<Effect> {
        let record = self.memory.finish.as_deref_mut();
        let since = record.and_then(|record| record.came_late(now));
        let Some(since) = since.filter(|_| matches!(write.action, Action::Swap(_))) else {
            return self.back_off(now, RETRY, None);
        };
        self.memory.failing = Some((since, now));
        // It is known not to be applied.
        let unconfirmed = self.unconfirmed.take();
        let words = "each time the pod was another one than swaplet had seen";
        let effects = self.failed(write, words, None, now);
        self.unconfirmed = unconfirmed;
        effects
    }

    /// Records that the pod waits for its turn to write: what has failed before goes on failing, and
    /// what is closed stays so, however many others are served first.
    pub(crate) fn waits_for_its_turn(&mut self, now: Moment) {
        self.memory
            .denied
            .stay_closed(now, now + LOOK_AGAIN + NEXT_LOOK);
        if let Some((_, last)) = &mut self.memory.failing
            && now.since(*last) < FORGOTTEN
        {
            *last = now;
        }
    }

    /// Returns what somebody can change, in parentheses; empty where the words say it.
    fn what_to_do(&self, denial: &Denial<'_>, action: &Action) -> String {
        let advice = match (&denial.by, action) {
            (By::Rights, Action::Finish(_)) => {
                Some("grant patch of pods/status, or start with --finish=never".to_owned())
            }
            (By::Rights, _) => None,
            (By::Other(_), _) => denial.advice(action),
            (By::Leash | By::Unknown, _) => self.opt_in(action, denial),
        };
        advice.map_or_else(String::new, |advice| format!(" ({advice})"))
    }

    /// Returns how to open containers that only a policy makes sidecars, or leaves to run: for the
    /// admission policy they are main containers otherwise. Where its message names some of them,
    /// only these. `None` where there are none.
    fn opt_in(&self, action: &Action, denial: &Denial<'_>) -> Option<String> {
        // By one that has failed the policy for statuses judges the pod.
        let ends_all = matches!(action, Action::Finish(_));
        let by_policy = |container: &Container| {
            let has_policy = |rule: &Arc<SidecarRule>| rule.policy().is_some();
            let has_failed = |end: &Terminated| ends_all && end.has_failed();
            !container.mark.is_sidecar()
                && container.end().is_none_or(has_failed)
                && container.rule.as_ref().is_some_and(has_policy)
        };
        let all = self.pod.containers.iter().enumerate();
        let all = all.filter(|(_, container)| by_policy(container));
        let all: Vec<_> = all.map(|(at, container)| (at, &*container.name)).collect();
        if all.is_empty() || matches!(action, Action::Recreate(_)) {
            return None;
        }
        let names = denial.those(&all);
        let waiting = match action {
            Action::Swap(swaps) if swaps.len() > names.len() => {
                "; until then the other sidecars of the pod are not swapped either"
            }
            Action::Finish(_) => "; until then no sidecar of the pod is ended",
            _ => "",
        };
        let names = names.join(",");
        Some(format!(
            "where the admission policies of swaplet deny it: name {names} in the value sidecarPolicies.containers of the chart, or in the annotation {SIDECARS} of the namespace{waiting}"
        ))
    }
}

/// Describes the attempt, in words that follow "to"; of changes of images those that are denied.
fn attempt(action: &Action, denial: &Denial<'_>) -> String {
    let verb = action.verb();
    match action {
        Action::Swap(_) => format!("{verb} {}", denial.containers(action).join(", ")),
        Action::Finish(_) => format!("{verb} of the pod"),
        Action::Recreate(containers) => format!("{verb} {}", containers.join(", ")),
    }
}

// The watch events that bear on writes whose answers come late, or never.
//
// An answer is older than what the watch has shown since the write began: a phase may have been
// taken back by then. A write without an answer is recognised by what it alone leaves: the exit
// image in the spec, or the condition that goes with a phase.

/// What the watch has shown of a pod since a write to it began: an answer that comes later proves
/// less.
#[derive(Clone, Debug, Default)]
pub(crate) struct SinceBegun {
    /// The containers that the write changes, as they were before it: the node may have acted on it
    /// before the answer comes.
    pub(crate) before: Vec<Container>,
    /// True if another state of the pod was shown, older or newer than the write.
    pub(crate) any: bool,
    /// True if another image of a container was shown: the write was applied, or somebody else
    /// changed it.
    pub(crate) images: bool,
}

impl SinceBegun {
    /// Returns what a write begins with.
    pub(crate) fn of(pod: &Pod, action: &Action) -> Self {
        let swaps: &[Swap] = match action {
            Action::Swap(swaps) => swaps,
            Action::Finish(_) | Action::Recreate(_) => &[],
        };
        let before = swaps
            .iter()
            .filter_map(|swap| pod.containers.get(swap.index));
        Self {
            before: before.cloned().collect(),
            ..Self::default()
        }
    }

    /// Updates the containers that still have the image from before the write.
    pub(crate) fn refresh(&mut self, pod: &Pod) {
        for before in &mut self.before {
            let mut same = pod.containers.iter();
            let same = same.find(|now| now.name == before.name && now.image == before.image);
            if let Some(now) = same {
                before.clone_from(now);
            }
        }
    }
}

/// Returns true if the spec shows the image that a swap has written, by whichever name a webhook has
/// given it.
fn shows_swap(pod: &Pod, swap: &Swap) -> bool {
    pod.containers.get(swap.index).is_some_and(|container| {
        container.name == swap.container
            && container.image != swap.from
            && may_be_renamed(&container.image, &swap.to)
    })
}

/// Returns true if a write whose answer was lost is observed to have been applied. Changes by
/// others are not reported as ours.
pub(crate) fn shows(pod: &Pod, memory: &Memory, action: &Action) -> bool {
    match action {
        Action::Swap(swaps) => swaps.iter().all(|swap| shows_swap(pod, swap)),
        Action::Finish(_) => memory.phase_written_at().is_some(),
        Action::Recreate(_) => memory.request_seen_at.is_some(),
    }
}
