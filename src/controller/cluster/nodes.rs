//! All nodes, as far as decisions about pods need them: their classes, what was proved on them, and
//! whose swap is the probe of an unknown one. No I/O and no clock.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use super::verdict_store::{AllKept, all_kept, merge, node_of};
use jiff::Timestamp;
use swaplet_core::cluster::budget::Rate;
use swaplet_core::cluster::node_class::{ACS_ROW, NodeClass, Recognised};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::cluster::node_verdicts::{NodeId, NodeVerdicts, Proved, UnderNever, provider};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::{KubeletVersion, Node};
use swaplet_core::objects::pod::{Pod, RestartPolicy};
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::terminate::NodeFacts;

/// The longest that a pod whose main containers are done waits for its node to be observed. It is
/// longer than a list takes; a watch that misses a node for longer must not keep pods from ending.
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// The nodes of the cluster, and the verdicts on them.
pub struct Nodes {
    table: NodeTable,
    seen: HashMap<Box<str>, Seen>,
    /// True while the API server forbids to read nodes.
    hidden: bool,
    list: u64,
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
    list: u64,
}

struct Trial {
    pod: Box<str>,
    until: Moment,
}

/// The result of applying a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Set if the node is new or recognised differently, so that its pods are reconciled.
    pub matters: bool,
    /// The error in what the node declares of itself, as a message.
    pub problem: Option<Box<str>>,
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
            seen: HashMap::new(),
            hidden: false,
            list: 0,
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

    /// Records that a list of all nodes begins.
    pub fn list_starts(&mut self) {
        self.list += 1;
        self.news = false;
    }

    /// Applies a node of the list; [`list_ends`](Self::list_ends) returns whether any has changed.
    pub fn listed(&mut self, node: &Node) -> Change {
        let change = self.apply(node);
        self.news |= change.matters;
        change
    }

    /// Ends the list: nodes that it did not name are gone. Returns true if pods are to be
    /// reconciled.
    pub fn list_ends(&mut self) -> bool {
        let (list, before) = (self.list, self.seen.len());
        self.seen.retain(|_, seen| seen.list == list);
        let were_hidden = std::mem::replace(&mut self.hidden, false);
        self.news || were_hidden || self.seen.len() < before
    }

    /// Applies a node that was added or has changed.
    pub fn apply(&mut self, node: &Node) -> Change {
        let recognised = Recognised::of(node, &self.table);
        let labelled_virtual = node
            .labels
            .get("type")
            .is_some_and(|kind| &**kind == "virtual-kubelet");
        let runs_on = node.runs_on();
        let (list, known) = (
            self.list,
            self.seen
                .get_mut(&node.name)
                .filter(|seen| seen.uid == node.uid),
        );
        if let Some(seen) = known
            && seen.recognised == recognised
            && seen.labelled_virtual == labelled_virtual
        {
            (seen.list, seen.kubelet) = (list, node.kubelet);
            let before = std::mem::replace(&mut seen.runs_on, runs_on);
            return Change {
                matters: before != runs_on,
                ..Change::default()
            };
        }
        let problem = recognised.problem.clone();
        self.seen.insert(
            node.name.clone(),
            Seen {
                uid: node.uid.clone(),
                recognised,
                labelled_virtual,
                kubelet: node.kubelet,
                runs_on,
                list,
            },
        );
        Change {
            matters: true,
            problem,
        }
    }

    /// Removes a node that is gone.
    pub fn remove(&mut self, name: &str) {
        self.seen.remove(name);
        self.probes.forget(name);
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
        let recognised = self.recognised(pod);
        let id = self.id(pod);
        let class = self.verdicts.class(id, &recognised, &pod.namespace, now);
        let unseen_until = done_at
            .map(|at| at + SEEN_WITHIN)
            .filter(|until| self.is_unseen(pod) && *until > now);
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
            labelled_virtual: self
                .seen
                .get(&pod.node)
                .is_some_and(|seen| seen.labelled_virtual),
        };
        (class, facts)
    }

    /// Returns the reasons for the class of a pod's node, as text. What was proved there comes
    /// first, because it outranks the rest.
    pub fn why(&self, pod: &Pod, now: Moment) -> String {
        if pod.node.is_empty() {
            return "the pod is on no node yet".to_owned();
        }
        let recognised = self.recognised(pod);
        let id = self.id(pod);
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
        self.seen
            .get(&pod.node)
            .is_some_and(|seen| seen.recognised.ends_eci_sidecars())
    }

    /// Returns true if the vendor of the pod's node handles requests to restart that have
    /// OpenKruise's label for virtual nodes.
    pub fn vendor_restarts(&self, pod: &Pod) -> bool {
        self.recognised(pod).vendor_restarts()
    }

    /// Returns the kubelet version that a pod's node reports; `None` if it is unknown.
    pub fn kubelet(&self, pod: &Pod) -> Option<KubeletVersion> {
        self.seen.get(&pod.node)?.kubelet
    }

    /// Returns what a pod's node says of its operating system and processor.
    pub fn runs_on(&self, pod: &Pod) -> RunsOn {
        let seen = self.seen.get(&pod.node);
        seen.map(|seen| seen.runs_on).unwrap_or_default()
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
        let recognised = self.recognised(pod).into_owned();
        let NodeId { name, uid } = self.id(pod);
        let (of, uid) = (name.to_owned(), uid.to_owned());
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
        let class = self
            .verdicts
            .class(self.id(pod), &self.recognised(pod), &pod.namespace, now);
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
        let class = self
            .verdicts
            .class(self.id(pod), &self.recognised(pod), &pod.namespace, now);
        if self.under_never(pod, class, now) == UnderNever::Try {
            self.under_never.insert(
                provider(&self.recognised(pod)),
                Trial {
                    pod: pod.uid.clone(),
                    until,
                },
            );
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
        let recognised = self.recognised(pod);
        let trial = self.under_never.get(&provider(&recognised));
        let is_tried = trial.is_some_and(|trial| trial.pod != pod.uid && trial.until > now);
        self.verdicts
            .under_never(self.id(pod), &recognised, &pod.namespace, is_tried, now)
    }

    /// Returns false if the pod's node was observed, or nodes cannot be read at all. What a pod
    /// proves is kept for the node with this uid, not for its name.
    pub(crate) fn is_unseen(&self, pod: &Pod) -> bool {
        !self.hidden && !self.seen.contains_key(&pod.node)
    }

    pub(crate) fn is_kubelet(&self, pod: &Pod) -> bool {
        self.recognised(pod).class.is_kubelet()
    }

    fn recognised(&self, pod: &Pod) -> Cow<'_, Recognised> {
        match self.seen.get(&pod.node) {
            Some(seen) => match self.on_acs(pod, seen) {
                Some(acs) => Cow::Owned(acs),
                None => Cow::Borrowed(&seen.recognised),
            },
            None => Cow::Owned(Recognised::by_name(&pod.node, &self.table)),
        }
    }

    fn on_acs(&self, pod: &Pod, seen: &Seen) -> Option<Recognised> {
        if !pod.on_acs {
            return None;
        }
        seen.recognised.on_acs(&self.table)
    }

    /// Returns for what a pod proves something: its node, or ACS, which is the same behind all
    /// nodes.
    fn id<'a>(&'a self, pod: &'a Pod) -> NodeId<'a> {
        let (name, uid) = match self.seen.get(&pod.node) {
            Some(seen) if self.on_acs(pod, seen).is_some() => (ACS_ROW, ""),
            Some(seen) => (&*pod.node, &*seen.uid),
            None => (&*pod.node, ""),
        };
        NodeId { name, uid }
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
