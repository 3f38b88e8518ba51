//! All nodes, as far as decisions about pods need them: their classes, what was proved on them, and
//! whose swap is the probe of an unknown one. No I/O and no clock.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use super::verdict_store::{AllKept, all_kept, merge, node_of};
use crate::frame::isolated::read;
use crate::frame::store::Store;
use crate::frame::watch::Event;
use jiff::Timestamp;
use swaplet_core::cluster::budget::Rate;
use swaplet_core::cluster::node_class::{ACS_ROW, NodeClass, Recognised};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::cluster::node_verdicts::{NodeId, NodeVerdicts, Proved, UnderNever, provider};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::{KubeletVersion, Node, NodeWire};
use swaplet_core::objects::pod::{Pod, RestartPolicy};
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::terminate::NodeFacts;

/// The longest that a pod whose main containers are done waits for its node to be observed. It is
/// longer than a list takes; a watch that misses a node for longer must not keep pods from ending.
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// The nodes of the cluster, and the verdicts on them.
pub struct Nodes {
    table: NodeTable,
    known: Store<()>,
    /// What is known of them, by their names alone: each decision about a pod looks for its node.
    seen: HashMap<Box<str>, Seen>,
    /// True while the API server forbids to read nodes.
    hidden: bool,
    /// True if the list in progress has shown a change.
    news: bool,
    verdicts: NodeVerdicts,
    probes: Probes,
    /// The pods under `Never` whose swaps are the trial of their providers, by provider.
    under_never: HashMap<Box<str>, Trial>,
}

struct Seen {
    uid: Box<str>,
    recognised: Recognised,
    labelled_virtual: bool,
    kubelet: Option<KubeletVersion>,
    runs_on: RunsOn,
}

impl Seen {
    fn of(node: Node, table: &NodeTable) -> Self {
        let kind = node.labels.get("type");
        Self {
            recognised: Recognised::of(&node, table),
            labelled_virtual: kind.is_some_and(|kind| &**kind == "virtual-kubelet"),
            kubelet: node.kubelet,
            runs_on: node.runs_on(),
            uid: node.uid,
        }
    }

    /// Returns true if pods are treated as on the other one. Heartbeats change nothing about that.
    fn is_like(&self, other: &Self) -> bool {
        self.recognised == other.recognised
            && self.labelled_virtual == other.labelled_virtual
            && self.runs_on == other.runs_on
    }
}

struct Trial {
    pod: Box<str>,
    until: Moment,
}

/// The pods to reconcile after an event of nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Concerned {
    /// None.
    #[default]
    Nothing,
    /// Those of a node that is new or recognised differently.
    Node(Box<str>),
    /// All: a list is complete that has changed something.
    All,
}

/// What an event of nodes has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The pods to reconcile.
    pub concerned: Concerned,
    /// The name of a node, and the error in what it declares of itself, as a message.
    pub problem: Option<(Box<str>, Box<str>)>,
}

/// A verdict on a node that was just recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The name of the node.
    pub node: Box<str>,
    /// The behaviour that was proved.
    pub proved: Proved,
    /// The pod that proved it, as `namespace/name`.
    pub pod: String,
    /// The class of the node without this verdict.
    pub taken_for: NodeClass,
}

impl Nodes {
    /// Returns a state in which no node was observed yet.
    pub fn new(table: NodeTable) -> Self {
        Self {
            table,
            known: Store::default(),
            seen: HashMap::new(),
            hidden: false,
            news: false,
            verdicts: NodeVerdicts::default(),
            probes: Probes::default(),
            under_never: HashMap::new(),
        }
    }

    /// Returns what was proved on all nodes.
    pub const fn verdicts(&self) -> &NodeVerdicts {
        &self.verdicts
    }

    /// Restores the verdicts of earlier runs that are newer than what is known; `now` and `today`
    /// are the same moment.
    pub fn restore_kept(&mut self, mut kept: AllKept, now: Moment, today: Timestamp) {
        merge(&mut kept, all_kept(&self.verdicts, now, today));
        for (key, kept) in kept {
            let node = node_of(&key);
            match kept.restore(now, today) {
                Some(verdict) => self.verdicts.restore(node, verdict, now),
                None => tracing::debug!(node, "a kept verdict has expired, or cannot be read"),
            }
        }
    }

    /// Handles an event of the watch of nodes. What a list changes counts once it is complete.
    pub fn observe(&mut self, event: Event<NodeWire>) -> Change {
        let mut change = Change::default();
        let is_complete = matches!(event, Event::ListEnd);
        let read = |node: NodeWire| Some(Seen::of(read("node", || node.read())?, &self.table));
        // No answers are stored, so the time counts for nothing.
        let (gone, found) = self.known.observe_names(event, Moment::START, read);
        for ((_, name), ()) in &gone {
            self.seen.remove(name);
            self.probes.forget(name);
        }
        if is_complete {
            let were_hidden = std::mem::take(&mut self.hidden);
            if std::mem::take(&mut self.news) || were_hidden || !gone.is_empty() {
                change.concerned = Concerned::All;
            }
        }
        if let Some(((_, name), found)) = found {
            let problem = found.recognised.problem.clone();
            let known = self.seen.get(&name);
            let is_news = known.is_none_or(|known| !known.is_like(&found));
            self.seen.insert(name.clone(), found);
            if is_news {
                change.problem = problem.map(|problem| (name.clone(), problem));
                self.news |= self.known.is_listing();
            }
            if is_news && !self.known.is_listing() {
                change.concerned = Concerned::Node(name);
            }
        }
        change
    }

    /// Records that nodes must not be read. Returns true if that is new.
    pub fn hide(&mut self) -> bool {
        !std::mem::replace(&mut self.hidden, true)
    }

    /// Returns the class of a pod's node, and what else is known of it. `done_at` is when the main
    /// containers of the pod were observed to be done.
    pub fn about(&self, pod: &Pod, done_at: Option<Moment>, now: Moment) -> (NodeClass, NodeFacts) {
        if pod.node.is_empty() {
            // Its containers cannot have run anywhere, so nothing will be written.
            return (
                NodeClass::Kubelet,
                NodeFacts {
                    may_be_kubelet: true,
                    ..NodeFacts::default()
                },
            );
        }
        let (recognised, id) = self.place(pod);
        let seen = self.seen(pod);
        let class = self.verdicts.class(id, &recognised, &pod.namespace, now);
        let unseen_until = done_at
            .map(|at| at + SEEN_WITHIN)
            .filter(|until| !self.hidden && seen.is_none() && *until > now);
        let facts = NodeFacts {
            unseen_until,
            probed_until: (class == NodeClass::Unknown)
                .then(|| self.probes.until(pod, done_at, now))
                .flatten(),
            under_never: self.under_never(pod, class, now),
            class_until: self
                .verdicts
                .on(id, &recognised, &pod.namespace, now)
                .map(|verdict| verdict.until),
            may_be_kubelet: recognised.may_be_kubelet(),
            labelled_virtual: seen.is_some_and(|seen| seen.labelled_virtual),
        };
        (class, facts)
    }

    /// Returns the reasons for the class of a pod's node, as text. What was proved there comes
    /// first, because it outranks the rest.
    pub fn why(&self, pod: &Pod, now: Moment) -> String {
        if pod.node.is_empty() {
            return "the pod is on no node yet".to_owned();
        }
        let (recognised, id) = self.place(pod);
        match self.verdicts.on(id, &recognised, &pod.namespace, now) {
            Some(verdict) => format!(
                "proved by pod {}: {}; {}",
                verdict.pod, verdict.proved, recognised.why
            ),
            None => recognised.why.to_string(),
        }
    }

    /// Returns true if the node's platform ends containers with `ECI_CONTAINER_TYPE=sidecar`.
    pub fn ends_eci_sidecars(&self, pod: &Pod) -> bool {
        self.seen(pod)
            .is_some_and(|seen| seen.recognised.ends_eci_sidecars())
    }

    /// Returns true if the vendor of the pod's node handles requests to restart that have
    /// OpenKruise's label for virtual nodes.
    pub fn vendor_restarts(&self, pod: &Pod) -> bool {
        self.recognised(pod).vendor_restarts()
    }

    /// Returns the kubelet version that a pod's node reports; `None` if it is unknown.
    pub fn kubelet(&self, pod: &Pod) -> Option<KubeletVersion> {
        self.seen(pod)?.kubelet
    }

    /// Returns what a pod's node says of its operating system and processor.
    pub fn runs_on(&self, pod: &Pod) -> RunsOn {
        self.seen(pod).map(|seen| seen.runs_on).unwrap_or_default()
    }

    /// Returns the provider of a pod's node and the rate of updates that it accepts; `None` if that
    /// is not limited.
    pub fn budget(&self, pod: &Pod) -> Option<(Box<str>, Rate)> {
        let row = self.recognised(pod).row.clone()?;
        Some((row.name.clone(), row.budget?))
    }

    /// Records what a pod has proved about its node; returns the verdict if it is new.
    pub fn learn(&mut self, pod: &Pod, proved: Proved, now: Moment) -> Option<Learned> {
        if pod.node.is_empty() {
            return None;
        }
        let (recognised, NodeId { name, uid }) = self.place(pod);
        let (recognised, of, uid) = (recognised.into_owned(), name.to_owned(), uid.to_owned());
        let name = format!("{}/{}", pod.namespace, pod.name);
        let node = NodeId {
            name: &of,
            uid: &uid,
        };
        let news = self.verdicts.learn(node, &recognised, proved, &name, now);
        if proved.is_under_never() {
            self.trial_ends(pod);
        }
        news.then(|| Learned {
            node: pod.node.clone(),
            proved,
            pod: name,
            taken_for: recognised.class,
        })
    }

    /// Records the swap of this pod as the probe of its node, if the class is unknown.
    pub fn probe_starts(&mut self, pod: &Pod, until: Moment, now: Moment) {
        let (recognised, id) = self.place(pod);
        let class = self.verdicts.class(id, &recognised, &pod.namespace, now);
        if class == NodeClass::Unknown && !pod.node.is_empty() {
            self.probes.start(pod, until, now);
        }
        self.trial_goes_on(pod, until, now);
    }

    /// Records that a swap of this pod is in flight, whichever loop began it. While it may fail a
    /// pod under `Never`, no other one of the provider is put at risk.
    pub fn trial_goes_on(&mut self, pod: &Pod, until: Moment, now: Moment) {
        if pod.restart_policy != RestartPolicy::Never || pod.phase.is_terminal() {
            return;
        }
        let (recognised, id) = self.place(pod);
        let class = self.verdicts.class(id, &recognised, &pod.namespace, now);
        let provider = provider(&recognised);
        if self.under_never(pod, class, now) == UnderNever::Try {
            let pod = pod.uid.clone();
            self.under_never.insert(provider, Trial { pod, until });
        }
    }

    /// Ends the trial by this pod: its result is recorded, or there will be none.
    pub fn trial_ends(&mut self, pod: &Pod) {
        self.under_never.retain(|_, trial| trial.pod != pod.uid);
    }

    /// Ends the probe by this pod, if it was one. Returns true if other pods may have waited for
    /// it.
    pub fn probe_ends(&mut self, pod: &Pod) -> bool {
        self.probes.end(pod)
    }

    fn under_never(&self, pod: &Pod, class: NodeClass, now: Moment) -> UnderNever {
        if class != NodeClass::VirtualUpdates || pod.restart_policy != RestartPolicy::Never {
            return UnderNever::No;
        }
        let (recognised, id) = self.place(pod);
        let trial = self.under_never.get(&provider(&recognised));
        let is_tried = trial.is_some_and(|trial| trial.pod != pod.uid && trial.until > now);
        self.verdicts
            .under_never(id, &recognised, &pod.namespace, is_tried, now)
    }

    /// Returns false if the pod's node was observed, or nodes cannot be read at all. What a pod
    /// proves is kept for the node with this uid, not for its name.
    pub(crate) fn is_unseen(&self, pod: &Pod) -> bool {
        !self.hidden && self.seen(pod).is_none()
    }

    pub(crate) fn is_kubelet(&self, pod: &Pod) -> bool {
        self.recognised(pod).class.is_kubelet()
    }

    fn seen(&self, pod: &Pod) -> Option<&Seen> {
        self.seen.get(&pod.node)
    }

    fn recognised<'a>(&'a self, pod: &'a Pod) -> Cow<'a, Recognised> {
        self.place(pod).0
    }

    /// Returns as what a pod's node is recognised, and for what the pod proves something: its node,
    /// or ACS, which is the same behind all nodes.
    fn place<'a>(&'a self, pod: &'a Pod) -> (Cow<'a, Recognised>, NodeId<'a>) {
        let on = |name, uid| NodeId { name, uid };
        let Some(seen) = self.seen(pod) else {
            let recognised = Recognised::by_name(&pod.node, &self.table);
            return (Cow::Owned(recognised), on(&pod.node, ""));
        };
        let acs = pod.on_acs.then(|| seen.recognised.on_acs(&self.table));
        match acs.flatten() {
            Some(acs) => (Cow::Owned(acs), on(ACS_ROW, "")),
            None => (Cow::Borrowed(&seen.recognised), on(&pod.node, &seen.uid)),
        }
    }
}

// The pods whose swaps show what nodes of unknown class do with a changed image, each on its node.

/// How long a pod waits for probes by pods of other namespaces, from when its main containers were
/// done: as long as a single probe takes at most. Otherwise a tenant whose pods become the probe
/// one after another, and prove nothing, would keep it waiting without end.
const FOR_OTHERS: Duration = Duration::from_secs(630);

/// The probes, by node. A node has one at a time, and one more of each namespace whose pods have
/// waited long enough for those of others.
#[derive(Default)]
struct Probes(HashMap<Box<str>, Vec<Probe>>);

struct Probe {
    namespace: Box<str>,
    pod: Box<str>,
    until: Moment,
}

impl Probes {
    /// Records the swap of a pod as a probe of its node.
    fn start(&mut self, pod: &Pod, until: Moment, now: Moment) {
        let probes = self.0.entry(pod.node.clone()).or_default();
        probes.retain(|probe| probe.until > now && probe.namespace != pod.namespace);
        probes.push(Probe {
            namespace: pod.namespace.clone(),
            pod: pod.uid.clone(),
            until,
        });
    }

    /// Ends the probe by this pod. Returns true if it was one.
    fn end(&mut self, pod: &Pod) -> bool {
        let Some(probes) = self.0.get_mut(&pod.node) else {
            return false;
        };
        let before = probes.len();
        probes.retain(|probe| probe.pod != pod.uid);
        let has_ended = probes.len() < before;
        if probes.is_empty() {
            self.0.remove(&pod.node);
        }
        has_ended
    }

    /// Ends the probes of a node that is gone.
    fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Returns until when a pod waits for probes of its node by other pods; `None` if it waits for
    /// none. `done_at` is when its main containers were observed to be done.
    fn until(&self, pod: &Pod, done_at: Option<Moment>, now: Moment) -> Option<Moment> {
        let latest = done_at.unwrap_or(now) + FOR_OTHERS;
        let others = self
            .0
            .get(&pod.node)?
            .iter()
            .filter(|probe| probe.pod != pod.uid);
        let until = others.map(|probe| {
            if probe.namespace == pod.namespace {
                probe.until
            } else {
                probe.until.min(latest)
            }
        });
        until.filter(|until| *until > now).max()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::objects::pod::wire::PodWire;

    use super::*;

    fn pod(namespace: &str, name: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}")},
            "spec": {"restartPolicy": "OnFailure", "nodeName": "node-1", "containers": [{"name": "main", "image": "main:1"}]},
        });
        serde_json::from_value::<PodWire>(pod)
            .unwrap()
            .read()
            .unwrap()
    }

    const fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    #[test]
    fn probes_that_follow_each_other_keep_no_pod_of_another_namespace_waiting_for_longer_than_one()
    {
        let mut probes = Probes::default();
        let (modest, own) = (pod("modest", "p"), pod("greedy", "p"));
        for nth in 0..3 {
            let start = at(630 * nth);
            let probe = pod("greedy", &format!("p{nth}"));
            probes.start(&probe, start + FOR_OTHERS, start);
            assert_eq!(probes.until(&probe, Some(at(0)), start), None);
        }
        let now = at(1270);
        assert_eq!(probes.until(&modest, Some(at(1260)), now), Some(at(1890)));
        assert_eq!(probes.until(&modest, Some(at(700)), now), Some(at(1330)));
        assert_eq!(probes.until(&modest, Some(at(640)), now), None);
        assert_eq!(probes.until(&modest, None, now), Some(at(1890)));
        assert_eq!(
            probes.until(&own, Some(at(0)), now),
            Some(at(1890)),
            "at most one pod of each namespace is harmed at a time"
        );
    }

    #[test]
    fn a_pod_that_has_waited_long_enough_is_the_probe_of_its_own_namespace_besides() {
        let mut probes = Probes::default();
        let (greedy, modest) = (pod("greedy", "p"), pod("modest", "p"));
        probes.start(&greedy, at(2000), at(1000));
        probes.start(&modest, at(1800), at(1100));
        let until = |probes: &Probes, pod: &Pod| probes.until(pod, Some(at(0)), at(1200));
        assert_eq!(until(&probes, &pod("modest", "q")), Some(at(1800)));
        assert_eq!(until(&probes, &pod("greedy", "q")), Some(at(2000)));
        assert_eq!(until(&probes, &pod("third", "q")), None);
        assert!(probes.end(&greedy) && !probes.end(&greedy));
        assert_eq!(until(&probes, &pod("greedy", "q")), None);
        assert_eq!(until(&probes, &pod("modest", "q")), Some(at(1800)));
        assert!(probes.end(&modest) && probes.0.is_empty());
    }
}
