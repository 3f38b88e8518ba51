//! OpenKruise's `ContainerRecreateRequest` as swaplet reads it to carry it out: the containers to
//! restart, the progress, and the journal that is recorded before each step. Read as `v1alpha1`,
//! which every release serves.

mod journal;
mod new;
pub mod place;
mod wire;

use crate::objects::recreate_request::{RecreateRequest, RequestPhase};
pub use journal::{Intent, JOURNAL, Journal, Mark, Parking};
pub use new::{RequestedPod, new_request, request_name};
pub use wire::RestartRequestWire;

/// The label that holds the uid of the pod that a request is for.
pub const POD_UID: &str = "crr.apps.kruise.io/pod-uid";
/// The label that holds the name of the pod's node.
pub const NODE_NAME: &str = "crr.apps.kruise.io/node-name";
/// The label of a request that is not completed.
pub const ACTIVE: &str = "crr.apps.kruise.io/active";
/// The annotation that holds the time since when the pod is kept not ready for
/// `unreadyGracePeriodSeconds`. Also the finalizer of a request whose entry in the pod's readiness
/// has to be removed before the request is gone. OpenKruise, too, uses one string for both.
pub const UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
/// The label by which OpenKruise 1.9 marks requests for pods on virtual nodes, whose vendor may
/// carry them out.
pub const NODE_TYPE: &str = "type";
/// The value of [`NODE_TYPE`] for a virtual node.
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
    /// `metadata.resourceVersion`: swaplet writes to this version only.
    pub version: Box<str>,
    /// `metadata.creationTimestamp`, by the API server's clock.
    pub created_at: Option<jiff::Timestamp>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The label [`POD_UID`].
    pub pod_uid: Option<Box<str>>,
    /// The label [`NODE_NAME`]; empty if it is missing.
    pub node: Box<str>,
    /// True if the label [`ACTIVE`] is set.
    pub active: bool,
    /// True if the label [`NODE_TYPE`] marks the node as virtual.
    pub on_virtual_node: bool,
    /// The annotation [`JOURNAL`]; `None` if it is missing, or cannot have been written by swaplet
    /// ([`Journal::is_taken_up`]).
    pub journal: Option<Journal>,
    /// `metadata.finalizers`
    pub finalizers: Vec<Box<str>>,
    /// The annotation [`UNREADY_ACQUIRED`].
    pub unready_acquired: Option<Box<str>>,
    /// The annotation [`RESTART_ON`](super::on_config::annotation::RESTART_ON): the changed
    /// configuration that the containers are restarted for.
    pub restart_on: Option<Box<str>>,
    /// `spec.podName`
    pub pod_name: Box<str>,
    /// `spec.containers`, in the order of the request.
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
    /// True if `statusContext` is set.
    pub has_context: bool,
}

/// `spec.strategy`
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// True if `failurePolicy` is `Ignore`: the other containers are restarted even if one restart
    /// fails.
    pub ignores_failures: bool,
    /// `orderedRecreate`
    pub ordered: bool,
    /// `forceRecreate`
    pub force: bool,
    /// `terminationGracePeriodSeconds`
    pub grace_seconds: Option<u32>,
    /// `unreadyGracePeriodSeconds`
    pub unready_seconds: Option<u32>,
    /// `minStartedSeconds`; 0 if absent or negative.
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

/// The `phase` of a container in the status of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StatePhase {
    /// The container waits for its turn.
    #[default]
    Pending,
    /// The container is being restarted.
    Recreating,
    /// The container was restarted and is ready.
    Succeeded,
    /// The container was not restarted, or the outcome is unknown.
    Failed,
}

impl StatePhase {
    /// Returns the value that the API uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Recreating => "Recreating",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// Returns true for a phase that never changes again.
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
    /// Returns true if the request makes OpenKruise's daemon end sidecars. Such requests are left
    /// to the daemon, where there is one.
    #[must_use]
    pub fn ends_sidecars(&self) -> bool {
        RecreateRequest::is_name_of_one(&self.name)
    }

    /// Returns true if the request is completed: no container is restarted for it any more.
    #[must_use]
    pub const fn is_completed(&self) -> bool {
        matches!(self.phase, RequestPhase::Completed) || self.completed_at.is_some()
    }

    /// Returns the state of a container; `Pending` if the status has no entry for it.
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

    /// Returns the states of all containers of the request, in its order.
    pub(crate) fn wanted_states(&self) -> impl Iterator<Item = RecreateState> {
        self.containers
            .iter()
            .map(|wanted| self.state(&wanted.name))
    }

    /// Returns true if another controller, OpenKruise's daemon or a vendor, works on the request:
    /// it is `Recreating` and has no journal.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.phase == RequestPhase::Recreating && self.journal.is_none()
    }

    /// Returns true if the pod may have been changed for this request.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.journal
            .iter()
            .flat_map(|journal| journal.0.values())
            .any(|mark| mark.intent.is_some())
    }

    /// Returns the journal entry of a container; `None` if there is none.
    #[must_use]
    pub fn mark(&self, container: &str) -> Option<&Mark> {
        self.journal.as_ref()?.0.get(container)
    }

    /// Returns true if the finalizer [`UNREADY_ACQUIRED`] keeps the request until its effects in
    /// the pod are undone.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| **finalizer == *UNREADY_ACQUIRED)
    }
}
