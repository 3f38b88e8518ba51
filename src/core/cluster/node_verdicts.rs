//! The verdicts on nodes: the proof that a node applies a changed image, ignores it or fails on it.
//! A verdict outranks the recognised class of the node, until it expires, or the node is recognised
//! as another class: an administrator, who sets one, outranks it.
//!
//! A verdict counts for one node, by name and uid, and for no other of its provider: two virtual
//! nodes with the same taint can behave in opposite ways (Azure's two virtual nodes do), and one
//! probe per node is cheap.
//!
//! What a pod proves against its node counts for its namespace, and for all once pods of several
//! have proved it: one tenant's pod may be refused, or be slow, for reasons of its own.
//!
//! Whether a pod under `Never` survives a swap there is proved separately, because that probe may
//! fail a pod whose work is done. So a failure counts for all nodes of the provider: in the
//! namespace of the pod, and in all once pods of several namespaces have failed.

use std::collections::HashMap;
use std::time::Duration;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::node_class::{NodeClass, Recognised, Why};
use crate::objects::moment::Moment;
use crate::objects::values::backoff::Backoff;
use crate::objects::values::bounds::cut;

/// How long a verdict counts that contradicts nothing. Providers change with releases, not within
/// hours, and the probe that follows costs one timeout of a pod.
pub const VERDICT_LASTS: Duration = Duration::from_secs(24 * 3600);
/// How long a verdict counts that contradicts the known behaviour of the node: a provider that
/// usually updates was throttled or out of order, which passes in minutes.
/// It doubles with each repetition, up to [`VERDICT_LASTS`].
pub const COOL_DOWN: Duration = Duration::from_secs(10 * 60);
/// How long the failure of a pod under `Never` after its swap counts, where nothing else was known
/// of the provider: the next probe costs another pod.
pub const FAILURE_LASTS: Duration = Duration::from_secs(7 * 24 * 3600);
/// The most verdicts of each of the two kinds that are kept; beyond it those that expire first are
/// dropped. No cluster with more virtual nodes is known, and all of them have to fit into one
/// ConfigMap (1 MB).
pub const MOST_VERDICTS: usize = 500;
/// The number of namespaces whose pods have to prove something against a node until it counts in
/// all.
const SEVERAL: usize = 3;
/// What separates the pods of a verdict; no name has it.
const BETWEEN_PODS: &str = ", ";
/// The most bytes of a provider's name that are kept and compared.
const PROVIDER: usize = 200;

/// The decision to swap images of pods under `Never` on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnderNever {
    /// Images of such pods are not swapped.
    #[default]
    No,
    /// One pod at a time may be swapped as a proof, where its failure would do little harm.
    Try,
    /// Images of such pods are swapped.
    Yes,
}

/// The identity of a node, for which verdicts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId<'a> {
    /// `metadata.name`
    pub name: &'a str,
    /// `metadata.uid`; empty if the node cannot be read.
    pub uid: &'a str,
}

/// A verdict on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// The uid of the node.
    pub uid: Box<str>,
    /// The fact that was proved.
    pub proved: Proved,
    /// The end of its validity.
    pub until: Moment,
    /// How long it counts in total: it was proved at `until - lasts`, maybe before the process
    /// started.
    pub lasts: Duration,
    /// How often in a row it was proved, if it contradicts the known behaviour of the node; else 0.
    pub times: u32,
    /// The pod that proved it, as `namespace/name`; of what stands against the node one of each
    /// namespace.
    pub pod: Box<str>,
    /// The name of the node's row in the table; empty if it had none.
    pub provider: Box<str>,
    /// The class that the node was recognised as; `None` if that is unknown. The verdict counts
    /// only while it is recognised so.
    pub taken_for: Option<NodeClass>,
}

/// The verdicts on all nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeVerdicts {
    verdicts: HashMap<Box<str>, NodeVerdict>,
    /// The verdicts on pods under `Never`.
    under_never: HashMap<Box<str>, NodeVerdict>,
}

impl NodeVerdicts {
    /// Returns the verdict on a node that counts now for pods of a namespace; `None` if there is
    /// none, or it has expired.
    pub fn on(
        &self,
        node: NodeId<'_>,
        recognised: &Recognised,
        namespace: &str,
        now: Moment,
    ) -> Option<&NodeVerdict> {
        known(&self.verdicts, node, recognised)
            .filter(|verdict| verdict.until > now && verdict.counts_in(namespace))
    }

    /// Returns the class of a node for pods of a namespace: the one proved there, or else the
    /// recognised one.
    pub fn class(
        &self,
        node: NodeId<'_>,
        recognised: &Recognised,
        namespace: &str,
        now: Moment,
    ) -> NodeClass {
        self.on(node, recognised, namespace, now)
            .map_or(recognised.class, |verdict| {
                verdict.proved.class(recognised.class)
            })
    }

    /// Decides about pods under `Never` of a namespace on a node that replaces containers.
    /// `is_tried` is true while another pod is the probe for its provider.
    pub fn under_never(
        &self,
        node: NodeId<'_>,
        recognised: &Recognised,
        namespace: &str,
        is_tried: bool,
        now: Moment,
    ) -> UnderNever {
        let provider = provider(recognised);
        let of_node = |name: &str| *name == *node.name;
        let mut failed: Vec<_> = self
            .under_never
            .iter()
            .filter(|(name, verdict)| !of_node(name) || verdict.is_for(recognised))
            .filter(|(_, verdict)| verdict.fails(&provider, now))
            .flat_map(|(_, verdict)| verdict.namespaces())
            .collect();
        failed.sort_unstable();
        failed.dedup();
        let says = recognised.row.as_ref().and_then(|row| row.swap_under_never);
        if says == Some(false) || failed.len() >= SEVERAL || failed.contains(&namespace) {
            return UnderNever::No;
        }
        let is_proved = known(&self.under_never, node, recognised).is_some_and(|verdict| {
            verdict.proved == Proved::UpdatesUnderNever && verdict.until > now
        });
        if is_proved || says == Some(true) {
            UnderNever::Yes
        } else if recognised.class == NodeClass::Unknown && !is_tried {
            UnderNever::Try
        } else {
            UnderNever::No
        }
    }

    /// Returns all verdicts, expired ones included, with the names of the nodes.
    pub fn all(&self) -> impl Iterator<Item = (&str, &NodeVerdict)> {
        self.verdicts
            .iter()
            .chain(&self.under_never)
            .map(|(name, verdict)| (&**name, verdict))
    }

    /// Records what a pod (`namespace/name`) has proved. Returns true if the verdicts changed.
    pub fn learn(
        &mut self,
        node: NodeId<'_>,
        recognised: &Recognised,
        proved: Proved,
        pod: &str,
        now: Moment,
    ) -> bool {
        if proved.is_under_never() {
            let updates = proved == Proved::UpdatesUnderNever
                && self.learn(node, recognised, Proved::Updates, pod, now);
            return self.learn_under_never(node, recognised, proved, pod, now) || updates;
        }
        let before = known(&self.verdicts, node, recognised);
        if !may_be_learned(proved, recognised) {
            // Nothing is held against a kubelet whose swap works, and nothing is kept about that.
            let held = before.is_some_and(|before| !before.stands_against(proved, pod, now));
            let forgives = proved == Proved::Updates && held;
            return forgives && self.verdicts.remove(node.name).is_some();
        }
        if before.is_some_and(|before| before.stands_against(proved, pod, now)) {
            return false;
        }
        let agrees = before
            .filter(|before| before.until > now && before.is_adverse() && proved.is_adverse());
        let (proved, pod) = agrees.map_or((proved, pod.into()), |before| before.with(proved, pod));
        let again = before
            .filter(|before| before.proved == proved)
            .map_or(0, |before| before.times);
        let did_update =
            before.is_some_and(|before| before.proved == Proved::Updates && before.until > now);
        let surprising =
            proved != Proved::Updates && (recognised.class.updates() || did_update || again > 0);
        let times = match agrees {
            _ if !surprising => 0,
            Some(_) => again.max(1),
            None => again + 1,
        };
        let lasts = if surprising {
            cool_down(times)
        } else {
            VERDICT_LASTS
        };
        self.keep(node, recognised, proved, (lasts, times), &pod, now);
        true
    }

    /// Records a fact about pods under `Never`; true if it is new. If the row of the table states
    /// that pods survive their swaps, a failure may be temporary, and cools down.
    fn learn_under_never(
        &mut self,
        node: NodeId<'_>,
        recognised: &Recognised,
        proved: Proved,
        pod: &str,
        now: Moment,
    ) -> bool {
        if recognised.class.is_kubelet() {
            return false;
        }
        let before = known(&self.under_never, node, recognised);
        let stands = |before: &NodeVerdict| match (before.proved, proved) {
            _ if before.until <= now => false,
            (Proved::FailsUnderNever, Proved::FailsUnderNever) => {
                let namespaces: Vec<_> = before.namespaces().collect();
                namespaces.len() >= SEVERAL || namespaces.contains(&namespace_of(pod))
            }
            (Proved::FailsUnderNever, _) => true,
            (_, Proved::UpdatesUnderNever) => before.until > now + before.lasts / 2,
            _ => false,
        };
        if before.is_some_and(stands) {
            return false;
        }
        let is_known = recognised.has(|row| row.swap_under_never == Some(true));
        let limits = if proved == Proved::FailsUnderNever && is_known {
            let times = before
                .filter(|before| before.proved == proved)
                .map_or(0, |before| before.times)
                + 1;
            (cool_down(times), times)
        } else {
            (proved.lasts(), 0)
        };
        let others = before.filter(|before| before.fails(&before.provider, now));
        let pods = others.map(|before| format!("{}{BETWEEN_PODS}{pod}", before.pod));
        let pod = pods.as_deref().unwrap_or(pod);
        self.keep(node, recognised, proved, limits, pod, now);
        true
    }

    fn keep(
        &mut self,
        node: NodeId<'_>,
        recognised: &Recognised,
        proved: Proved,
        (lasts, times): (Duration, u32),
        pod: &str,
        now: Moment,
    ) {
        let verdict = NodeVerdict {
            uid: node.uid.into(),
            proved,
            until: now + lasts,
            lasts,
            times,
            pod: pod.into(),
            provider: provider(recognised),
            taken_for: Some(recognised.class),
        };
        self.restore(node.name, verdict, now);
    }

    /// Restores a verdict of an earlier run of the process.
    pub fn restore(&mut self, name: &str, verdict: NodeVerdict, now: Moment) {
        let verdicts = if verdict.proved.is_under_never() {
            &mut self.under_never
        } else {
            &mut self.verdicts
        };
        verdicts.insert(name.into(), verdict);
        // An expired verdict is kept a while longer: a node that repeats it cools down for longer.
        verdicts.retain(|_, verdict| verdict.until + VERDICT_LASTS > now);
        while verdicts.len() > MOST_VERDICTS {
            let first = verdicts
                .iter()
                .min_by_key(|(_, verdict)| verdict.until)
                .map(|(name, _)| name.clone());
            first.and_then(|name| verdicts.remove(&name));
        }
    }
}

/// Returns the verdict on this very node, if it still counts as what it was taken for.
fn known<'a>(
    verdicts: &'a HashMap<Box<str>, NodeVerdict>,
    node: NodeId<'_>,
    recognised: &Recognised,
) -> Option<&'a NodeVerdict> {
    verdicts
        .get(node.name)
        .filter(|verdict| *verdict.uid == *node.uid && verdict.is_for(recognised))
}

impl NodeVerdict {
    fn is_for(&self, recognised: &Recognised) -> bool {
        self.taken_for
            .is_none_or(|taken_for| taken_for == recognised.class)
    }

    /// Returns true if pods under `Never` have failed on a node of this provider.
    fn fails(&self, provider: &str, now: Moment) -> bool {
        self.proved == Proved::FailsUnderNever && *self.provider == *provider && self.until > now
    }

    /// Returns the namespaces of the pods that proved it.
    fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.pod.split(BETWEEN_PODS).map(namespace_of)
    }

    fn is_adverse(&self) -> bool {
        self.proved.is_adverse()
    }

    /// Returns true if it counts for pods of this namespace.
    fn counts_in(&self, namespace: &str) -> bool {
        !self.is_adverse()
            || self.namespaces().count() >= SEVERAL
            || self.namespaces().any(|own| own == namespace)
    }

    /// Returns what its pods and this one prove against the node together, and these pods.
    fn with(&self, proved: Proved, pod: &str) -> (Proved, Box<str>) {
        let rejects = [self.proved, proved].contains(&Proved::Rejects);
        let proved = if rejects { Proved::Rejects } else { proved };
        let is_named = self.namespaces().any(|own| own == namespace_of(pod));
        let pods = format!("{}{BETWEEN_PODS}{pod}", self.pod).into();
        (proved, if is_named { self.pod.clone() } else { pods })
    }

    /// Returns true if a proof does not change this verdict: both agree, or the proof is about
    /// swaps made before the provider failed, and only time can show when that ends.
    fn stands_against(&self, proved: Proved, pod: &str, now: Moment) -> bool {
        match (self.proved, proved) {
            _ if self.until <= now => false,
            _ if proved.is_adverse() && !self.counts_in(namespace_of(pod)) => false,
            (Proved::Rejects, _) => true,
            (Proved::Updates, Proved::Updates) => self.until > now + self.lasts / 2,
            (before, proved) => before == proved,
        }
    }
}

fn namespace_of(pod: &str) -> &str {
    pod.split('/').next().unwrap_or_default()
}

/// Returns the key that nodes of one provider share; empty if no row matched.
pub fn provider(recognised: &Recognised) -> Box<str> {
    recognised
        .row
        .as_ref()
        .map(|row| cut(&row.name, PROVIDER).into())
        .unwrap_or_default()
}

/// Returns true if the fact is kept for such a node. A swap that works is expected on a kubelet,
/// and one that does not, before its timeout, on an ordinary node means a busy kubelet. But only a
/// virtual-kubelet answers `ProviderFailed`, whatever the recognised class is.
fn may_be_learned(proved: Proved, recognised: &Recognised) -> bool {
    match proved {
        Proved::Rejects => true,
        Proved::Inert => recognised.why != Why::Ordinary && recognised.class != NodeClass::Daemon,
        Proved::Updates | Proved::UpdatesUnderNever | Proved::FailsUnderNever => {
            !recognised.class.is_kubelet()
        }
    }
}

fn cool_down(times: u32) -> Duration {
    let backoff = Backoff {
        first: COOL_DOWN,
        longest: VERDICT_LASTS,
    };
    backoff.after(times - 1)
}

// The facts that can be proved on a node, and how long each counts.

/// A fact that a pod has proved about its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
pub enum Proved {
    /// A swap took effect.
    Updates,
    /// A swap had no effect until its timeout.
    Inert,
    /// A swap was answered with `ProviderFailed`.
    Rejects,
    /// A pod under `Never` has succeeded after a swap.
    UpdatesUnderNever,
    /// A pod under `Never` has failed after a swap, although its main containers had succeeded.
    FailsUnderNever,
}

impl Proved {
    /// All facts, in the order of the enum.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the word for the fact.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns true if the fact is about pods under `Never` only.
    pub const fn is_under_never(self) -> bool {
        matches!(self, Self::UpdatesUnderNever | Self::FailsUnderNever)
    }

    /// Returns true if images of pods are not swapped where this was proved.
    const fn is_adverse(self) -> bool {
        matches!(self, Self::Inert | Self::Rejects)
    }

    /// Returns how long a verdict with this fact counts at most.
    pub const fn lasts(self) -> Duration {
        match self {
            Self::FailsUnderNever => FAILURE_LASTS,
            Self::Updates | Self::Inert | Self::Rejects | Self::UpdatesUnderNever => VERDICT_LASTS,
        }
    }

    /// Returns the class of a node on which this was proved, and which is otherwise `taken_for`.
    pub const fn class(self, taken_for: NodeClass) -> NodeClass {
        match self {
            Self::Updates | Self::UpdatesUnderNever | Self::FailsUnderNever
                if taken_for.updates() =>
            {
                taken_for
            }
            Self::Updates | Self::UpdatesUnderNever | Self::FailsUnderNever => {
                NodeClass::VirtualUpdates
            }
            Self::Inert => NodeClass::VirtualInert,
            Self::Rejects => NodeClass::VirtualRejects,
        }
    }
}
