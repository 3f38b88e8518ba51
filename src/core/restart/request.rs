//! OpenKruise's `ContainerRecreateRequest` as the one who carries it out reads it: what is asked
//! for, how far it is, and what was written down before each step. Read as `v1alpha1`, which every
//! release serves.

mod journal;
mod new;
pub mod place;
mod wire;

use crate::objects::recreate_request::{RecreateRequest, RequestPhase};
pub use journal::{Intent, JOURNAL, Journal, Mark, Parking};
pub use new::{RequestedPod, new_request, request_name};
pub use wire::RestartRequestWire;

/// The label that says which pod, by its uid, a request is for.
pub const POD_UID: &str = "crr.apps.kruise.io/pod-uid";
/// The label that says on which node the pod is.
pub const NODE_NAME: &str = "crr.apps.kruise.io/node-name";
/// The label of a request that is not completed.
pub const ACTIVE: &str = "crr.apps.kruise.io/active";
/// The annotation that says since when the pod is kept not ready for `unreadyGracePeriodSeconds`,
/// and the finalizer of a request whose entry in the pod's readiness is to be taken away before the
/// request is gone: one string in OpenKruise, too.
pub const UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
/// The label by which OpenKruise 1.9 says that the pod's node is a virtual one, whose vendor may
/// carry requests out.
pub const NODE_TYPE: &str = "type";
/// The value of [`NODE_TYPE`].
pub const VIRTUAL_KUBELET: &str = "virtual-kubelet";

/// A request to restart containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RestartRequest {
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.resourceVersion`: writes of ours are made to this version only.
    pub version: Box<str>,
    /// `metadata.creationTimestamp`, by the API server's clock.
    pub created_at: Option<jiff::Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The label [`POD_UID`].
    pub pod_uid: Option<Box<str>>,
    /// The label [`NODE_NAME`]; empty where it is not there.
    pub node: Box<str>,
    /// Whether the label [`ACTIVE`] is there.
    pub active: bool,
    /// Whether the label [`NODE_TYPE`] says that the node is a virtual one.
    pub on_virtual_node: bool,
    /// The annotation [`JOURNAL`]; `None` where it is not there, or nothing that swaplet has
    /// written ([`Journal::is_taken_up`]).
    pub journal: Option<Journal>,
    /// `metadata.finalizers`
    pub finalizers: Vec<Box<str>>,
    /// The annotation [`UNREADY_ACQUIRED`].
    pub unready_acquired: Option<Box<str>>,
    /// The annotation [`RESTART_ON`](super::on_config::annotation::RESTART_ON): what the containers
    /// are restarted for, where their configuration has changed.
    pub restart_on: Option<Box<str>>,
    /// `spec.podName`
    pub pod_name: Box<str>,
    /// `spec.containers`, in their order.
    pub containers: Vec<Wanted>,
    /// `spec.strategy`
    pub strategy: Strategy,
    /// `spec.activeDeadlineSeconds`
    pub active_deadline_seconds: Option<u32>,
    /// `spec.ttlSecondsAfterFinished`
    pub ttl_seconds: Option<u32>,
    /// `status.phase`
    pub phase: RequestPhase,
    /// `status.message`
    pub message: Box<str>,
    /// `status.completionTime`
    pub completed_at: Option<jiff::Timestamp>,
    /// `status.containerRecreateStates`
    pub states: Vec<RecreateState>,
}

/// One of `spec.containers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// `name`
    pub name: Box<str>,
    /// Whether `statusContext` is filled in.
    pub has_context: bool,
}

/// `spec.strategy`
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// Whether `failurePolicy` is `Ignore`: the others are restarted although one could not be.
    pub ignores_failures: bool,
    /// `orderedRecreate`
    pub ordered: bool,
    /// `forceRecreate`
    pub force: bool,
    /// `terminationGracePeriodSeconds`
    pub grace_seconds: Option<u32>,
    /// `unreadyGracePeriodSeconds`
    pub unready_seconds: Option<u32>,
    /// `minStartedSeconds`; none, or a negative one, is 0.
    pub min_started_seconds: u32,
}

/// One of `status.containerRecreateStates`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecreateState {
    /// `name`
    pub name: Box<str>,
    /// `phase`
    pub phase: StatePhase,
    /// `message`
    pub message: Box<str>,
    /// `isKilled`
    pub killed: bool,
}

/// `phase` of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StatePhase {
    /// It waits for its turn.
    #[default]
    Pending,
    /// It is being restarted.
    Recreating,
    /// It was restarted and is ready.
    Succeeded,
    /// It was not restarted, or nobody knows.
    Failed,
}

impl StatePhase {
    /// The word of the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Recreating => "Recreating",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// Whether it never changes again.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    fn read(text: Option<&str>) -> Self {
        match text {
            Some("Recreating") => Self::Recreating,
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => Self::Failed,
            _ => Self::Pending,
        }
    }
}

impl RestartRequest {
    /// Whether it is one of those that ask OpenKruise's daemon to end sidecars: those are not for
    /// anybody else.
    #[must_use]
    pub fn ends_sidecars(&self) -> bool {
        RecreateRequest::is_name_of_one(&self.name)
    }

    /// Whether nothing is done for it any more.
    #[must_use]
    pub const fn is_completed(&self) -> bool {
        matches!(self.phase, RequestPhase::Completed) || self.completed_at.is_some()
    }

    /// The state of a container; `Pending` where the status does not tell.
    #[must_use]
    pub fn state(&self, container: &str) -> RecreateState {
        let known = self
            .states
            .iter()
            .find(|state| &*state.name == container)
            .cloned();
        known.unwrap_or_else(|| RecreateState {
            name: container.into(),
            ..RecreateState::default()
        })
    }

    /// The states of all its containers, in its order.
    pub(crate) fn wanted_states(&self) -> impl Iterator<Item = RecreateState> {
        self.containers
            .iter()
            .map(|wanted| self.state(&wanted.name))
    }

    /// Whether somebody works on it who has written nothing down: OpenKruise's daemon, or a vendor.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.phase == RequestPhase::Recreating && self.journal.is_none()
    }

    /// Whether something may have been done to the pod.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.journal
            .iter()
            .flat_map(|journal| journal.0.values())
            .any(|mark| mark.intent.is_some())
    }

    /// What was written down about a container.
    #[must_use]
    pub fn mark(&self, container: &str) -> Option<&Mark> {
        self.journal.as_ref()?.0.get(container)
    }

    /// Whether a finalizer keeps it until what it has begun in its pod is over.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| **finalizer == *UNREADY_ACQUIRED)
    }
}
