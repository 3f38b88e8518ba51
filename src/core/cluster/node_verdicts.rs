//! What has been proved on nodes: whether they act on a changed image, ignore it or fail on it. A
//! proof outranks what a node is taken for, until it expires.
//!
//! A verdict counts for one node, by name and uid, and for no other of its provider: two virtual
//! nodes with the same taint can behave in opposite ways (Azure's two virtual nodes do), and one
//! probe per node is cheap.
//!
//! Whether a pod under `Never` outlives a swap there is another question, for the probe of which a
//! pod may fail whose work is done. So one that failed counts for all nodes of the provider.

mod proved;

pub use self::proved::Proved;
use std::collections::HashMap;
use std::time::Duration;

use super::node_class::{NodeClass, Recognised, Why};
use crate::objects::values::backoff::Backoff;
use crate::objects::values::bounds::cut;

/// How long a verdict counts that nothing speaks against. Providers change with releases, not
/// within hours; and the probe that follows costs one pod's patience.
pub const VERDICT_LASTS: Duration = Duration::from_secs(24 * 3600);
/// How long a verdict counts that contradicts what the node is known for: a provider that usually
/// updates was throttled or out of order, which passes in minutes (virtual-nodes.md A.2). It
/// doubles with each time, up to [`VERDICT_LASTS`].
pub const COOL_DOWN: Duration = Duration::from_secs(10 * 60);
/// How long it counts that a pod under `Never` did not outlive its swap, where nothing else was
/// known of the provider: to find out again costs another one.
pub const FAILURE_LASTS: Duration = Duration::from_secs(7 * 24 * 3600);
/// Verdicts of each of the two kinds that are kept; beyond it those that expire first are dropped.
/// More virtual nodes in one cluster are not known of, and all of them have to fit into one
/// ConfigMap (1 MB).
pub const MOST_VERDICTS: usize = 500;
/// The bytes of the name of a provider that are kept and compared.
const PROVIDER: usize = 200;

/// Whether images of pods under `Never` are swapped on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnderNever {
    /// They are not.
    #[default]
    No,
    /// One pod at a time may prove whether they can be, where its failure would do little harm.
    Try,
    /// They are.
    Yes,
}

/// A node, as verdicts are kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId<'a> {
    /// `metadata.name`
    pub name: &'a str,
    /// `metadata.uid`; empty where the node cannot be looked at.
    pub uid: &'a str,
}

/// A verdict on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// The node's uid.
    pub uid: Box<str>,
    /// What was proved.
    pub proved: Proved,
    /// Until when it counts, as time since the start of the process.
    pub until: Duration,
    /// For how long it counts in all: it was proved at `until - lasts`, maybe before the process
    /// started.
    pub lasts: Duration,
    /// Where it contradicts what the node is known for: how often that was seen, one time after the
    /// other; 0 elsewhere.
    pub times: u32,
    /// The pod that proved it, as `namespace/name`.
    pub pod: Box<str>,
    /// The row of the table that the node had; empty where it had none.
    pub provider: Box<str>,
}

/// The verdicts on all nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeVerdicts {
    verdicts: HashMap<Box<str>, NodeVerdict>,
    /// Those on pods under `Never`.
    under_never: HashMap<Box<str>, NodeVerdict>,
}

impl NodeVerdicts {
    /// The verdict on a node that counts now.
    #[must_use]
    pub fn on(&self, node: NodeId<'_>, now: Duration) -> Option<&NodeVerdict> {
        self.known(node).filter(|verdict| verdict.until > now)
    }

    /// The class of a node: what was proved there, or else what it is taken for.
    #[must_use]
    pub fn class(&self, node: NodeId<'_>, recognised: &Recognised, now: Duration) -> NodeClass {
        self.on(node, now).map_or(recognised.class, |verdict| {
            verdict.proved.class(recognised.class)
        })
    }

    /// What is done about pods under `Never` on a node that replaces containers. `is_tried`:
    /// another pod is the proof for its provider.
    #[must_use]
    pub fn under_never(
        &self,
        node: NodeId<'_>,
        recognised: &Recognised,
        is_tried: bool,
        now: Duration,
    ) -> UnderNever {
        let provider = provider(recognised);
        let fails = |verdict: &NodeVerdict| {
            verdict.proved == Proved::FailsUnderNever
                && verdict.provider == provider
                && verdict.until > now
        };
        let says = recognised.row.as_ref().and_then(|row| row.swap_under_never);
        if says == Some(false) || self.under_never.values().any(fails) {
            return UnderNever::No;
        }
        let is_proved = self
            .under_never
            .get(node.name)
            .is_some_and(|verdict| *verdict.uid == *node.uid && verdict.until > now);
        if is_proved || says == Some(true) {
            UnderNever::Yes
        } else if recognised.class == NodeClass::Unknown && !is_tried {
            UnderNever::Try
        } else {
            UnderNever::No
        }
    }

    /// All verdicts, expired ones included, with the names of the nodes.
    pub fn all(&self) -> impl Iterator<Item = (&str, &NodeVerdict)> {
        self.verdicts
            .iter()
            .chain(&self.under_never)
            .map(|(name, verdict)| (&**name, verdict))
    }

    /// Learns what a pod (`namespace/name`) has proved. Answers whether that is news.
    pub fn learn(
        &mut self,
        node: NodeId<'_>,
        recognised: &Recognised,
        proved: Proved,
        pod: &str,
        now: Duration,
    ) -> bool {
        if proved.is_under_never() {
            let updates = proved == Proved::UpdatesUnderNever
                && self.learn(node, recognised, Proved::Updates, pod, now);
            return self.learn_under_never(node, recognised, proved, pod, now) || updates;
        }
        if !may_be_learned(proved, recognised) {
            return self.forgive(node, proved, now);
        }
        let before = self.known(node);
        if before.is_some_and(|before| before.stands_against(proved, now)) {
            return false;
        }
        let again = before
            .filter(|before| before.proved == proved)
            .map_or(0, |before| before.times);
        let did_update =
            before.is_some_and(|before| before.proved == Proved::Updates && before.until > now);
        let surprising =
            proved != Proved::Updates && (recognised.class.updates() || did_update || again > 0);
        let times = if surprising { again + 1 } else { 0 };
        let lasts = if surprising {
            cool_down(times)
        } else {
            VERDICT_LASTS
        };
        self.restore(
            node.name,
            verdict(node, recognised, proved, (lasts, times), pod, now),
            now,
        );
        true
    }

    /// What is said of the provider was said by somebody who knew pods to outlive their swaps: what
    /// contradicts it may pass.
    fn learn_under_never(
        &mut self,
        node: NodeId<'_>,
        recognised: &Recognised,
        proved: Proved,
        pod: &str,
        now: Duration,
    ) -> bool {
        if recognised.class.is_kubelet() {
            return false;
        }
        let before = self
            .under_never
            .get(node.name)
            .filter(|before| *before.uid == *node.uid);
        let stands = |before: &NodeVerdict| match (before.proved, proved) {
            _ if before.until <= now => false,
            (Proved::FailsUnderNever, _) => true,
            (_, Proved::UpdatesUnderNever) => before.until > now + before.lasts / 2,
            _ => false,
        };
        if before.is_some_and(stands) {
            return false;
        }
        let is_known = recognised
            .row
            .as_ref()
            .is_some_and(|row| row.swap_under_never == Some(true));
        let limits = if proved == Proved::FailsUnderNever && is_known {
            let times = before
                .filter(|before| before.proved == proved)
                .map_or(0, |before| before.times)
                + 1;
            (cool_down(times), times)
        } else {
            (proved.lasts(), 0)
        };
        self.restore(
            node.name,
            verdict(node, recognised, proved, limits, pod, now),
            now,
        );
        true
    }

    /// Forgets what was proved on a node: its administrator has just said something else.
    pub fn forget(&mut self, name: &str) {
        self.verdicts.remove(name);
        self.under_never.remove(name);
    }

    /// Takes over a verdict of an earlier life.
    pub fn restore(&mut self, name: &str, verdict: NodeVerdict, now: Duration) {
        let verdicts = if verdict.proved.is_under_never() {
            &mut self.under_never
        } else {
            &mut self.verdicts
        };
        verdicts.insert(name.into(), verdict);
        // An expired verdict is remembered a while longer: a node that does it again cools down for
        // longer.
        verdicts.retain(|_, verdict| verdict.until + VERDICT_LASTS > now);
        while verdicts.len() > MOST_VERDICTS {
            let first = verdicts
                .iter()
                .min_by_key(|(_, verdict)| verdict.until)
                .map(|(name, _)| name.clone());
            first.and_then(|name| verdicts.remove(&name));
        }
    }

    fn known(&self, node: NodeId<'_>) -> Option<&NodeVerdict> {
        self.verdicts
            .get(node.name)
            .filter(|verdict| *verdict.uid == *node.uid)
    }

    /// On a kubelet nothing is kept about swaps that work; they only end what was held against it.
    fn forgive(&mut self, node: NodeId<'_>, proved: Proved, now: Duration) -> bool {
        let held = self
            .known(node)
            .is_some_and(|verdict| !verdict.stands_against(proved, now));
        proved == Proved::Updates && held && self.verdicts.remove(node.name).is_some()
    }
}

impl NodeVerdict {
    /// Whether a proof does not change this verdict: it says the same; or it is about swaps that
    /// were made before the provider failed, whose end only time can show.
    fn stands_against(&self, proved: Proved, now: Duration) -> bool {
        match (self.proved, proved) {
            _ if self.until <= now => false,
            (Proved::Rejects, _) => true,
            (Proved::Updates, Proved::Updates) => self.until > now + self.lasts / 2,
            (before, proved) => before == proved,
        }
    }
}

/// What nodes of one provider share.
#[must_use]
pub fn provider(recognised: &Recognised) -> Box<str> {
    recognised
        .row
        .as_ref()
        .map(|row| cut(&row.name, PROVIDER).into())
        .unwrap_or_default()
}

fn verdict(
    node: NodeId<'_>,
    recognised: &Recognised,
    proved: Proved,
    limits: (Duration, u32),
    pod: &str,
    now: Duration,
) -> NodeVerdict {
    let (lasts, times) = limits;
    NodeVerdict {
        uid: node.uid.into(),
        proved,
        until: now + lasts,
        lasts,
        times,
        pod: pod.into(),
        provider: provider(recognised),
    }
}

/// A swap that works is no news on a kubelet, and one that does not, within its patience, on an
/// ordinary node is a busy kubelet. But only a virtual-kubelet answers `ProviderFailed`, whatever
/// the node is taken for.
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
