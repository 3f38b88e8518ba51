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
mod census;
mod effect;
mod entry;
mod isolation;
mod jobs;
mod policies;
mod restarting;
mod restarts;
mod writes;

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use swaplet_core::cluster::headroom::Ledger;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::{Pod, RestartPolicy};
use swaplet_core::report::decision::Decision;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::circumstances::Circumstances;
use swaplet_core::terminate::decide;
use swaplet_core::terminate::memory::Memory;
use swaplet_core::terminate::memory::image_troubles::ImageTroubles;

use self::census::{Census, Counted};
pub use self::effect::{Effect, Write};
use self::entry::Entry;
use self::restarting::Begun;
use super::derive::Pushed;
use super::policies::PolicyStore;
use super::selection::Selected;
use crate::cluster::budgets::Budgets;
use crate::cluster::nodes::{Learned, Nodes};
use crate::cluster::openkruise::{Concerns, Known, News};
use crate::cluster::rules::Rules;
pub use crate::frame::metrics::Timed;
use crate::frame::queue::{FairQueue, LOOK_AGAIN, pop_due, reschedule};

/// The pods, and the queues of those that need a write or another reconcile.
pub struct Index {
    rules: Rules,
    /// The nodes of the pods. Code that changes them must enqueue the pods concerned
    /// ([`Index::enqueue_where`]).
    pub nodes: Nodes,
    budgets: Budgets,
    openkruise: Known,
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
    /// The SidecarPolicies.
    pub(crate) policies: PolicyStore,
    /// A field, so that a test can inject a defect.
    decide_pod: DecidePod,
}

/// [`decide`], or its replacement in a test.
type DecidePod = fn(&Pod, &Memory, &Circumstances<'_>) -> Decision;

impl Index {
    /// Returns an empty index.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let nodes = Nodes::new(rules.node_table.clone());
        let openkruise = Known::new(&rules);
        let (entries, due, ready, selected) = (
            HashMap::new(),
            BTreeSet::new(),
            FairQueue::default(),
            Selected::default(),
        );
        let (headroom, restarting, census) = (Ledger::default(), HashMap::new(), Census::default());
        let (budgets, decide_pod) = (Budgets::default(), decide as DecidePod);
        Self {
            rules,
            nodes,
            budgets,
            openkruise,
            entries,
            headroom,
            restarting,
            image_troubles: ImageTroubles::default(),
            due,
            all_due: Moment::START + LOOK_AGAIN,
            ready,
            list: 0,
            is_first_list: false,
            census,
            selected,
            started_at: None,
            policies: PolicyStore::default(),
            decide_pod,
        }
    }

    /// Sets the time of day: `now` and `today` are the same moment.
    pub fn set_time(&mut self, now: Moment, today: Timestamp) {
        self.started_at = today.checked_sub(now.since_start()).ok();
    }

    /// Returns the number of pods kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no pod is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of pods that wait for a write.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ready.len() + self.budgets.waiting()
    }

    /// Returns true if a pod of such a namespace is queued for a write. Pods that wait for their
    /// provider's rate limit are not counted: nothing that is sent meanwhile delays them.
    #[must_use]
    pub fn has_ready(&self, of: impl Fn(&str) -> bool) -> bool {
        self.ready.has(of)
    }

    /// Returns the number of pods kept for each reason; a reason once used stays, with 0.
    pub fn reasons(&self) -> impl Iterator<Item = (Reason, usize)> {
        self.census.reasons()
    }

    /// Returns when the main containers of the pod that waits longest for its end were observed
    /// done; `None` if no pod waits.
    #[must_use]
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
    pub fn list_ends(&mut self, now: Moment) -> Vec<Effect> {
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
        self.reconcile_woken(now)
    }

    /// Handles a pod that was listed, added or changed.
    pub fn apply(&mut self, pod: Pod, now: Moment) -> Vec<Effect> {
        if pod.restart_policy == RestartPolicy::Always {
            return Vec::new();
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
        let mut effects = self.reconcile(&uid, now);
        effects.extend(self.reconcile_woken(now));
        effects
    }

    /// Handles the deletion of a pod.
    pub fn remove(&mut self, pod: &Pod, now: Moment) -> Vec<Effect> {
        self.forget(&pod.uid);
        self.restarting.remove(&pod.uid);
        self.headroom.pod_gone(pod);
        self.reconcile_woken(now)
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
        self.enqueue_entries(|entry| concerned(&entry.pod));
    }

    fn enqueue_entries(&mut self, concerned: impl Fn(&Entry) -> bool) {
        for (uid, entry) in self
            .entries
            .iter_mut()
            .filter(|(_, entry)| concerned(entry))
        {
            reschedule(&mut self.due, uid, &mut entry.due, Some(Moment::START));
        }
    }

    /// Returns the time of the next reconcile that no event triggers; `None` if there is none.
    #[must_use]
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
    #[must_use]
    pub fn next_budget(&self) -> Option<Moment> {
        self.budgets.next()
    }

    /// Reconciles the pods that are due, each once.
    pub fn wake(&mut self, now: Moment) -> Vec<Effect> {
        if self.all_due <= now {
            self.all_due = now + LOOK_AGAIN;
            self.rules.exit_images.give_back_asked(now);
            self.enqueue_where(|_| true);
        }
        self.give_back(now);
        let (mut effects, mut decided) = (Vec::new(), HashSet::new());
        while let Some(uid) = pop_due(&mut self.due, now) {
            if let Some(entry) = self.entries.get_mut(&uid) {
                entry.due = None;
            }
            if decided.insert(uid.clone()) {
                effects.extend(self.reconcile(&uid, now));
            } else {
                self.reconcile_soon(&uid, now);
            }
        }
        effects.extend(self.reconcile_woken(now));
        effects
    }

    /// Returns the next write, decided from the latest state of the pod whose turn it is.
    pub fn next_write(&mut self, now: Moment) -> (Option<Write>, Vec<Effect>) {
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
    ) -> (Option<Write>, Vec<Effect>) {
        let (mut effects, mut decided) = (Vec::new(), HashSet::new());
        while let Some(uid) = self
            .budgets
            .pop(may_begin, now)
            .or_else(|| self.ready.pop_of(may_begin))
        {
            if !decided.insert(uid.clone()) {
                self.reconcile_soon(&uid, now);
                continue;
            }
            let (decision, more) = self.decide(&uid, now);
            let write = decision.and_then(|decision| self.begin(&uid, decision, now));
            effects.extend(more);
            effects.extend(self.reconcile_woken(now));
            if write.is_some() {
                return (write, effects);
            }
        }
        (None, effects)
    }

    /// Reconciles a pod; if there is something to write, the pod is enqueued.
    fn reconcile(&mut self, uid: &str, now: Moment) -> Vec<Effect> {
        let (decision, effects) = self.decide(uid, now);
        if let (
            Some(Decision {
                action: Some(_), ..
            }),
            Some(entry),
        ) = (decision, self.entries.get(uid))
        {
            self.ready.push(&entry.pod.namespace, uid);
        }
        effects
    }

    /// Handles the result of pushing a derived exit image: the pods that want one are reconciled.
    pub fn derived_came(&mut self, paths: &[String], pushed: Pushed, now: Moment) -> Vec<Effect> {
        self.rules.exit_images.derived_came(paths, pushed, now);
        let waiting: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.wants)
            .map(|(uid, _)| uid.clone())
            .collect();
        waiting
            .iter()
            .flat_map(|uid| self.reconcile(uid, now))
            .collect()
    }

    /// Handles news about OpenKruise.
    pub fn handle(&mut self, news: News, now: Moment) -> Vec<Effect> {
        match self.openkruise.handle(news) {
            Concerns::Nobody => {}
            Concerns::Pod(uid) => {
                let mut effects = self.reconcile(&uid, now);
                effects.extend(self.reconcile_woken(now));
                return effects;
            }
            Concerns::Node(node) => self.enqueue_where(|pod| pod.node == node),
            Concerns::Everybody => self.enqueue_where(|_| true),
        }
        Vec::new()
    }

    /// Enqueues the other pods of the node.
    fn learned(&mut self, learned: Learned, by: &str) -> Effect {
        if let Some(entry) = self.entries.get(by) {
            self.nodes.probe_ends(&entry.pod);
        }
        self.enqueue_where(|pod| pod.node == learned.node && &*pod.uid != by);
        Effect::Learned(learned)
    }
}
