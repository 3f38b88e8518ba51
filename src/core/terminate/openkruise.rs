//! Living beside OpenKruise: whether its SidecarTerminator is on, which pods it acts on, and who
//! ends the sidecars of a pod.
//!
//! One actor per pod, never both: two that end the same sidecar in two ways count two restarts, and
//! tell two stories. What OpenKruise does is from its source (`pkg/controller/sidecarterminator`,
//! 1.9.0).
//!
//! Whether it is on is read from its manager's flags, because nothing else tells; where they cannot
//! be read, pods are left alone and an Event says so. A pod that OpenKruise has given up is
//! reported, not taken: the administrator decides that with `--coexist`.

mod gates;
pub(crate) mod left;

pub use self::gates::gate_is_on;
use self::gates::pull_jobs_are_off;
use std::collections::BTreeMap;

use super::memory::past_exits::PastExits;
use crate::cluster::daemon_pod::DaemonPod;
use crate::objects::recreate_request::RecreateRequest;

/// What the administrator wants where OpenKruise is there as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coexist {
    /// While its SidecarTerminator is on, the pods that it acts on are its own; swaplet takes
    /// exactly those that it leaves alone.
    #[default]
    Auto,
    /// While its manager is there, every pod is its own.
    Defer,
    /// Every pod is swaplet's: its SidecarTerminator is off.
    Own,
}

/// What is known of OpenKruise's SidecarTerminator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Terminator {
    /// OpenKruise's manager is not there.
    #[default]
    Absent,
    /// The manager is there, with the feature gate off (the default of 1.9).
    Off,
    /// The manager is there, with the feature gate on.
    On,
    /// The manager is there, and nobody can tell.
    Unknown,
}

/// Something on the cluster that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// It is there.
    Found(T),
    /// It is not.
    Missing,
    /// The API server did not tell.
    Hidden,
}

impl<T> Seen<T> {
    /// What it says, where it was found.
    pub fn map<U>(self, read: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Found(found) => Seen::Found(read(found)),
            Self::Missing => Seen::Missing,
            Self::Hidden => Seen::Hidden,
        }
    }
}

/// By what OpenKruise's manager shows itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signals {
    /// Commands and arguments of the containers of its Deployment.
    pub command_lines: Seen<Vec<String>>,
    /// Its webhook configuration. While it is there and the manager is not, no pod can be created.
    pub webhooks: Seen<()>,
    /// Its Lease, and whether that was renewed between the last two looks (the manager renews it
    /// every 2 s).
    pub lease: Seen<bool>,
    /// Whether its API group has kinds that swaplet's CRDs do not define. It never comes without;
    /// so where there are none, a manager that nobody may look for is not there.
    pub other_kinds: bool,
}

impl Signals {
    /// What they say together.
    #[must_use]
    pub fn terminator(&self) -> Terminator {
        let there = self.webhooks == Seen::Found(()) || self.lease == Seen::Found(true);
        let blind =
            self.other_kinds && (self.webhooks == Seen::Hidden || self.lease == Seen::Hidden);
        match &self.command_lines {
            _ if !there && !blind => Terminator::Absent,
            Seen::Found(lines) if gate_is_on(lines) => Terminator::On,
            Seen::Found(_) => Terminator::Off,
            Seen::Missing | Seen::Hidden => Terminator::Unknown,
        }
    }
}

/// Who does jobs that pull images where OpenKruise's CRDs are served: nothing where swaplet does,
/// or why they are left.
///
/// OpenKruise's manager takes up each such job, and two would write over each other's status. It
/// does none without its daemon, or with the gate off. Where neither is said it depends on its
/// version; and where the gate is off by default, its webhook lets no job be made.
#[must_use]
pub fn leaves_pull_jobs(coexist: Coexist, signals: &Signals) -> Option<&'static str> {
    if coexist == Coexist::Own {
        return None;
    }
    if coexist == Coexist::Defer {
        return Some("--warm-coexist=defer leaves them to it while its CRDs are there");
    }
    let there = signals.webhooks == Seen::Found(()) || signals.lease == Seen::Found(true);
    let blind = signals.webhooks == Seen::Hidden || signals.lease == Seen::Hidden;
    match &signals.command_lines {
        _ if !there && !blind => None,
        Seen::Found(lines) if pull_jobs_are_off(lines) => None,
        Seen::Found(_) => Some(
            "its manager does them, or lets none be made: where its daemon does not run, switch KruiseDaemon or ImagePullJobGate off, or say \
             --warm-coexist=own",
        ),
        Seen::Missing | Seen::Hidden => Some(
            "whether it does them cannot be seen: allow swaplet to read its Deployment (deploy/openkruise.yaml), or say --warm-coexist=own",
        ),
    }
}

/// OpenKruise's daemon on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Daemon {
    /// No pod of it is on the node: nobody carries out a request there.
    #[default]
    None,
    /// Its pod is there and not Ready.
    NotReady,
    /// Its pod is Ready.
    Ready,
}

/// The pods of the daemon on all nodes.
#[derive(Clone, Debug, Default)]
pub struct Daemons {
    pods: BTreeMap<Box<str>, DaemonPod>,
}

impl Daemons {
    /// A pod was listed, added or has changed. Gives the node where that makes a difference.
    pub fn apply(&mut self, pod: DaemonPod) -> Option<Box<str>> {
        let node = pod.node.clone();
        let before = self.on(&node);
        self.pods.insert(pod.name.clone(), pod);
        (self.on(&node) != before).then_some(node)
    }

    /// A pod is gone. Gives its node where that makes a difference.
    pub fn remove(&mut self, name: &str) -> Option<Box<str>> {
        let node = self.pods.get(name)?.node.clone();
        let before = self.on(&node);
        self.pods.remove(name);
        (self.on(&node) != before).then_some(node)
    }

    /// Whether there is none on any node.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.pods.is_empty()
    }

    /// The daemon on a node.
    #[must_use]
    pub fn on(&self, node: &str) -> Daemon {
        let pods = self
            .pods
            .values()
            .filter(|pod| *pod.node == *node && !node.is_empty());
        let daemons = pods.map(|pod| {
            if pod.ready {
                Daemon::Ready
            } else {
                Daemon::NotReady
            }
        });
        daemons.max().unwrap_or_default()
    }
}

/// What a decision about a pod has to know of OpenKruise.
#[derive(Clone, Copy, Debug)]
pub struct OpenKruise<'a> {
    /// Whether somebody has looked yet; until then nothing is done.
    pub seen: bool,
    /// What the administrator wants.
    pub coexist: Coexist,
    /// Its SidecarTerminator.
    pub terminator: Terminator,
    /// Its daemon on the pod's node.
    pub daemon: Daemon,
    /// The request to end the sidecars of the pod, by whomever.
    pub request: Option<&'a RecreateRequest>,
    /// How sidecars have ended before.
    pub past_exits: &'a PastExits,
}

static NO_PAST_EXITS: PastExits = PastExits::new();

/// A cluster without OpenKruise.
impl Default for OpenKruise<'_> {
    fn default() -> Self {
        Self {
            seen: true,
            coexist: Coexist::default(),
            terminator: Terminator::default(),
            daemon: Daemon::default(),
            request: None,
            past_exits: &NO_PAST_EXITS,
        }
    }
}
