//! The state of the loop: all pods that matter now, each with its memory, without any I/O and
//! without a clock.
//!
//! Level-triggered: an event only enqueues a pod. Its write is decided from the latest state of the
//! pod when its turn comes.
//!
//! It is not kube's `Controller`, because decisions about one pod need other pods: the restarts of
//! all pods of a Job count together. There is no periodic relist, because the API server answers
//! lists from the cache that also feeds watches. All pods are reconciled once a minute instead.
//!
//! Finished pods are not kept, except those ended by a write of their phase, until their containers
//! are shown ended. A pod that is already finished when first observed is not reported, because the
//! run of the process that saw it end did that. In the first list of a run it is reported if it
//! ended just now: its swap may be from a run that did not see the end.

mod around;
mod entry;
mod isolation;
mod policies;
mod restarts;

pub use crate::frame::metrics::Timed;

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use self::entry::{Entry, SinceBegun};
use self::isolation::SOON;
use super::derive::Pushed;
use super::policies::PolicyStore;
use super::selection::Selected;
use crate::cluster::budgets::Budgets;
use crate::cluster::nodes::{Learned, Nodes};
use crate::cluster::openkruise::{Concerns, Known, News};
use crate::cluster::rules::Rules;
use crate::frame::queue::{FairQueue, LOOK_AGAIN, pop_due, reschedule};
use crate::frame::writer::report::Notice;
use crate::frame::writer::{Outcome, Target};
use jiff::Timestamp;
use swaplet_core::cluster::headroom::{Ledger, Need};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::{Pod, RestartPolicy};
use swaplet_core::report::decision::{Action, Decision, Paths, Report};
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::ending::Ends;
use swaplet_core::terminate::memory::image_troubles::ImageTroubles;
use swaplet_core::terminate::methods::swap::{grace, patience};

/// The pods, and the queues of those that need a write or another reconcile.
pub struct Index {
    pub(crate) rules: Rules,
    /// The nodes of the pods. Code that changes them must enqueue the pods concerned
    /// ([`Index::enqueue_where`]).
    pub nodes: Nodes,
    budgets: Budgets,
    pub(crate) openkruise: Known,
    /// Boxed, because a hash table allocates room for up to twice as many entries as it holds.
    entries: HashMap<Box<str>, Box<Entry>>,
    /// Has more pods than `entries`: all whose restarts count against the limit of a Job.
    headroom: Ledger,
    /// Restarts of single containers that have begun, by the uid of the pod.
    restarting: HashMap<Box<str>, Begun>,
    image_troubles: ImageTroubles,
    due: BTreeSet<(Moment, Box<str>)>,
    /// The time of the next reconcile of all pods.
    all_due: Moment,
    ready: FairQueue,
    list: u64,
    /// True until the first list of pods is complete, however often it is begun.
    is_first_list: bool,
    census: Census,
    pub(crate) selected: Selected,
    /// The time of day at the start of the process; `None` until it is known.
    started_at: Option<Timestamp>,
    pub(crate) policies: PolicyStore,
    /// What the loop has to carry out, in the order in which it has arisen.
    pub(crate) effects: Vec<Effect>,
}

impl Index {
    /// Returns an empty index.
    pub fn new(rules: Rules) -> Self {
        Self {
            nodes: Nodes::new(rules.node_table.clone()),
            openkruise: Known::new(&rules),
            rules,
            budgets: Budgets::default(),
            entries: HashMap::new(),
            headroom: Ledger::default(),
            restarting: HashMap::new(),
            image_troubles: ImageTroubles::default(),
            due: BTreeSet::new(),
            all_due: Moment::START + LOOK_AGAIN,
            ready: FairQueue::default(),
            list: 0,
            is_first_list: false,
            census: Census::default(),
            selected: Selected::default(),
            started_at: None,
            policies: PolicyStore::default(),
            effects: Vec::new(),
        }
    }

    /// Returns what the loop has to carry out since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Sets the time of day: `now` and `today` are the same moment.
    pub fn set_time(&mut self, now: Moment, today: Timestamp) {
        self.started_at = today.checked_sub(now.since_start()).ok();
    }

    /// Returns the number of pods kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no pod is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of pods that wait for a write.
    pub fn waiting(&self) -> usize {
        self.ready.len() + self.budgets.waiting()
    }

    /// Returns true if a pod of such a namespace is queued for a write. Pods that wait for their
    /// provider's rate limit are not counted: nothing that is sent meanwhile delays them.
    pub fn has_ready(&self, of: impl Fn(&str) -> bool) -> bool {
        self.ready.has(of)
    }

    /// Returns the number of pods kept for each reason; a reason once used stays, with 0.
    pub fn reasons(&self) -> impl Iterator<Item = (Reason, usize)> {
        self.census.reasons()
    }

    /// Returns when the main containers of the pod that waits longest for its end were observed
    /// done; `None` if no pod waits.
    pub fn waits_since(&self) -> Option<Moment> {
        self.census.waits_since()
    }

    /// Records the start of a list of all pods.
    pub fn list_starts(&mut self) {
        self.list += 1;
        self.is_first_list |= self.list == 1;
        self.policies.pods_are_listed(true);
        self.headroom.pod_list_starts();
    }

    /// Records the end of the list: pods that it did not name are gone.
    pub fn list_ends(&mut self, now: Moment) {
        let gone: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.list != self.list)
            .map(|(uid, _)| uid.clone())
            .collect();
        gone.iter().for_each(|uid| self.forget(uid));
        self.is_first_list = false;
        self.policies.pods_are_listed(false);
        self.selected.listed(|uid| self.entries.contains_key(uid));
        self.restarting.retain(|_, begun| begun.list == self.list);
        self.headroom.pod_list_ends(self.list);
        self.reconcile_woken(now);
    }

    /// Handles a pod that was listed, added or changed.
    pub fn apply(&mut self, pod: Pod, now: Moment) {
        if pod.restart_policy == RestartPolicy::Always {
            return;
        }
        self.restarts_shown(&pod, now);
        let uid = pod.uid.clone();
        let entry = match self.entries.entry(uid.clone()) {
            Occupied(known) => {
                let entry = known.into_mut();
                entry.show(pod, self.list);
                entry
            }
            Vacant(place) => {
                let entry = place.insert(Box::new(Entry::new(pod, self.list)));
                if self.is_first_list {
                    entry.find_ended(&self.rules.exit_images, self.started_at, now);
                }
                entry
            }
        };
        entry.without_policies = self.policies.are_unknown();
        self.reconcile(&uid, now);
        self.reconcile_woken(now);
    }

    /// Handles the deletion of a pod.
    pub fn remove(&mut self, pod: &Pod, now: Moment) {
        self.forget(&pod.uid);
        self.restarting.remove(&pod.uid);
        self.headroom.pod_gone(pod);
        self.reconcile_woken(now);
    }

    /// Drops a pod for which nothing will be done; its restarts may still count.
    fn forget(&mut self, uid: &str) {
        let Some(entry) = self.entries.remove(uid) else {
            return;
        };
        self.nodes.trial_ends(&entry.pod);
        self.census.change(uid, entry.counted, Counted::default());
        self.selected.over(uid, entry.pod.phase);
        if let Some(at) = entry.due {
            self.due.remove(&(at, uid.into()));
        }
        if self.nodes.probe_ends(&entry.pod) {
            self.enqueue_where(|pod| pod.node == entry.pod.node);
        }
    }

    /// Enqueues these pods for the next wake-up, because something around them has changed.
    pub fn enqueue_where(&mut self, concerned: impl Fn(&Pod) -> bool) {
        let entries = self.entries.iter_mut();
        for (uid, entry) in entries.filter(|(_, entry)| concerned(&entry.pod)) {
            reschedule(&mut self.due, uid, &mut entry.due, Some(Moment::START));
        }
    }

    /// Returns the time of the next reconcile that no event triggers; `None` if there is none.
    pub fn next_due(&self) -> Option<Moment> {
        let all = (!self.entries.is_empty()).then_some(self.all_due);
        self.due
            .first()
            .map(|(at, _)| *at)
            .into_iter()
            .chain(all)
            .chain(self.next_given_back())
            .min()
    }

    /// Returns when a rate-limited provider may be called again; `None` if no pod waits for that.
    pub fn next_budget(&self) -> Option<Moment> {
        self.budgets.next()
    }

    /// Reconciles the pods that are due, each once.
    pub fn wake(&mut self, now: Moment) {
        if self.all_due <= now {
            self.all_due = now + LOOK_AGAIN;
            if let Some(derived) = self.rules.exit_images.derived_mut() {
                derived.give_back(now);
            }
            self.enqueue_where(|_| true);
        }
        self.give_back(now);
        let mut decided = HashSet::new();
        while let Some(uid) = pop_due(&mut self.due, now) {
            if let Some(entry) = self.entries.get_mut(&uid) {
                entry.due = None;
            }
            if decided.insert(uid.clone()) {
                self.reconcile(&uid, now);
            } else {
                self.reconcile_soon(&uid, now);
            }
        }
        self.reconcile_woken(now);
    }

    /// Returns the next write, decided from the latest state of the pod whose turn it is.
    pub fn next_write(&mut self, now: Moment) -> Option<Write> {
        self.next_write_where(&|_| true, now)
    }

    /// Like [`next_write`](Self::next_write), restricted to the namespaces that `may_begin` a
    /// write; pods of the others stay where they are in the queue. A pod is decided once in a call,
    /// so the call ends whatever pods do to each other; one that is queued again has its turn a
    /// second later.
    pub fn next_write_where(
        &mut self,
        may_begin: &dyn Fn(&str) -> bool,
        now: Moment,
    ) -> Option<Write> {
        let mut decided = HashSet::new();
        while let Some(uid) = self
            .budgets
            .pop(may_begin, now)
            .or_else(|| self.ready.pop_of(may_begin))
        {
            if !decided.insert(uid.clone()) {
                self.reconcile_soon(&uid, now);
                continue;
            }
            let decision = self.decide(&uid, now);
            let write = decision.and_then(|decision| self.begin(&uid, decision, now));
            self.reconcile_woken(now);
            if write.is_some() {
                return write;
            }
        }
        None
    }

    /// Reconciles a pod; if there is something to write, the pod is enqueued.
    fn reconcile(&mut self, uid: &str, now: Moment) {
        let decision = self.decide(uid, now);
        if decision.is_some_and(|decision| decision.action.is_some())
            && let Some(entry) = self.entries.get_mut(uid)
        {
            entry.waits_for_its_turn(now);
            self.ready.push(&entry.pod.namespace, uid);
        }
    }

    /// Handles the result of pushing a derived exit image: the pods that want one are reconciled.
    pub fn derived_came(&mut self, paths: &[String], pushed: Pushed, now: Moment) {
        if let Some(derived) = self.rules.exit_images.derived_mut() {
            derived.came(paths, pushed, now);
        }
        let waiting: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.wants)
            .map(|(uid, _)| uid.clone())
            .collect();
        waiting.iter().for_each(|uid| self.reconcile(uid, now));
    }

    /// Handles news about OpenKruise.
    pub fn handle(&mut self, news: News, now: Moment) {
        match self.openkruise.handle(news) {
            Concerns::Nobody => {}
            Concerns::Pod(uid) => {
                self.reconcile(&uid, now);
                self.reconcile_woken(now);
            }
            Concerns::Node(node) => self.enqueue_where(|pod| pod.node == node),
            Concerns::Everybody => self.enqueue_where(|_| true),
        }
    }

    /// Enqueues the other pods of the node.
    fn learned(&mut self, learned: Learned, by: &str) {
        if let Some(entry) = self.entries.get(by) {
            self.nodes.probe_ends(&entry.pod);
        }
        self.enqueue_where(|pod| pod.node == learned.node && &*pod.uid != by);
        self.effects.push(Effect::Learned(learned));
    }
}

// The effects that the loop carries out for the index.

/// A pending write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The pod.
    pub target: Target,
    /// The change to write.
    pub action: Action,
    /// The report to emit once it is applied.
    pub report: Option<Report>,
}

/// An effect other than a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Report something.
    Notice(Notice),
    /// Count a decision about a pod that differs from the one before.
    Decided(Reason),
    /// Record the time from the observed end of the main containers to a write.
    Written(Timed),
    /// Record the time from the first write to the end of the pod, and how its containers ended.
    Ended(Timed, Ends),
    /// Push the exit image with these paths, for a pod of this namespace.
    Derive(Box<str>, Paths),
    /// Store how a node treats swaps, as a pod has proved.
    Learned(Learned),
}

/// Returns the effect for a report, if there is one.
pub(crate) fn notice(target: Target, report: Option<Report>) -> Option<Effect> {
    report.map(|report| Effect::Notice(Notice { target, report }))
}

// Restarts in progress.

/// After this time a write without an answer has been applied, or never will be: the API server
/// gives up a request after a minute (its `--request-timeout`), and a watch shows its effect within
/// another.
pub(crate) const LATE_EFFECT: Duration = Duration::from_secs(120);

/// Restarts of single containers of a pod that have been begun.
pub(crate) struct Begun {
    /// The pod before the restarts.
    pub pod: Pod,
    /// The number of restarts that are expected, including the earlier ones.
    pub restarts: u32,
    /// Those of them that a request which has ended has caused.
    pub earlier: u32,
    /// The number of restarts that the watch shows, including those before.
    pub shown: i64,
    /// The time until which the restarts may come, once nothing waits for them any more.
    pub until: Option<Moment>,
    /// The number of the last list that named the pod.
    pub list: u64,
}

/// The time until a node begins a restart whose write it has observed.
const BEGINS: Duration = Duration::from_secs(60);

impl Begun {
    /// Returns the number of expected restarts that the watch has not shown.
    pub(crate) fn coming(&self) -> u32 {
        let shown = self.shown.saturating_sub(self.pod.restarts()).max(0);
        self.restarts
            .saturating_sub(u32::try_from(shown).unwrap_or(u32::MAX))
    }

    /// Returns the time after which a restart that has been written has come, or never will: a
    /// container has its grace period to stop.
    pub(crate) fn late_effect(&self) -> Duration {
        LATE_EFFECT.max(BEGINS + grace(&self.pod))
    }

    /// Returns true if the watch has shown all expected restarts.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown >= self.pod.restarts().saturating_add(self.restarts.into())
    }
}

// The shared state of the pods of one Job: the restarts that it allows.

impl Index {
    /// Returns the number of pods that wait for others of their Job.
    pub const fn waiting_for_headroom(&self) -> usize {
        self.headroom.waiting()
    }

    /// Records that the pods of one of several namespaces are being listed again. Restarts may have
    /// been missed there, so no swap is granted until [`part_list_ends`](Self::part_list_ends).
    pub fn part_list_starts(&mut self) {
        self.headroom.pod_list_starts();
    }

    /// Records that no such list is in progress any more. What is gone was reported gone.
    pub fn part_list_ends(&mut self, now: Moment) {
        self.headroom.pod_list_ends(self.list);
        self.reconcile_woken(now);
    }

    /// Updates the ledger of Jobs, and reconciles the pods concerned.
    pub fn jobs(&mut self, change: impl FnOnce(&mut Ledger), now: Moment) {
        change(&mut self.headroom);
        self.reconcile_woken(now);
    }

    /// Reconciles the pods for which the sums of their Job have changed, each once: one that is woken
    /// again by the others has its turn a second later, so this ends whatever pods do to each other.
    pub(crate) fn reconcile_woken(&mut self, now: Moment) {
        let mut decided = HashSet::new();
        loop {
            let woken = self.headroom.take_wakes();
            if woken.is_empty() {
                return;
            }
            for uid in woken {
                if decided.insert(uid.clone()) {
                    self.reconcile(&uid, now);
                } else {
                    self.reconcile_soon(&uid, now);
                }
            }
        }
    }

    /// Enqueues a pod for the next second.
    pub(crate) fn reconcile_soon(&mut self, uid: &str, now: Moment) {
        if let Some(entry) = self.entries.get_mut(uid) {
            let soon = entry.due.into_iter().chain([now + SOON]).min();
            reschedule(&mut self.due, &entry.pod.uid, &mut entry.due, soon);
        }
    }
}

// The number of pods kept for each reason, and those that wait for their end.

/// The counted state of one pod: its latest decision, and when its main containers were observed
/// done if it waits for its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) reason: Option<Reason>,
    pub(crate) waits_since: Option<Moment>,
}

/// The totals of all pods. A reason that had pods before stays, with 0.
#[derive(Debug, Default)]
pub(crate) struct Census {
    reasons: BTreeMap<Reason, usize>,
    waiting: BTreeSet<(Moment, Box<str>)>,
}

impl Census {
    /// Returns the number of pods for each reason.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (Reason, usize)> {
        self.reasons.iter().map(|(reason, pods)| (*reason, *pods))
    }

    /// Returns the start of the longest wait; `None` if no pod waits.
    pub(crate) fn waits_since(&self) -> Option<Moment> {
        self.waiting.first().map(|(since, _)| *since)
    }

    /// Replaces the counted state of a pod.
    pub(crate) fn change(&mut self, uid: &str, before: Counted, after: Counted) {
        if before == after {
            return;
        }
        if let Some(count) = before
            .reason
            .and_then(|reason| self.reasons.get_mut(&reason))
        {
            *count -= 1;
        }
        if let Some(reason) = after.reason {
            *self.reasons.entry(reason).or_default() += 1;
        }
        if let Some(since) = before.waits_since {
            self.waiting.remove(&(since, uid.into()));
        }
        if let Some(since) = after.waits_since {
            self.waiting.insert((since, uid.into()));
        }
    }
}

// The writes to a pod: from the decision to the outcome.

/// The time that a probe may take beyond the patience with its swap: for the write, and for the
/// status updates of a provider that is polled.
const PROBE_MARGIN: Duration = Duration::from_secs(30);
/// The longest patience with a probe, because pods choose their grace periods themselves, and the
/// other pods of the node wait.
const PROBE_PATIENCE: Duration = Duration::from_secs(600);

impl Index {
    pub(crate) fn begin(&mut self, uid: &str, decision: Decision, now: Moment) -> Option<Write> {
        let action = decision.action?;
        let entry = self.entries.get_mut(uid)?;
        if let Action::Swap(_) = &action {
            let pod = &entry.pod;
            let until = probe_until(pod, now);
            if let Some((provider, rate)) = self.nodes.budget(pod)
                && !self
                    .budgets
                    .take(&provider, rate, (&pod.namespace, &pod.uid), now)
            {
                return None;
            }
            self.nodes.probe_starts(pod, until, now);
        }
        entry.memory.in_flight = true;
        entry.since = SinceBegun::of(&entry.pod, &action);
        let need = match &action {
            Action::Swap(_) | Action::Recreate(_) => {
                let coming = self.restarting.get(uid).map_or(0, Begun::coming);
                Need::Begun(decision.swaps_wanted.saturating_add(coming))
            }
            Action::Finish(_) => Need::Held,
        };
        self.headroom.need(&entry.pod, need);
        if let (Action::Finish(_), Some(record)) = (&action, &mut entry.memory.finish) {
            record.begun(now);
        }
        Some(Write {
            target: Target::of(&entry.pod),
            action,
            report: decision.done,
        })
    }

    /// Handles the outcome of a write.
    pub fn written(&mut self, write: Write, outcome: &Outcome, now: Moment) {
        let uid = write.target.uid.clone();
        let Some(entry) = self.entries.get_mut(&uid) else {
            // The pod is gone; a write that was applied is still reported.
            let report = write.report.filter(|_| outcome.is_ok());
            return self.effects.extend(notice(write.target, report));
        };
        entry.memory.in_flight = false;
        self.effects.extend(entry.settle(write, outcome, now));
        let gone = (*outcome == Err(WriteError::Gone)).then(|| entry.pod.clone());
        if matches!(outcome, Err(WriteError::Conflict | WriteError::Denied(_))) {
            self.nodes.trial_ends(&entry.pod);
            if self.nodes.probe_ends(&entry.pod) {
                let node = entry.pod.node.clone();
                self.enqueue_where(|pod| pod.node == node);
            }
        }
        if let Some(pod) = gone {
            self.remove(&pod, now);
        } else {
            self.reconcile(&uid, now);
            self.reconcile_woken(now);
        }
    }
}

/// Returns until when a swap written at `written` is the probe of its node, or of its provider.
pub(crate) fn probe_until(pod: &Pod, written: Moment) -> Moment {
    written + patience(pod).min(PROBE_PATIENCE) + PROBE_MARGIN
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_pod_counts_once_and_the_longest_wait_is_known() {
        let mut census = Census::default();
        let seconds = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let is = |reason, since| Counted {
            reason: Some(reason),
            waits_since: since,
        };
        let (runs, waits) = (is(Reason::MainsRunning, None), |at| {
            is(Reason::SwapPending, Some(seconds(at)))
        });
        census.change("a", Counted::default(), runs);
        census.change("b", Counted::default(), waits(7));
        census.change("a", runs, waits(5));
        assert_eq!(
            census
                .reasons
                .iter()
                .map(|(reason, pods)| (*reason, *pods))
                .collect::<Vec<_>>(),
            [(Reason::MainsRunning, 0), (Reason::SwapPending, 2)]
        );
        assert_eq!(census.waiting.first(), Some(&(seconds(5), "a".into())));
        census.change("a", waits(5), Counted::default());
        assert_eq!(
            (census.reasons[&Reason::SwapPending], census.waiting.len()),
            (1, 1)
        );
    }
}
