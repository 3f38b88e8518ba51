//! Coexistence with OpenKruise: whether its SidecarTerminator is on, which pods it acts on, and who
//! ends the sidecars of a pod.
//!
//! Only one of the two acts on a pod: if both ended the same sidecar in different ways, two
//! restarts would be counted and contradicting Events emitted. What OpenKruise does is taken from
//! its source (`pkg/controller/sidecarterminator`, 1.9.0).
//!
//! Whether the SidecarTerminator is on is read from the flags of OpenKruise's manager, because
//! nothing else shows it. Where they cannot be read, pods are left alone and an Event reports it. A
//! pod that OpenKruise has given up is reported, not taken over: the administrator decides that
//! with `--coexist`.

pub(crate) mod left;

use std::collections::BTreeMap;

use crate::cluster::daemon_pod::DaemonPod;
use crate::objects::recreate_request::RecreateRequest;

/// How swaplet behaves where OpenKruise is installed as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coexist {
    /// While OpenKruise's SidecarTerminator is on, the pods that it acts on are left to it; swaplet
    /// takes exactly those that it leaves alone.
    #[default]
    Auto,
    /// While OpenKruise's manager is there, every pod is left to it.
    Defer,
    /// swaplet takes every pod: OpenKruise's SidecarTerminator is assumed to be off.
    Own,
}

/// The state of OpenKruise's SidecarTerminator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Terminator {
    /// OpenKruise's manager is not there.
    #[default]
    Absent,
    /// The manager is there, with the feature gate off (the default of 1.9).
    Off,
    /// The manager is there, with the feature gate on.
    On,
    /// The manager is there, and its feature gate cannot be read.
    Unknown,
}

/// The result of a query for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// The object was found.
    Found(T),
    /// The object does not exist.
    Missing,
    /// The API server forbids the query (403).
    Hidden,
}

impl<T> Seen<T> {
    /// Applies `read` to the value if it was found.
    pub fn map<U>(self, read: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Found(found) => Seen::Found(read(found)),
            Self::Missing => Seen::Missing,
            Self::Hidden => Seen::Hidden,
        }
    }
}

/// The objects by which the presence of OpenKruise's manager is detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signals {
    /// Commands and arguments of the containers of its Deployment.
    pub command_lines: Seen<Vec<String>>,
    /// Its webhook configuration. While it is there and the manager is not, no pod can be created.
    pub webhooks: Seen<()>,
    /// Its Lease, and whether that was renewed between the last two reads (the manager renews it
    /// every 2 s).
    pub lease: Seen<bool>,
    /// True if its API group has kinds that swaplet's CRDs do not define. The manager never comes
    /// without such kinds; so if there are none, a manager that may not be queried is not there.
    pub other_kinds: bool,
}

impl Signals {
    /// Returns the state of the SidecarTerminator that these signals show together.
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

/// Returns `None` if swaplet handles jobs that pull images although OpenKruise's CRDs are served,
/// or the reason why they are left to OpenKruise.
///
/// OpenKruise's manager handles each such job, and two controllers would overwrite each other's
/// status. It handles none without its daemon, or with the gate off. If neither is configured it
/// depends on its version; and where the gate is off by default, its webhook rejects new jobs.
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
            "its manager does them, or lets none be created: where its daemon does not run, switch KruiseDaemon or ImagePullJobGate off, or set \
             --warm-coexist=own",
        ),
        Seen::Missing | Seen::Hidden => Some(
            "whether it does them cannot be read: allow swaplet to read its Deployment (deploy/openkruise.yaml), or set --warm-coexist=own",
        ),
    }
}

/// OpenKruise's daemon on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Daemon {
    /// No pod of it is on the node: nothing handles a request there.
    #[default]
    None,
    /// Its pod is there and not Ready.
    NotReady,
    /// Its pod is Ready.
    Ready,
}

/// The pods of the daemon on all nodes, by name.
#[derive(Clone, Debug, Default)]
pub struct Daemons {
    pods: BTreeMap<Box<str>, DaemonPod>,
}

impl Daemons {
    /// Records a pod that was listed, added or changed. Returns the node if its [`Daemon`] state
    /// changed.
    pub fn apply(&mut self, pod: DaemonPod) -> Option<Box<str>> {
        let node = pod.node.clone();
        let before = self.on(&node);
        self.pods.insert(pod.name.clone(), pod);
        (self.on(&node) != before).then_some(node)
    }

    /// Forgets a pod that is gone. Returns its node if the [`Daemon`] state there changed.
    pub fn remove(&mut self, name: &str) -> Option<Box<str>> {
        let node = self.pods.get(name)?.node.clone();
        let before = self.on(&node);
        self.pods.remove(name);
        (self.on(&node) != before).then_some(node)
    }

    /// Returns true if no node has a pod of the daemon.
    pub fn are_none(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns the state of the daemon on a node: the best of its pods there.
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

/// The state of OpenKruise that a decision about a pod depends on.
#[derive(Clone, Copy, Debug)]
pub struct OpenKruise<'a> {
    /// True once OpenKruise's manager was queried; until then nothing is done.
    pub seen: bool,
    /// The value of `--coexist`.
    pub coexist: Coexist,
    /// The state of its SidecarTerminator.
    pub terminator: Terminator,
    /// Its daemon on the pod's node.
    pub daemon: Daemon,
    /// The request to end the sidecars of the pod, whoever created it.
    pub request: Option<&'a RecreateRequest>,
}

/// The state of a cluster without OpenKruise.
impl Default for OpenKruise<'_> {
    fn default() -> Self {
        Self {
            seen: true,
            coexist: Coexist::default(),
            terminator: Terminator::default(),
            daemon: Daemon::default(),
            request: None,
        }
    }
}

// The feature gates of OpenKruise's manager, as its command line sets them.

/// Returns true if a manager with these flags handles no job that pulls images.
fn pull_jobs_are_off(command_line: &[String]) -> bool {
    let gate = |wanted: &str| gate(command_line, wanted);
    // A gate of pre-downloads switches that of the jobs on (OpenKruise:
    // `features.SetDefaultFeatureGates`).
    let pre_downloads = [
        "PreDownloadImageForInPlaceUpdate",
        "PreDownloadImageForDaemonSetUpdate",
    ]
    .map(|name| gate(name).or_else(|| gate("AllAlpha")));
    gate("KruiseDaemon").or_else(|| gate("AllBeta")) == Some(false)
        || gate("ImagePullJobGate") == Some(false) && !pre_downloads.contains(&Some(true))
}

/// Returns true if these flags of the manager turn the feature gate `SidecarTerminator` on. It is
/// off by default; `AllAlpha` counts where the gate itself is not named; without `KruiseDaemon` it
/// is forced off (OpenKruise: `features.SetDefaultFeatureGates`).
pub fn gate_is_on(command_line: &[String]) -> bool {
    let gate = |wanted: &str| gate(command_line, wanted);
    let daemon = gate("KruiseDaemon")
        .or_else(|| gate("AllBeta"))
        .unwrap_or(true);
    daemon
        && gate("SidecarTerminator")
            .or_else(|| gate("AllAlpha"))
            .unwrap_or(false)
}

/// Returns how these flags set the feature gate; `None` if they do not name it.
fn gate(command_line: &[String], wanted: &str) -> Option<bool> {
    feature_gates(command_line)
        .filter(|(name, _)| *name == wanted)
        .last()
        .map(|(_, on)| on)
}

/// Returns each `name=value` of `--feature-gates=...` or `--feature-gates ...`.
fn feature_gates(command_line: &[String]) -> impl Iterator<Item = (&str, bool)> {
    let after_flag = command_line
        .windows(2)
        .filter(|pair| is_flag(&pair[0]))
        .map(|pair| &*pair[1]);
    let in_flag = command_line
        .iter()
        .filter_map(|word| word.split_once('='))
        .filter(|(name, _)| is_flag(name))
        .map(|(_, value)| value);
    let gates = in_flag.chain(after_flag).flat_map(|gates| gates.split(','));
    // The words for true of Go's `strconv.ParseBool`; anything else is false.
    let is_on = |value: &str| matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    gates
        .filter_map(|gate| gate.split_once('='))
        .map(move |(name, value)| (name.trim(), is_on(value.trim())))
}

fn is_flag(word: &str) -> bool {
    word.trim_start_matches('-') == "feature-gates" && word.starts_with('-')
}
