//! All pods that matter now, each with its memory: the state of the loop, without any I/O and
//! without a clock.
//!
//! Level-triggered: an event only says that a pod is to be looked at; what is written is decided
//! from the pod's latest state when its turn comes.
//!
//! It is not kube's `Controller`, because decisions about one pod need other pods: the restarts of
//! all pods of a Job count together. Pods are not listed anew now and then, for the API server
//! answers lists from the cache that watches are told from; the decisions are made again once a
//! minute.
//!
//! A pod that is finished is not kept, but for one that was ended by its phase, until its
//! containers are shown ended. One that is finished when it is first seen is not reported: the life
//! that saw it end did that. In the first list of a life it is, if it has ended only just now: its
//! swap may be of a life that did not see the end.

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
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use swaplet_core::cluster::headroom::Ledger;
use swaplet_core::objects::pod::{Pod, RestartPolicy};
use swaplet_core::report::decision::Decision;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::circumstances::Circumstances;
use swaplet_core::terminate::decide;
use swaplet_core::terminate::memory::Memory;
use swaplet_core::terminate::memory::image_troubles::ImageTroubles;

use self::census::{Census, Counted};
pub use self::effect::{Effect, SidecarLog, Write};
use self::entry::Entry;
use self::restarting::{Begun, Lines};
use super::derive::Pushed;
use super::policies::PolicyStore;
use super::selection::Selected;
use crate::cluster::budgets::Budgets;
use crate::cluster::nodes::{Learned, Nodes};
use crate::cluster::openkruise::{Concerns, Known, News};
use crate::cluster::rules::Rules;
pub use crate::frame::metrics::Timed;
use crate::frame::queue::{FairQueue, LOOK_AGAIN, pop_due, reschedule};

/// The pods, and which of them want a write or another look.
pub struct Index {
    rules: Rules,
    /// The nodes of the pods. Whoever changes them says which pods are to be looked at
    /// ([`Index::look_soon`]).
    pub nodes: Nodes,
    budgets: Budgets,
    openkruise: Known,
    /// Boxed, for a hash table has room for up to twice as many as are in it.
    entries: HashMap<Box<str>, Box<Entry>>,
    /// Knows more pods than `entries`: all whose restarts count against the limit of a Job.
    headroom: Ledger,
    /// Restarts of single containers that have been begun, by the uid of the pod.
    restarting: HashMap<Box<str>, Begun>,
    lines: Lines,
    image_troubles: ImageTroubles,
    due: BTreeSet<(Duration, Box<str>)>,
    /// When all pods are looked at.
    all_due: Duration,
    ready: FairQueue,
    list: u64,
    /// Whether the first list of pods is under way.
    is_first_list: bool,
    census: Census,
    pub(crate) selected: Selected,
    /// The time of day at the start of the process, as it is known now.
    started_at: Option<Timestamp>,
    /// The policies about sidecars.
    pub(crate) policies: PolicyStore,
    /// Whether the logs of sidecars are read that have ended.
    reads_logs: bool,
    /// A value, so that a test can put a defect in its place.
    decide_pod: DecidePod,
}

/// [`decide`], or what stands for it.
type DecidePod = fn(&Pod, &Memory, &Circumstances<'_>) -> Decision;

impl Index {
    /// An empty index.
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
        let (budgets, all_due, decide_pod) = (Budgets::default(), LOOK_AGAIN, decide as DecidePod);
        Self {
            rules,
            nodes,
            budgets,
            openkruise,
            entries,
            headroom,
            restarting,
            lines: Lines::default(),
            image_troubles: ImageTroubles::default(),
            due,
            all_due,
            ready,
            list: 0,
            is_first_list: false,
            census,
            selected,
            started_at: None,
            policies: PolicyStore::default(),
            reads_logs: false,
            decide_pod,
        }
    }

    /// The logs of sidecars are read that have ended.
    #[must_use]
    pub const fn with_logs(mut self) -> Self {
        self.reads_logs = true;
        self
    }

    /// The time of day is known: `now` and `today` are the same moment.
    pub fn tell_time(&mut self, now: Duration, today: Timestamp) {
        self.started_at = today.checked_sub(now).ok();
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

    /// Whether a write waits that may be begun. Pods that wait until their provider may be asked again
    /// are aside: nothing that is sent meanwhile delays them.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many pods are kept for which reason; reasons that have been there stay, with 0.
    pub fn reasons(&self) -> impl Iterator<Item = (Reason, usize)> {
        self.census.reasons()
    }

    /// Since when the main containers of the pod have been seen done that waits longest for its
    /// end.
    #[must_use]
    pub fn waits_since(&self) -> Option<Duration> {
        self.census.waits_since()
    }

    /// A list of all pods begins.
    pub fn list_starts(&mut self) {
        self.list += 1;
        self.is_first_list = self.list == 1;
        self.headroom.pod_list_starts();
    }

    /// The list is complete: pods that it did not name are gone.
    pub fn list_ends(&mut self, now: Duration) -> Vec<Effect> {
        let gone: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.list != self.list)
            .map(|(uid, _)| uid.clone())
            .collect();
        gone.iter().for_each(|uid| self.forget(uid));
        self.is_first_list = false;
        self.selected.listed(|uid| self.entries.contains_key(uid));
        self.restarting.retain(|_, begun| begun.list == self.list);
        self.headroom.pod_list_ends(self.list);
        self.forget_jobs();
        self.look_at_woken(now)
    }

    /// A pod was listed, added or has changed.
    pub fn apply(&mut self, pod: Pod, now: Duration) -> Vec<Effect> {
        if pod.restart_policy == RestartPolicy::Always {
            return Vec::new();
        }
        if self.openkruise.learn(&pod, &self.rules.exit_images) {
            self.look_soon_at(|other| {
                other.last == Some(Reason::ExitCodeProbed) && other.pod.namespace == pod.namespace
            });
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
        let mut effects = self.look(&uid, now);
        effects.extend(self.look_at_woken(now));
        effects
    }

    /// A pod is gone.
    pub fn remove(&mut self, pod: &Pod, now: Duration) -> Vec<Effect> {
        self.forget(&pod.uid);
        self.restarting.remove(&pod.uid);
        self.headroom.pod_gone(pod);
        self.look_at_woken(now)
    }

    /// Nothing will be done for this pod; its restarts may still count.
    fn forget(&mut self, uid: &str) {
        self.openkruise.request_ends(uid);
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
            self.look_soon(|pod| pod.node == entry.pod.node);
        }
    }

    /// These pods are looked at when the index is next woken: something around them has changed.
    pub fn look_soon(&mut self, concerned: impl Fn(&Pod) -> bool) {
        self.look_soon_at(|entry| concerned(&entry.pod));
    }

    fn look_soon_at(&mut self, concerned: impl Fn(&Entry) -> bool) {
        for (uid, entry) in self
            .entries
            .iter_mut()
            .filter(|(_, entry)| concerned(entry))
        {
            reschedule(&mut self.due, uid, &mut entry.due, Some(Duration::ZERO));
        }
    }

    /// The next time at which a pod is to be looked at although nothing happened.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let all = (!self.entries.is_empty()).then_some(self.all_due);
        self.due
            .first()
            .map(|(at, _)| *at)
            .into_iter()
            .chain(all)
            .chain(self.next_given_back())
            .min()
    }

    /// When a provider that is asked too often may be asked again, if a pod waits for that.
    #[must_use]
    pub fn next_budget(&self) -> Option<Duration> {
        self.budgets.next()
    }

    /// Looks at the pods whose time has come.
    pub fn wake(&mut self, now: Duration) -> Vec<Effect> {
        if self.all_due <= now {
            self.all_due = now + LOOK_AGAIN;
            self.rules.exit_images.give_back_asked(now);
            self.look_soon(|_| true);
        }
        self.give_back(now);
        let mut effects = Vec::new();
        while let Some(uid) = pop_due(&mut self.due, now) {
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

    /// Looks at a pod; if something is to be written, it waits its turn.
    fn look(&mut self, uid: &str, now: Duration) -> Vec<Effect> {
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

    /// The push of a derived exit image has come back: the pods that want one are looked at.
    pub fn derived_came(&mut self, paths: &[String], pushed: Pushed, now: Duration) -> Vec<Effect> {
        self.rules.exit_images.derived_came(paths, pushed, now);
        let waiting: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.wants)
            .map(|(uid, _)| uid.clone())
            .collect();
        waiting.iter().flat_map(|uid| self.look(uid, now)).collect()
    }

    /// There is something new about OpenKruise.
    pub fn hear(&mut self, news: News, now: Duration) -> Vec<Effect> {
        match self.openkruise.hear(news) {
            Concerns::Nobody => {}
            Concerns::Pod(uid) => {
                let mut effects = self.look(&uid, now);
                effects.extend(self.look_at_woken(now));
                return effects;
            }
            Concerns::Node(node) => self.look_soon(|pod| pod.node == node),
            Concerns::Everybody => self.look_soon(|_| true),
        }
        Vec::new()
    }

    /// The other pods of the node are looked at again.
    fn learned(&mut self, learned: Learned, by: &str) -> Effect {
        if let Some(entry) = self.entries.get(by) {
            self.nodes.probe_ends(&entry.pod);
        }
        self.look_soon(|pod| pod.node == learned.node && &*pod.uid != by);
        Effect::Learned(learned)
    }
}
