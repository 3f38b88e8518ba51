//! One pod with its memory, and the outcome of the writes to it.

mod denied;
mod found;
mod need;
mod requested;
pub(super) mod since;

use std::time::Duration;

use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::{Ledger, Swapped};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::{Container, Pod};
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::decision::{Action, Decision, Method, Swap};
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::ending;
use swaplet_core::terminate::memory::{Memory, proof};

use self::since::SinceBegun;
use super::census::{Census, Counted};
use super::effect::{Effect, Write, notice};
use crate::cluster::nodes::Nodes;
use crate::frame::metrics::Timed;
use crate::frame::writer::Outcome;

/// The backoff after failed writes.
pub(crate) const RETRY: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(60),
};

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
    /// The restarts by swaps, as shown by the watch.
    pub(crate) swapped: Swapped,
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
        self.pod = pod;
        self.fresh = true;
        self.list = list;
    }

    /// Updates the census after a decision.
    pub(crate) fn count_in(&mut self, census: &mut Census) {
        let waits = self.last.is_some_and(waits_for_its_end);
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
            .take_if(|write| since::shows(pod, memory, &write.action));
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
        if !matches!(outcome, Err(WriteError::Failed { .. })) {
            self.memory.failing = None;
        }
        if matches!(outcome, Err(WriteError::Conflict | WriteError::Denied(_))) {
            self.memory
                .finish
                .iter_mut()
                .for_each(|record| record.not_written());
        }
        match outcome {
            Ok(stored) => self.applied(write, stored, now),
            Err(WriteError::Conflict) => self.back_off(now, RETRY, None),
            Err(WriteError::Gone) => Vec::new(),
            Err(WriteError::Failed { error, retry_after }) => {
                self.failed(write, error, *retry_after, now)
            }
            Err(WriteError::Denied(words)) if self.was_made(&write.action, words, now) => {
                Vec::new()
            }
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
        self.unconfirmed = write.report.is_some().then(|| Box::new(write));
    }

    /// Returns what the pod proves about its node, if that is new and the node is known.
    pub(crate) fn proves(&mut self, nodes: &Nodes, now: Moment) -> Option<Proved> {
        let proved = proof::proved(&self.pod, &self.memory, now)
            .filter(|_| !self.was_ended && nodes.knows_node_of(&self.pod))?;
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
        let made = swaps.iter().zip(stored);
        for (swap, image) in made.filter(|(swap, image)| **image != swap.from) {
            if let Some(container) = self.pod.containers.get_mut(swap.index) {
                self.memory.swapped(container, &swap.from, image, now);
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

/// Returns true if swaplet has to end the pod, and it has not ended.
const fn waits_for_its_end(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::SidecarsEnded
            | Reason::LeftToPlatform
            | Reason::LeftToOpenKruise
            | Reason::NotSelected
            | Reason::PodDeleting
    )
}
