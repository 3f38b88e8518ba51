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

pub use self::gates::gate_is_on;
use self::gates::pull_jobs_are_off;
use std::collections::BTreeMap;
use std::time::Duration;

use super::Unended;
use super::circumstances::Circumstances;
use super::memory::Memory;
use super::memory::past_exits::PastExits;
use crate::cluster::daemon_pod::DaemonPod;
use crate::objects::pod::{Container, Phase, Pod};
use crate::objects::recreate_request::{RecreateRequest, RequestPhase};
use crate::objects::values::env::{WHEN_JOB_EXIT, WITH_IMAGE};
use crate::report::decision::{Decision, Report};
use crate::report::reason::Reason;

/// How long a pod whose main containers are done stays Pending until OpenKruise is not expected to
/// see it in another phase: an image that is still being pulled passes.
const STAYS_PENDING: Duration = Duration::from_secs(60);

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

/// Whether the pod is left to OpenKruise, and what to tell about that. A pod in which swaplet has
/// acted stays its own.
pub(crate) fn left(
    pod: &Pod,
    unended: &[Unended<'_>],
    memory: &Memory,
    around: &Circumstances<'_>,
) -> Option<Decision> {
    let OpenKruise {
        seen,
        coexist,
        terminator,
        ..
    } = around.openkruise;
    if memory.has_acted() {
        return None;
    }
    if !seen {
        return Some(Decision::quiet(Reason::OpenKruiseUnseen));
    }
    match (coexist, terminator) {
        (Coexist::Own, _) | (_, Terminator::Absent) | (Coexist::Auto, Terminator::Off) => None,
        (Coexist::Defer, _) => Some(left_because(
            "--coexist=defer leaves every pod to OpenKruise while its manager is there",
        )),
        (Coexist::Auto, Terminator::Unknown) => Some(unclear()),
        (Coexist::Auto, Terminator::On) => acts_on(pod, unended, memory, around),
    }
}

fn left_because(why: &str) -> Decision {
    Decision::tell(
        Reason::LeftToOpenKruise,
        format!("main containers are done; {why}"),
    )
}

fn unclear() -> Decision {
    let note = "OpenKruise is installed, and whether its SidecarTerminator is on cannot be seen: allow swaplet to read its Deployment \
        (deploy/openkruise.yaml), or say who ends sidecars with --coexist=own or --coexist=defer";
    Decision::tell(Reason::OpenKruiseUnclear, note.to_owned())
}

/// Its SidecarTerminator is on: does it act on this pod, and on all of its sidecars?
fn acts_on(
    pod: &Pod,
    unended: &[Unended<'_>],
    memory: &Memory,
    around: &Circumstances<'_>,
) -> Option<Decision> {
    let OpenKruise {
        daemon, request, ..
    } = around.openkruise;
    let labelled_virtual = around.facts.labelled_virtual;
    if !labelled_virtual && daemon == Daemon::None {
        // It makes a request, and nobody ever carries it out.
        return None;
    }
    if unended
        .iter()
        .any(|(_, sidecar)| !sidecar.mark.is_sidecar())
    {
        // To OpenKruise that is a main container, which runs: it waits for it.
        return None;
    }
    if pod.phase == Phase::Pending {
        return while_pending(memory, around);
    }
    let (acts, leaves): (Vec<_>, Vec<_>) = unended
        .iter()
        .map(|(_, sidecar)| *sidecar)
        .partition(|sidecar| is_marked(sidecar, labelled_virtual));
    if acts.is_empty() {
        return None;
    }
    let ignored =
        ignored(&leaves, labelled_virtual).filter(|_| !ends_the_pod(&acts, labelled_virtual));
    let incomplete = ignored.or_else(|| given_up(&acts, request));
    Some(incomplete.map_or_else(
        || left_because("OpenKruise's SidecarTerminator is on, and ends the sidecars of this pod"),
        |report| Decision {
            reports: vec![report],
            ..Decision::quiet(Reason::OpenKruiseIncomplete)
        },
    ))
}

/// On a virtual node OpenKruise acts on sidecars that name an image, on all others on those with
/// the plain mark.
const fn is_marked(sidecar: &Container, labelled_virtual: bool) -> bool {
    if labelled_virtual {
        sidecar.mark.with_image.is_some()
    } else {
        sidecar.mark.when_job_exit
    }
}

/// OpenKruise does not act while a pod is Pending; but a phase may pass.
fn while_pending(memory: &Memory, around: &Circumstances<'_>) -> Option<Decision> {
    let until = memory.mains_done_at.unwrap_or(around.now) + STAYS_PENDING;
    (around.now < until).then(|| Decision::later(Reason::LeftToOpenKruise, until))
}

/// On ordinary nodes a sidecar whose exit code is to be ignored has the whole pod ended, by its
/// phase.
fn ends_the_pod(acts: &[&Container], labelled_virtual: bool) -> bool {
    !labelled_virtual && acts.iter().any(|sidecar| sidecar.mark.ignores_exit_code())
}

/// It acts on some sidecars of the pod and leaves others, which keep the pod from ending.
fn ignored(leaves: &[&Container], labelled_virtual: bool) -> Option<Report> {
    let names = leaves
        .iter()
        .map(|sidecar| &*sidecar.name)
        .collect::<Vec<_>>()
        .join(", ");
    let (node, mark) = if labelled_virtual {
        ("virtual", WITH_IMAGE)
    } else {
        ("ordinary", WHEN_JOB_EXIT)
    };
    (!leaves.is_empty()).then(|| Report {
        reason: Reason::OpenKruiseIncomplete,
        note: format!(
            "OpenKruise's SidecarTerminator acts on this pod, but not on {names}, which on {node} nodes need {mark}: add it, or switch \
             the SidecarTerminator off and run swaplet with --coexist=own"
        ),
    })
}

/// Its request is over, and a sidecar runs, or runs again: it does not try twice.
fn given_up(acts: &[&Container], request: Option<&RecreateRequest>) -> Option<Report> {
    let request = request.filter(|request| request.phase == RequestPhase::Completed)?;
    let (sidecar, recreated) = acts
        .iter()
        .find_map(|sidecar| Some((sidecar, request.container(&sidecar.name)?)))?;
    let words = [&*request.message, &*recreated.message]
        .into_iter()
        .find(|words| !words.is_empty());
    let words = words.unwrap_or("the kubelet has started it again after an exit code other than 0");
    Some(Report {
        reason: Reason::OpenKruiseIncomplete,
        note: format!(
            "OpenKruise's request {} is over and container {} has not ended ({words}); OpenKruise does not try again: switch its \
             SidecarTerminator off and run swaplet with --coexist=own",
            RecreateRequest::name_for(&request.pod_uid),
            sidecar.name
        ),
    })
}
