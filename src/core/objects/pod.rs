//! A pod as it is cached: the fields that decisions need, each container joined with its status by
//! name.

pub mod annotations;
pub mod brief;
pub mod container_spec;
pub mod evidence;
pub mod readiness;
pub mod restart_policy;
pub mod roles;
pub mod rule;
pub mod template;
pub(crate) mod view;
pub mod wire;

use std::sync::Arc;

pub use self::restart_policy::RestartPolicy;
use self::rule::SidecarRule;
use super::job::JobRef;
use super::runs_on::RunsOn;
use super::values::env::Mark;
use super::values::lenient::Shape;
use crate::objects::command::ContainerFacts;

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
    /// `status.reason`, or else that of the condition `DisruptionTarget`; a virtual-kubelet writes
    /// [`PROVIDER_FAILED`].
    pub reason: Box<str>,
    /// True if the node starts all containers of the pod again: it says so by a condition, or an
    /// init container has ended with a code for which its `restartPolicyRules` want that.
    pub all_restart: bool,
    /// The first native sidecar whose `restartPolicyRules` may start all containers of the pod
    /// again when it ends.
    pub restarter: Option<Box<str>>,
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
    #[must_use]
    pub fn of(reference: &str) -> Option<Self> {
        let (_, digits) = reference.rsplit_once("sha256:")?;
        let first = digits.get(..16).filter(|_| digits.len() == 64)?;
        u64::from_str_radix(first, 16).ok().map(Self)
    }
}

/// `state` of a container status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// `status.phase`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

impl Shape for Phase {
    fn from_text(text: &str, _: usize) -> Option<Self> {
        let known = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed];
        let found = known.into_iter().find(|phase| phase.as_str() == text);
        Some(found.unwrap_or_default())
    }
}

impl Phase {
    /// Returns the value as the API spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }

    /// Returns true if the phase is `Succeeded` or `Failed`, which no kubelet reverts.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl Pod {
    /// Returns the sum of the restartCounts of all containers, init containers included.
    #[must_use]
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
    #[must_use]
    pub fn effective_policy<'a>(&'a self, pod: &'a Pod) -> &'a RestartPolicy {
        self.restart_policy.as_ref().unwrap_or(&pod.restart_policy)
    }

    /// Returns the exit image that its environment, or else its rule, requests.
    #[must_use]
    pub fn exit_image_asked(&self) -> Option<&str> {
        let by_rule = || self.rule.as_ref()?.exit_image.as_deref();
        self.mark.with_image.as_deref().or_else(by_rule)
    }

    /// Returns true if the node may restart the container after some exit code, whatever its
    /// policy.
    #[must_use]
    pub const fn has_restart_rules(&self) -> bool {
        !self.restart_rules.is_empty()
    }

    /// Returns true if the node may start all containers of the pod again, main containers that are
    /// done too, when this one ends.
    #[must_use]
    pub fn may_restart_all(&self) -> bool {
        self.restart_rules.iter().any(|rule| rule.restarts_all)
    }

    /// Returns true if the container has ended with a code after which the node starts all
    /// containers of the pod again.
    #[must_use]
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
    #[must_use]
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
    #[must_use]
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
    fn may_match(&self, code: Option<i64>) -> bool {
        code.is_none_or(|code| self.codes.contains(&code) != self.not_in)
    }
}
