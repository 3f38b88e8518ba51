//! OpenKruise's `ContainerRecreateRequest` as swaplet reads it to carry it out: the containers to
//! restart, the progress, and the journal that is recorded before each step. Read as `v1alpha1`,
//! which every release serves.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use strum::{EnumString, IntoStaticStr};

use crate::objects::item::{FromView, Item, View};
use crate::objects::pod::{ContainerState, ContainerStatus};
use crate::objects::recreate_request::{
    GROUP, KIND, RecreateRequest, RequestKind, RequestPhase, RequestSpec, RequestStatus, StateView,
    StrategyView, VERSION, WantedView,
};
use crate::objects::values::bounds;
use crate::objects::values::short_digest::short_digest;
use crate::restart::on_config::annotation::RESTART_ON;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct RecreateState {
    /// `name`
    pub name: Box<str>,
    /// `phase`
    pub phase: StatePhase,
    /// `message`
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Box<str>,
    /// `isKilled`
    #[serde(rename = "isKilled", skip_serializing_if = "std::ops::Not::not")]
    pub killed: bool,
}

/// The `phase` of a container in the status of a request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, EnumString, IntoStaticStr,
)]
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
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns true for a phase that never changes again.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl RestartRequest {
    /// Returns true if the request makes OpenKruise's daemon end sidecars. Such requests are left
    /// to the daemon, where there is one.
    pub fn ends_sidecars(&self) -> bool {
        RecreateRequest::is_name_of_one(&self.name)
    }

    /// Returns true if the request is completed: no container is restarted for it any more.
    pub const fn is_completed(&self) -> bool {
        matches!(self.phase, RequestPhase::Completed) || self.completed_at.is_some()
    }

    /// Returns the state of a container; `Pending` if the status has no entry for it.
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
    pub fn is_taken(&self) -> bool {
        self.phase == RequestPhase::Recreating && self.journal.is_none()
    }

    /// Returns true if the pod may have been changed for this request.
    pub fn has_begun(&self) -> bool {
        self.journal
            .iter()
            .flat_map(|journal| journal.0.values())
            .any(|mark| mark.intent.is_some())
    }

    /// Returns the journal entry of a container; `None` if there is none.
    pub fn mark(&self, container: &str) -> Option<&Mark> {
        self.journal.as_ref()?.0.get(container)
    }

    /// Returns true if the finalizer [`UNREADY_ACQUIRED`] keeps the request until its effects in
    /// the pod are undone.
    pub fn is_held_back(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| **finalizer == *UNREADY_ACQUIRED)
    }
}

// The order of requests for the same pod: they are carried out one after another.

/// The place of a request in the queue of its pod: a request that has begun comes first, then the
/// oldest, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// True until the phase is `Recreating`.
    pub waits: bool,
    created_at: Option<jiff::Timestamp>,
    /// The name of the request.
    pub name: Box<str>,
}

impl Place {
    /// Returns the place of a request; `None` if it blocks no other: it is completed, ends
    /// sidecars, or is being deleted and not held back by the finalizer.
    pub fn of(request: &RestartRequest) -> Option<Self> {
        let is_gone = request.deleting && !request.is_held_back();
        let is_over = request.is_completed() || is_gone || request.ends_sidecars();
        let waits = request.phase != RequestPhase::Recreating;
        (!is_over).then(|| Self {
            waits,
            created_at: request.created_at,
            name: request.name.clone(),
        })
    }
}

// Construction of new requests.

/// The most characters of a pod's name that are used in the name of its request.
const MOST_OF_A_NAME: usize = 220;
/// Bytes of the digest in the name: enough that no two requests of a pod collide.
const DIGEST: usize = 5;

/// The pod that a request is for.
#[derive(Clone, Copy, Debug)]
pub struct RequestedPod<'a> {
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The name of the pod.
    pub name: &'a str,
    /// The uid of the pod.
    pub uid: &'a str,
    /// The name of the pod's node.
    pub node: &'a str,
}

/// Returns a name for a request: the pod's name, cut if necessary, `word`, and a digest of `what`.
pub fn request_name(pod: &str, word: &str, what: &str) -> String {
    let name: String = pod.chars().take(MOST_OF_A_NAME).collect();
    format!(
        "{}-{word}-{}",
        name.trim_end_matches(['-', '.']),
        short_digest(what, DIGEST)
    )
}

/// Builds a request for a pod, with the labels that OpenKruise's webhook sets. So it applies to
/// this pod and to no later one of the same name, and it is garbage-collected with the pod.
pub fn new_request<'a>(
    name: &str,
    pod: RequestedPod<'_>,
    containers: impl Iterator<Item = &'a str>,
) -> Value {
    let containers: Vec<_> = containers
        .map(|container| json!({"name": container}))
        .collect();
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": KIND,
        "metadata": {
            "namespace": pod.namespace,
            "name": name,
            "labels": {POD_UID: pod.uid, NODE_NAME: pod.node, ACTIVE: "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
        },
        "spec": {"podName": pod.name, "containers": containers},
    })
}

// The journal of a request: each change of the pod is recorded in it before it is made, so that a
// new run of the process knows what an earlier one may have done.

/// The annotation of a request that holds its [`Journal`].
pub const JOURNAL: &str = "swaplet.io/restart-journal";

/// The entries of a request, by container name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Journal(pub BTreeMap<Box<str>, Mark>);

/// The container that a restart replaces: a status that shows another one proves the restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mark {
    /// `containerID`; constant on some virtual nodes, or empty.
    #[serde(rename = "containerID")]
    pub container_id: Box<str>,
    /// `restartCount`; always 0 on some virtual nodes.
    pub restart_count: i64,
    /// When the container was started, by the node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<jiff::Timestamp>,
    /// The change of its image that may have been made; `None` before the container's turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
}

/// A change of an image that is to be made once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Intent {
    /// The image before the change.
    pub from: Box<str>,
    /// The image after the change: an alias, or the park image.
    pub to: Box<str>,
    /// `metadata.generation` of the pod before the change; `None` where the API server does not
    /// count it. It distinguishes a change that was not made from one that was made and undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Why the image before is put back; `None` while it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Box<str>>,
    /// The half of the restart that is in progress, where `to` is the park image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parking: Option<Parking>,
}

/// The two halves of a restart by the park image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Parking {
    /// The container is to be parked.
    Out,
    /// The image before is to be put back; the container of the [`Mark`] is the parked one.
    Back,
}

impl Journal {
    /// Parses the value of the annotation. Returns `None` if it is not valid JSON of a journal.
    pub fn read(value: &str) -> Option<Self> {
        serde_json::from_str(value).ok()
    }

    /// Returns true if swaplet can have written the journal, judging by the rest of the request.
    /// Anyone who creates a request may put any text into it. But swaplet records a change of an
    /// image only after the status is `Recreating`, and before that a journal comes with the
    /// labels.
    pub fn is_taken_up(&self, phase: RequestPhase, has_labels: bool) -> bool {
        match phase {
            RequestPhase::Unanswered | RequestPhase::Pending => {
                has_labels && self.0.values().all(|mark| mark.intent.is_none())
            }
            RequestPhase::Recreating | RequestPhase::Completed => true,
        }
    }

    /// Returns the value of the annotation.
    pub fn as_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Mark {
    /// Returns the mark of the container that a status shows.
    pub(crate) fn of(status: &ContainerStatus) -> Self {
        let started_at = match &status.state {
            ContainerState::Running { started_at } => *started_at,
            ContainerState::Terminated(end) => end.started_at,
            ContainerState::Waiting { .. } | ContainerState::Unreported => None,
        };
        Self {
            container_id: status.container_id.clone(),
            restart_count: status.restart_count,
            started_at,
            intent: None,
        }
    }

    /// Returns the mark of the container that a status shows, or this mark if the status is older.
    /// A process whose cache lags must not forget what another one has observed: a restart from
    /// before the request would then count as made for it.
    pub(crate) fn or_later(&self, status: &ContainerStatus) -> Self {
        let is_older = status.restart_count < self.restart_count && !self.shows_another(status);
        if is_older {
            self.clone()
        } else {
            Self::of(status)
        }
    }

    /// Returns true if a status shows a later container than this one. No single field can be
    /// trusted: an ID is constant on some virtual nodes, a count stays 0 on others. But a status
    /// that is older than this mark, which another process has written, proves nothing.
    pub(crate) fn shows_another(&self, status: &ContainerStatus) -> bool {
        let now = Self::of(status);
        let is_later = now
            .started_at
            .is_some_and(|at| self.started_at.is_none_or(|before| at > before));
        match now.restart_count.cmp(&self.restart_count) {
            Ordering::Greater => true,
            Ordering::Equal => self.container_id != now.container_id || is_later,
            Ordering::Less => is_later,
        }
    }
}

#[cfg(test)]
mod journal_tests {
    use super::*;

    #[test]
    fn a2_a_journal_counts_where_it_can_have_been_written_by_swaplet() {
        let marked = |intent| {
            Journal(
                [(
                    "app".into(),
                    Mark {
                        intent,
                        ..Mark::default()
                    },
                )]
                .into(),
            )
        };
        let (before, changing) = (marked(None), marked(Some(Intent::default())));
        for phase in [RequestPhase::Unanswered, RequestPhase::Pending] {
            assert!(
                before.is_taken_up(phase, true) && !before.is_taken_up(phase, false),
                "{phase:?}"
            );
            assert!(
                !changing.is_taken_up(phase, true) && !changing.is_taken_up(phase, false),
                "{phase:?}"
            );
        }
        assert!(
            changing.is_taken_up(RequestPhase::Recreating, true)
                && changing.is_taken_up(RequestPhase::Completed, false)
        );
    }
}

// The reader of the requests that swaplet carries out.

/// A request of a list or watch.
pub type RestartRequestWire = Item<RestartRequest>;

impl FromView for RestartRequest {
    type Kind = RequestKind;
    type View = View<RequestSpec, RequestStatus>;

    /// Returns `None` if name, namespace or uid are missing: such an object cannot be addressed.
    fn of(view: Self::View) -> Option<Self> {
        let (more, spec, status) = view.parts();
        let (labels, annotations) = (more.labels.all()?, more.annotations.all()?);
        let label = |key: &str| labels.get(key).map(|text| &**text);
        let annotation = |key: &str| annotations.get(key).map(|text| &**text);
        let states = status.container_recreate_states.iter();
        let finalizers = more.finalizers.items.into_iter();
        let pod_uid = label(POD_UID).filter(|uid| !uid.is_empty());
        let active = label(ACTIVE).is_some();
        let phase = RequestPhase::read(status.phase.as_deref());
        let is_taken_up =
            |journal: &Journal| journal.is_taken_up(phase, active && pod_uid.is_some());
        Some(Self {
            pod_uid: pod_uid.map(Into::into),
            node: label(NODE_NAME).unwrap_or_default().into(),
            active,
            on_virtual_node: label(NODE_TYPE) == Some(VIRTUAL_KUBELET),
            journal: annotation(JOURNAL)
                .and_then(Journal::read)
                .filter(is_taken_up),
            unready_acquired: annotation(UNREADY_ACQUIRED)
                .filter(|time| !time.is_empty())
                .map(Into::into),
            finalizers: finalizers.filter_map(|one| one.value).collect(),
            restart_on: annotation(RESTART_ON).map(Into::into),
            namespace: more.namespace.filled()?,
            name: more.name.filled()?,
            uid: more.uid.filled()?,
            version: more.resource_version.value.unwrap_or_default(),
            created_at: more.creation_timestamp.0,
            deleting: more.deletion_timestamp.0,
            pod_name: spec.pod_name.value.unwrap_or_default(),
            containers: spec.containers.iter().map(wanted).collect(),
            strategy: strategy(&spec.strategy),
            active_deadline_seconds: at_most_a_day(spec.active_deadline_seconds),
            ttl_seconds: spec.ttl_seconds_after_finished.map(bounds::seconds),
            phase,
            message: status.message.0,
            completed_at: status.completion_time.0,
            states: states.map(state).collect(),
        })
    }
}

fn wanted(container: &WantedView) -> Wanted {
    Wanted {
        name: container.name.value.clone().unwrap_or_default(),
        has_context: container.status_context.is_some(),
    }
}

/// The longest of the times for which a request needs its pod, in seconds: only so many pods are
/// watched at once.
const LONGEST: u32 = 86_400;

fn at_most_a_day(written: Option<i64>) -> Option<u32> {
    written.map(|written| bounds::seconds(written).min(LONGEST))
}

fn strategy(written: &StrategyView) -> Strategy {
    Strategy {
        ignores_failures: written.failure_policy.as_deref() == Some("Ignore"),
        ordered: written.ordered_recreate == Some(true),
        force: written.force_recreate == Some(true),
        grace_seconds: written
            .termination_grace_period_seconds
            .map(bounds::seconds),
        unready_seconds: at_most_a_day(written.unready_grace_period_seconds),
        min_started_seconds: at_most_a_day(written.min_started_seconds).unwrap_or_default(),
    }
}

fn state(written: &StateView) -> RecreateState {
    RecreateState {
        name: written.name.value.clone().unwrap_or_default(),
        phase: written
            .phase
            .as_deref()
            .and_then(|word| word.parse().ok())
            .unwrap_or_default(),
        message: written.message.0.clone(),
        killed: written.is_killed == Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_requests_are_valid_and_differ_with_what_they_are_for() {
        assert_eq!(
            request_name("web-0", "restart", "1 a"),
            request_name("web-0", "restart", "1 a")
        );
        assert_ne!(
            request_name("web-0", "restart", "1 a"),
            request_name("web-0", "restart", "2 a")
        );
        let long = format!("{}.{}", "x".repeat(219), "y".repeat(30));
        let name = request_name(&long, "restart-on", "1 a");
        assert!(
            name.len() <= 253 && name.starts_with(&format!("{}-restart-on-", "x".repeat(219))),
            "{name}"
        );
    }
}

#[cfg(test)]
mod wire_tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::restart::request::{Intent, Mark};

    fn read(request: Value) -> Option<RestartRequest> {
        serde_json::from_value::<RestartRequestWire>(request)
            .unwrap()
            .read()
    }

    #[test]
    fn every_field_that_counts_is_read() {
        let intent = Intent {
            from: "app:1".into(),
            to: "app:1@sha256:0".into(),
            generation: Some(3),
            back: None,
            parking: None,
        };
        let mark = Mark {
            container_id: "containerd://1".into(),
            restart_count: 2,
            started_at: None,
            intent: Some(intent),
        };
        let journal = Journal([("app".into(), mark.clone())].into());
        let request = read(json!({
            "metadata": {"name": "r", "namespace": "ns", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {POD_UID: "pu", ACTIVE: "true", "other": "1"}, "annotations": {JOURNAL: journal.as_text(), UNREADY_ACQUIRED: "2026-01-01T00:00:05Z"}, "finalizers": ["x"], "managedFields": [{}]},
            "spec": {"podName": "p", "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0,
                "containers": [{"name": "app", "statusContext": {"containerID": "x", "restartCount": 0}}, {"name": "log"}],
                "strategy": {"failurePolicy": "Ignore", "orderedRecreate": true, "forceRecreate": true, "minStartedSeconds": -3,
                    "terminationGracePeriodSeconds": 5, "unreadyGracePeriodSeconds": 0}},
            "status": {"phase": "Recreating", "message": "m",
                "containerRecreateStates": [{"name": "log", "phase": "Failed", "message": "no", "isKilled": true}]},
        }))
        .unwrap();
        assert_eq!(
            (
                request.pod_uid.as_deref(),
                request.active,
                request.on_virtual_node
            ),
            (Some("pu"), true, false)
        );
        assert_eq!(request.mark("app"), Some(&mark));
        assert_eq!(
            (request.unready_acquired.as_deref(), &*request.finalizers),
            (Some("2026-01-01T00:00:05Z"), &["x".into()][..])
        );
        assert!(request.containers[0].has_context && !request.containers[1].has_context);
        let strategy = Strategy {
            ignores_failures: true,
            ordered: true,
            force: true,
            grace_seconds: Some(5),
            unready_seconds: Some(0),
            min_started_seconds: 0,
        };
        assert_eq!(
            (
                request.strategy.clone(),
                request.active_deadline_seconds,
                request.ttl_seconds
            ),
            (strategy, Some(60), Some(0))
        );
        assert_eq!(
            (request.phase, &*request.message, request.is_completed()),
            (RequestPhase::Recreating, "m", false)
        );
        assert_eq!(
            (request.state("log").phase, request.state("app").phase),
            (StatePhase::Failed, StatePhase::Pending)
        );
    }

    #[test]
    fn u119_no_request_needs_its_pod_for_years() {
        let request = read(json!({
            "metadata": {"name": "r", "namespace": "ns", "uid": "u"},
            "spec": {"podName": "p", "strategy": {"minStartedSeconds": i32::MAX, "unreadyGracePeriodSeconds": i64::MAX}},
        }));
        let strategy = request.unwrap().strategy;
        assert_eq!(
            (strategy.min_started_seconds, strategy.unready_seconds),
            (86_400, Some(86_400))
        );
    }

    #[test]
    fn u139_no_deadline_is_later_than_a_day() {
        let request = read(json!({
            "metadata": {"name": "r", "namespace": "ns", "uid": "u"},
            "spec": {"podName": "p", "activeDeadlineSeconds": i64::MAX},
        }));
        assert_eq!(request.unwrap().active_deadline_seconds, Some(86_400));
    }

    #[test]
    fn null_is_absent() {
        let request = read(json!({
            "metadata": {"name": "r", "namespace": "ns", "uid": "u", "labels": null, "annotations": {JOURNAL: null}, "finalizers": null},
            "spec": {"podName": null, "containers": [{"name": null}], "strategy": null},
            "status": {"phase": null, "completionTime": null, "containerRecreateStates": null},
        }))
        .unwrap();
        assert_eq!((request.journal, request.completed_at), (None, None));
        assert!(read(json!({"metadata": {"name": "r", "namespace": "ns", "uid": "u"}, "spec": null, "status": null})).is_some());
    }

    #[test]
    fn what_cannot_be_addressed_is_not_read() {
        assert_eq!(
            read(json!({"metadata": {"name": "r", "namespace": "ns"}})),
            None
        );
        assert_eq!(read(json!({"metadata": null})), None);
    }
}
