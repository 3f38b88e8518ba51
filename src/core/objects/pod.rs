//! A pod as it is cached: the fields that decisions need, each container joined with its status by
//! name.

pub mod annotations;
pub mod brief;
pub mod container_spec;
pub mod evidence;
pub mod roles;
pub mod template;
pub(crate) mod view;
pub mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use strum::{EnumString, IntoStaticStr};

use super::job::JobRef;
use super::runs_on::RunsOn;
use super::values::bounds::{self, cut};
use super::values::env::Mark;
use super::values::fields::{self, FromText};
use crate::objects::command::ContainerFacts;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The `status.reason` that the virtual-kubelet library writes when its provider has failed to
/// create or update the pod, with phase Failed under `Never` and Pending elsewhere (`node/pod.go`,
/// handleProviderError).
pub const PROVIDER_FAILED: &str = "ProviderFailed";

/// The label that is `true` where a pod asks virtual nodes of Alibaba for ACS instead of ECI
/// (Alibaba Cloud, "Run Pods on ACS Using Virtual Nodes").
pub const ACS: &str = "alibabacloud.com/acs";
/// The label that sets the class of a pod on ACS, and so asks for it too.
pub const ACS_CLASS: &str = "alibabacloud.com/compute-class";

/// The type of the condition that accompanies a phase written by swaplet or OpenKruise (OpenKruise:
/// `SidecarTerminated`).
pub const PHASE_WRITTEN: &str = "SidecarTerminated";

/// A pod, reduced to what decisions read. About 1 KB for a pod with two containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`: a pod of the same name with another uid is another pod.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`, which every change replaces, whoever makes it; empty if none was
    /// sent.
    pub version: Box<str>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The Job that controls the pod, by `metadata.ownerReferences`.
    pub job: Option<Box<JobRef>>,
    /// The controller of the pod if it is no Job.
    pub owner: Option<Box<Owner>>,
    /// `spec.restartPolicy`
    pub restart_policy: RestartPolicy,
    /// `spec.terminationGracePeriodSeconds`
    pub grace_seconds: Option<u32>,
    /// `spec.nodeName`; empty while the pod is not scheduled.
    pub node: Box<str>,
    /// `status.phase`
    pub phase: Phase,
    /// True if `status.conditions` show that somebody has written the phase: [`PHASE_WRITTEN`].
    pub phase_was_written: bool,
    /// True if it was swaplet, on a kubelet: the pod has [`annotations::FINISHED`] too.
    pub phase_was_ours: bool,
    /// `status.reason`, or else that of the condition `DisruptionTarget`; a virtual-kubelet writes
    /// [`PROVIDER_FAILED`].
    pub reason: Box<str>,
    /// True if the node starts all containers of the pod again: it says so by a condition, or an
    /// init container has ended with a code for which its `restartPolicyRules` want that.
    pub all_restart: bool,
    /// The first native sidecar whose `restartPolicyRules` may start all containers of the pod
    /// again when it ends.
    pub restarter: Option<Box<str>>,
    /// The native sidecar that ended last, which the node starts again, and when it ended.
    pub native_end: Option<Box<NativeEnd>>,
    /// True if the pod asks virtual nodes of Alibaba for ACS instead of ECI: by the label [`ACS`],
    /// or by a class of ACS.
    pub on_acs: bool,
    /// True if the platform under the pod's node ends containers by itself that bear its variable
    /// (`ECI_CONTAINER_TYPE`, on ACS `__IS_SIDECAR__`). Not a field of the pod: it is set from how
    /// the node is recognised.
    pub platform_ends_sidecars: bool,
    /// What the pod's node says of its operating system and processor. Not a field of the pod
    /// either.
    pub node_runs_on: RunsOn,
    /// `spec.containers`, in their order; init and ephemeral containers are not read.
    pub containers: Vec<Container>,
    /// The sum of the restartCounts of `status.initContainerStatuses`, and of statuses that belong
    /// to none of `containers`.
    pub other_restarts: i64,
    /// The seconds by which the clock of the node is behind that of the API server, as far as the
    /// pod shows it: a lower bound.
    pub clock_behind: u32,
    /// The problem with one of the [`annotations`], and the fix.
    pub annotation_problem: Option<Box<str>>,
    /// A rule of the policy that would leave no main container, so that no policy counts for this
    /// pod. Not a field of the pod, like the rules of its containers.
    pub refused_policy: Option<Arc<SidecarRule>>,
    /// A rule of each policy that matches containers of the pod, all of which have another rule
    /// that outranks it.
    pub outranked_policies: Box<[Arc<SidecarRule>]>,
    /// The first field that had a type which Kubernetes does not allow for it.
    pub malformed: Option<&'static str>,
}

/// The controller of a pod, if it is no Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The API group; empty for the core one.
    pub group: Box<str>,
    /// `kind` of the owner reference.
    pub kind: Box<str>,
}

/// The last end of a native sidecar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NativeEnd {
    /// `finishedAt` of the container
    pub finished_at: Option<jiff::Timestamp>,
    /// The name of the container.
    pub name: Box<str>,
}

/// One of `spec.containers` with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// `name`
    pub name: Box<str>,
    /// `image`, as written in the spec.
    pub image: Box<str>,
    /// The container's own `restartPolicy` (Kubernetes 1.34 and later), which outranks the pod's.
    pub restart_policy: Option<RestartPolicy>,
    /// `restartPolicyRules` (Kubernetes 1.34 and later), which may restart it after some exit codes
    /// whatever its policy.
    pub restart_rules: Vec<RestartRule>,
    /// The mark that its environment sets.
    pub mark: Mark,
    /// The rule of an annotation of the pod, or of a policy, about its end. That of a policy is not
    /// a field of the pod: it is set from the known policies.
    pub rule: Option<Arc<SidecarRule>>,
    /// The facts that decide which program an exit image would be started with; for sidecars only.
    pub facts: Option<Box<ContainerFacts>>,
    /// The entry of `status.containerStatuses` with this name, if the node reported one.
    pub status: Option<ContainerStatus>,
}

/// One of the `restartPolicyRules` of a container: after these exit codes the node starts it again,
/// whatever its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartRule {
    /// True if it matches the codes that are not listed (`NotIn`), false if those that are (`In`).
    pub not_in: bool,
    /// The exit codes that it lists.
    pub codes: Vec<i64>,
    /// True if the node then starts all containers of the pod again (`RestartAllContainers`), or if
    /// this version does not know what it does.
    pub restarts_all: bool,
}

/// One of `status.containerStatuses`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerStatus {
    /// `image`, as the runtime reports it; may be spelled differently from the spec, or empty.
    pub image: Box<str>,
    /// The bytes of the image by `imageID`; `None` if the node does not tell.
    pub image_digest: Option<ImageDigest>,
    /// `containerID`; constant on some virtual nodes, or empty.
    pub container_id: Box<str>,
    /// `restartCount`; always 0 on some virtual nodes.
    pub restart_count: i64,
    /// `state`
    pub state: ContainerState,
    /// `lastState.terminated`: the end of the container before this one.
    pub last_end: Option<Box<Terminated>>,
}

/// The first eight bytes of the SHA-256 digest of an image, which is enough to tell images apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageDigest(u64);

impl ImageDigest {
    /// Reads the digest that an image reference, or an `imageID`, ends in; `None` if there is none.
    pub fn of(reference: &str) -> Option<Self> {
        let (_, digits) = reference.rsplit_once("sha256:")?;
        let first = digits.get(..16).filter(|_| digits.len() == 64)?;
        u64::from_str_radix(first, 16).ok().map(Self)
    }
}

/// `state` of a container status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// Not started yet, or waiting for the next start.
    Waiting {
        /// The reason, for example `ImagePullBackOff`.
        reason: Box<str>,
        /// The message of the node.
        message: Box<str>,
    },
    /// Started and not ended.
    Running {
        /// The time by the node's clock.
        started_at: Option<jiff::Timestamp>,
    },
    /// Ended. In a box, as the other states are small and most containers run.
    Terminated(Box<Terminated>),
    /// None of the three members is set, as some providers do for seconds.
    #[default]
    Unreported,
}

/// The end of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Terminated {
    /// The exit code; `None` if the node did not report one, which is not a success.
    pub exit_code: Option<i64>,
    /// The signal that ended it, if the runtime reports one.
    pub signal: Option<i64>,
    /// The reason, for example `Completed`, `Error` or `StartError`.
    pub reason: Box<str>,
    /// The time by the node's clock.
    pub started_at: Option<jiff::Timestamp>,
    /// The time by the node's clock.
    pub finished_at: Option<jiff::Timestamp>,
}

impl Terminated {
    /// Returns true if it ended with an exit code other than 0.
    pub fn has_failed(&self) -> bool {
        self.exit_code.is_some_and(|code| code != 0)
    }
}

/// `status.phase`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumString, IntoStaticStr)]
pub enum Phase {
    /// Not all containers have started, or a provider's update failed under OnFailure.
    Pending,
    /// At least one container runs or will run again.
    Running,
    /// Final: every container ended with 0.
    Succeeded,
    /// Final: the pod has failed.
    Failed,
    /// Unknown or not reported.
    #[default]
    Unknown,
}

impl FromText for Phase {
    fn from_text(text: &str) -> Self {
        text.parse().unwrap_or_default()
    }
}

impl Phase {
    /// Returns the value as the API spells it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns true if the phase is `Succeeded` or `Failed`, which no kubelet reverts.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl Pod {
    /// Returns the sum of the restartCounts of all containers, init containers included.
    pub fn restarts(&self) -> i64 {
        let counts = self
            .containers
            .iter()
            .filter_map(|container| Some(container.status.as_ref()?.restart_count));
        counts.fold(self.other_restarts, i64::saturating_add)
    }
}

impl Container {
    /// Returns the restart policy that the node applies to this container.
    pub fn effective_policy<'a>(&'a self, pod: &'a Pod) -> &'a RestartPolicy {
        self.restart_policy.as_ref().unwrap_or(&pod.restart_policy)
    }

    /// Returns true if a kubelet may not start the container again after an error: one before 1.35
    /// does not know the container's own policy, or its rules (feature gate
    /// `ContainerRestartRules`), and goes by the pod's.
    pub fn may_be_under_never(&self, pod: &Pod) -> bool {
        pod.restart_policy == RestartPolicy::Never
            || self.restart_policy == Some(RestartPolicy::Never)
    }

    /// Returns the exit image that its environment, or else its rule, requests.
    pub fn exit_image_asked(&self) -> Option<&str> {
        let by_rule = || self.rule.as_ref()?.exit_image.as_deref();
        self.mark.with_image.as_deref().or_else(by_rule)
    }

    /// Returns true if the node may restart the container after some exit code, whatever its
    /// policy.
    pub const fn has_restart_rules(&self) -> bool {
        !self.restart_rules.is_empty()
    }

    /// Returns true if the node may start all containers of the pod again, main containers that are
    /// done too, when this one ends.
    pub fn may_restart_all(&self) -> bool {
        self.restart_rules.iter().any(|rule| rule.restarts_all)
    }

    /// Returns true if the container has ended with a code after which the node starts all
    /// containers of the pod again.
    pub fn restarts_all(&self) -> bool {
        let restarts = |code| {
            self.restart_rules
                .iter()
                .any(|rule| rule.restarts_all && rule.may_match(code))
        };
        self.end().is_some_and(|end| restarts(end.exit_code))
    }

    /// Returns whether the node restarts the container after it has ended with this code, or, for
    /// `None`, without a reported code (Kubernetes: `ContainerShouldRestart` in
    /// `pkg/api/v1/pod/util.go`). Returns `None` if the policy is unknown.
    pub fn comes_back_after(&self, pod: &Pod, code: Option<i64>) -> Option<bool> {
        if self.restart_rules.iter().any(|rule| rule.may_match(code)) {
            return Some(true);
        }
        match self.effective_policy(pod) {
            RestartPolicy::Never => Some(false),
            RestartPolicy::OnFailure => Some(code != Some(0)),
            RestartPolicy::Always => Some(true),
            RestartPolicy::Unknown(_) => None,
        }
    }

    /// Returns how the container ended, if the node reports it as ended now.
    pub fn end(&self) -> Option<&Terminated> {
        match &self.status.as_ref()?.state {
            ContainerState::Terminated(end) => Some(end),
            _ => None,
        }
    }
}

impl RestartRule {
    /// Returns the rule that stands for one whose codes cannot be read: it may apply to any code.
    pub(crate) const fn after_any_code(restarts_all: bool) -> Self {
        Self {
            not_in: true,
            codes: Vec::new(),
            restarts_all,
        }
    }

    /// Returns true if the rule may match this code; a code that the node does not report may
    /// match.
    pub(crate) fn may_match(&self, code: Option<i64>) -> bool {
        code.is_none_or(|code| self.codes.contains(&code) != self.not_in)
    }
}

// The restart policy of pods and containers.

/// `restartPolicy` of a pod or of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// The kubelet restarts the container after every end.
    Always,
    /// The kubelet restarts it after exit codes other than 0.
    OnFailure,
    /// The kubelet does not restart it.
    Never,
    /// A value that this version does not know, or none (empty): nothing is assumed about it.
    Unknown(Box<str>),
}

impl RestartPolicy {
    /// Returns the value as the API spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Always => "Always",
            Self::OnFailure => "OnFailure",
            Self::Never => "Never",
            Self::Unknown(word) => word,
        }
    }
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self::Unknown(Box::default())
    }
}

impl FromText for RestartPolicy {
    fn from_text(text: &str) -> Self {
        match text {
            "Always" => Self::Always,
            "OnFailure" => Self::OnFailure,
            "Never" => Self::Never,
            _ => Self::Unknown(cut(text, bounds::TEXT).into()),
        }
    }
}

impl<'de> Deserialize<'de> for RestartPolicy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        fields::text(from)
    }
}

// The readiness gate by which OpenKruise, and controllers like it, keep a pod not ready: a
// condition of the pod that has several users at once, whose entries are a JSON list in its
// message (OpenKruise: `pkg/util/podreadiness`).

/// The gate, and the type of its condition.
pub const KRUISE_POD_READY: &str = "KruisePodReady";
/// The `userAgent` of a request's entry.
const USER_AGENT: &str = "ContainerRecreateRequest";

/// The readiness of a pod that has the gate [`KRUISE_POD_READY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodReadiness {
    /// The condition of the gate; `None` if it is not set, and the pod is not ready.
    pub gate: Option<GateCondition>,
    /// True if the condition `Ready` is `True`.
    pub is_ready: bool,
}

/// The condition of the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GateCondition {
    /// True if its status is `True`.
    pub is_true: bool,
    /// Its message: the entries of all users that keep the pod not ready.
    pub message: Box<str>,
}

/// The entry of a user that keeps the pod not ready. Unknown fields are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    user_agent: String,
    key: String,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

impl Entry {
    fn is_of(&self, request: &str) -> bool {
        self.user_agent == USER_AGENT && self.key == request
    }
}

impl PodReadiness {
    /// Returns the condition with an entry of this request (namespace/name) and status `False`.
    /// `None` if it is so already, or if the message of a condition that is not `True` is no list:
    /// then somebody else keeps the pod not ready, and would be forgotten.
    pub fn kept_by(&self, request: &str) -> Option<GateCondition> {
        let GateCondition { is_true, message } = self.gate.clone().unwrap_or_default();
        let mut entries = entries(&message).or_else(|| is_true.then(Vec::new))?;
        if !entries.iter().any(|entry| entry.is_of(request)) {
            entries.push(Entry {
                user_agent: USER_AGENT.to_owned(),
                key: request.to_owned(),
                more: BTreeMap::new(),
            });
        } else if !is_true {
            return None;
        }
        Some(GateCondition {
            is_true: false,
            message: text(entries),
        })
    }

    /// Returns the condition without the entry of this request; `True` if that was the last one.
    /// `None` if it has no such entry.
    pub fn left_by(&self, request: &str) -> Option<GateCondition> {
        let gate = self.gate.as_ref()?;
        let before = entries(&gate.message)?;
        let entries: Vec<_> = before
            .iter()
            .filter(|entry| !entry.is_of(request))
            .cloned()
            .collect();
        let is_left = entries.len() < before.len();
        is_left.then(|| GateCondition {
            is_true: gate.is_true || entries.is_empty(),
            message: text(entries),
        })
    }
}

fn entries(message: &str) -> Option<Vec<Entry>> {
    if message.is_empty() {
        Some(Vec::new())
    } else {
        serde_json::from_str(message).ok()
    }
}

/// Formats the entries sorted by user and key, as OpenKruise writes them.
fn text(mut entries: Vec<Entry>) -> Box<str> {
    entries.sort_by(|one, other| (&one.user_agent, &one.key).cmp(&(&other.user_agent, &other.key)));
    serde_json::to_string(&entries).unwrap_or_default().into()
}

// Rules about the end of a container, from a SidecarPolicy or an annotation of its pod.

/// The way in which a container that is no main container is ended, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarRule {
    /// The origin of the rule.
    pub source: RuleSource,
    /// The method that ends the container.
    pub method: RuleMethod,
    /// The exit image that it requests; only an image that the administrator has listed is used.
    pub exit_image: Option<Box<str>>,
    /// The delay after the end of the main containers before which nothing is done.
    pub delay: Duration,
    /// The time after that delay in which it may end by itself.
    pub wait_for_exit: Duration,
    /// The order: lower numbers are ended first, equal numbers together.
    pub order: i32,
    /// True if the container counts as a main container once a main container has failed.
    pub main_must_succeed: bool,
}

/// The origin of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSource {
    /// An annotation of the pod.
    Annotation,
    /// A rule of a policy.
    Policy(PolicyRule),
}

/// One of the rules of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The namespace of a NamespacedSidecarPolicy; `None` for a SidecarPolicy.
    pub namespace: Option<Box<str>>,
    /// The name of the policy.
    pub name: Box<str>,
    /// Its position in `spec.sidecars`, from 0 on.
    pub nth: usize,
    /// The preset that it names, if any.
    pub preset: Option<Box<str>>,
}

/// `method` of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, strum::Display)]
pub enum RuleMethod {
    /// The methods of the node's class, as for a container that is marked by its environment.
    #[default]
    Auto,
    /// The image is swapped; the phase of the pod is not written for it.
    Swap,
    /// The phase of the pod is written, after all others have ended.
    Finish,
    /// It is neither ended nor waited for.
    Leave,
}

impl SidecarRule {
    /// Returns the rule that changes nothing about how a sidecar is ended.
    pub const fn of(source: RuleSource) -> Self {
        Self {
            source,
            method: RuleMethod::Auto,
            exit_image: None,
            delay: Duration::ZERO,
            wait_for_exit: Duration::ZERO,
            order: 0,
            main_must_succeed: false,
        }
    }

    /// Returns how long after the end of the main containers its container is ended.
    pub const fn after(&self) -> Duration {
        self.delay.saturating_add(self.wait_for_exit)
    }

    /// Returns the policy rule that it comes from; `None` for an annotation.
    pub const fn policy(&self) -> Option<&PolicyRule> {
        match &self.source {
            RuleSource::Policy(policy) => Some(policy),
            RuleSource::Annotation => None,
        }
    }
}

/// Formats the origin, and the settings that are not the default.
impl fmt::Display for SidecarRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(out)?;
        if self.method != RuleMethod::Auto {
            write!(out, ", method {}", self.method)?;
        }
        if self.order != 0 {
            write!(out, ", order {}", self.order)?;
        }
        if !self.delay.is_zero() {
            write!(out, ", delay {} s", self.delay.as_secs())?;
        }
        if !self.wait_for_exit.is_zero() {
            let seconds = self.wait_for_exit.as_secs();
            write!(out, ", may end by itself for {seconds} s")?;
        }
        if self.main_must_succeed {
            out.write_str(", if every main container succeeds")?;
        }
        Ok(())
    }
}

impl fmt::Display for RuleSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation => out.write_str("annotations of the pod"),
            Self::Policy(policy) => policy.fmt(out),
        }
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            nth,
            preset,
        } = self;
        match namespace {
            Some(namespace) => write!(out, "NamespacedSidecarPolicy {namespace}/{name}")?,
            None => write!(out, "SidecarPolicy {name}")?,
        }
        write!(out, ", sidecars[{nth}]")?;
        preset
            .iter()
            .try_for_each(|preset| write!(out, " (preset {preset})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = r#"{"userAgent":"ContainerRecreateRequest","key":"ns/r"}"#;

    fn readiness(is_true: bool, message: &str) -> PodReadiness {
        PodReadiness {
            gate: Some(GateCondition {
                is_true,
                message: message.into(),
            }),
            is_ready: is_true,
        }
    }

    fn condition(is_true: bool, entries: &[&str]) -> Option<GateCondition> {
        Some(GateCondition {
            is_true,
            message: format!("[{}]", entries.join(",")).into(),
        })
    }

    #[test]
    fn an_entry_is_added_to_those_of_others_and_taken_away_again() {
        let before = r#"{"userAgent":"Lifecycle","key":"x"}"#;
        let first = r#"{"userAgent":"Alpha","key":"z","since":1}"#;
        let others = readiness(false, &format!("[{before},{first}]"));
        let kept = others.kept_by("ns/r");
        assert_eq!(
            kept,
            condition(false, &[first, OURS, before]),
            "sorted by user"
        );
        let kept = PodReadiness {
            gate: kept,
            is_ready: false,
        };
        assert_eq!(kept.kept_by("ns/r"), None, "it is there");
        assert_eq!(kept.left_by("ns/r"), condition(false, &[first, before]));
        assert_eq!(kept.left_by("ns/other"), None);
        assert_eq!(others.left_by("ns/r"), None);
    }

    #[test]
    fn the_last_entry_that_leaves_makes_the_gate_true() {
        for message in ["", "[]"] {
            let kept = readiness(true, message).kept_by("ns/r");
            assert_eq!(kept, condition(false, &[OURS]));
            assert_eq!(
                PodReadiness {
                    gate: kept,
                    is_ready: false
                }
                .left_by("ns/r"),
                condition(true, &[])
            );
        }
        assert_eq!(
            PodReadiness::default().kept_by("ns/r"),
            condition(false, &[OURS]),
            "nobody has set it"
        );
        assert_eq!(PodReadiness::default().left_by("ns/r"), None);
        assert_eq!(
            readiness(true, &format!("[{OURS}]")).kept_by("ns/r"),
            condition(false, &[OURS]),
            "it did not count"
        );
    }

    #[test]
    fn what_is_no_list_of_entries_is_left_as_it_is() {
        for strange in ["drained by hand", "{}", "[1]", "[{\"key\":1}]"] {
            assert_eq!(
                readiness(true, strange).kept_by("ns/r"),
                condition(false, &[OURS]),
                "it keeps nobody"
            );
            let strange = readiness(false, strange);
            assert_eq!(
                (strange.kept_by("ns/r"), strange.left_by("ns/r")),
                (None, None)
            );
        }
    }
}
