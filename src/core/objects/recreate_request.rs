//! OpenKruise's `ContainerRecreateRequest` as swaplet reads it: only those that its
//! SidecarTerminator creates, and their results. Read as `v1alpha1`, which every release serves.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Serialize};

use super::item::{FromView, Item, View};
use super::pod::{Container, ContainerState};
use super::values::fields::{List, Said, Text, Time, or_default};

/// The API group of OpenKruise.
pub const GROUP: &str = "apps.kruise.io";
/// The version that is read and written.
pub const VERSION: &str = "v1alpha1";
/// The kind of the requests.
pub const KIND: &str = "ContainerRecreateRequest";
/// The resource in URLs.
pub const PLURAL: &str = "containerrecreaterequests";
/// The name of the request that ends the sidecars of a pod is this and the uid of the pod
/// (OpenKruise: `getCRRName`). There is one per pod: once it exists, nobody can create another.
const NAME_PREFIX: &str = "sidecar-termination-";

/// A request to end the sidecars of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecreateRequest {
    /// The uid of the pod, from the name.
    pub pod_uid: Box<str>,
    /// `status.phase`
    pub phase: RequestPhase,
    /// `status.message`, which describes errors; empty if there were none.
    pub message: Box<str>,
    /// `spec.containers`, each joined with its state.
    pub containers: Vec<Recreated>,
}

/// `status.phase` of a request. It shows the daemon's progress, not the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum RequestPhase {
    /// The daemon has not handled it yet.
    #[default]
    #[serde(rename = "")]
    Unanswered,
    /// The daemon works on another request for the same pod.
    Pending,
    /// The daemon works on it.
    Recreating,
    /// It is no longer handled: it is done, has failed, or was not handled for 60 s.
    Completed,
}

/// One container of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recreated {
    /// `name`
    pub name: Box<str>,
    /// `statusContext.containerID`: the container that is to be stopped. Filled in by OpenKruise's
    /// webhook.
    pub container_id: Box<str>,
    /// `statusContext.restartCount` of that container.
    pub restart_count: i64,
    /// True if the daemon could not stop it (`phase: Failed`).
    pub failed: bool,
    /// `message` of its state, as the daemon writes it.
    pub message: Box<str>,
    /// True once the daemon has stopped it.
    pub killed: bool,
}

impl RecreateRequest {
    /// Returns the name of the request for a pod.
    pub fn name_for(pod_uid: &str) -> String {
        format!("{NAME_PREFIX}{pod_uid}")
    }

    /// Returns true if this is the name of a request that ends the sidecars of a pod.
    pub fn is_name_of_one(name: &str) -> bool {
        name.starts_with(NAME_PREFIX)
    }

    /// Returns the entry of a container; `None` if the request does not name it.
    pub fn container(&self, name: &str) -> Option<&Recreated> {
        self.containers
            .iter()
            .find(|container| &*container.name == name)
    }
}

/// A request of a list or watch.
pub type RecreateRequestWire = Item<RecreateRequest>;

/// The kind of a request.
#[derive(Clone, Debug)]
pub struct RequestKind {
    metadata: ObjectMeta,
}

impl Resource for RequestKind {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }
    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }
    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// `spec` of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestSpec {
    pub(crate) pod_name: Text,
    pub(crate) containers: List<WantedView>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) strategy: StrategyView,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) ttl_seconds_after_finished: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WantedView {
    pub name: Text,
    pub status_context: Option<Box<ContextView>>,
}

/// Filled in by OpenKruise's webhook.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContextView {
    #[serde(rename = "containerID")]
    pub container_id: Text,
    pub restart_count: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StrategyView {
    pub failure_policy: Text,
    pub ordered_recreate: Option<bool>,
    pub force_recreate: Option<bool>,
    pub termination_grace_period_seconds: Option<i64>,
    pub unready_grace_period_seconds: Option<i64>,
    pub min_started_seconds: Option<i64>,
}

/// `status` of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestStatus {
    pub(crate) phase: Text,
    pub(crate) message: Said,
    pub(crate) completion_time: Time,
    pub(crate) container_recreate_states: List<StateView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StateView {
    pub name: Text,
    pub phase: Text,
    pub message: Said,
    pub is_killed: Option<bool>,
}

impl FromView for RecreateRequest {
    type Kind = RequestKind;
    type View = View<RequestSpec, RequestStatus>;

    /// Returns `None` if it is not one that ends the sidecars of a pod.
    fn of(view: Self::View) -> Option<Self> {
        let name = view.metadata.name.value?;
        let states = &view.status.container_recreate_states;
        let containers = view.spec.containers.items.into_iter();
        Some(Self {
            pod_uid: name.strip_prefix(NAME_PREFIX)?.into(),
            phase: RequestPhase::read(view.status.phase.as_deref()),
            containers: containers.map(|one| one.read(states)).collect(),
            message: view.status.message.0,
        })
    }
}

impl WantedView {
    fn read(self, states: &[StateView]) -> Recreated {
        let name = self.name.value.unwrap_or_default();
        let mut states = states.iter();
        let state = states.find(|state| state.name.as_ref() == Some(&name));
        let context = self.status_context.unwrap_or_default();
        Recreated {
            container_id: context.container_id.value.unwrap_or_default(),
            restart_count: context.restart_count.unwrap_or_default(),
            failed: state.is_some_and(|state| state.phase.as_deref() == Some("Failed")),
            message: state
                .map(|state| state.message.0.clone())
                .unwrap_or_default(),
            killed: state.is_some_and(|state| state.is_killed == Some(true)),
            name,
        }
    }
}

impl RequestPhase {
    /// Reads the phase. OpenKruise declares `Succeeded` and `Failed` too, and uses them for
    /// containers only; every final phase is read as `Completed`.
    pub(crate) fn read(text: Option<&str>) -> Self {
        match text {
            Some("Pending") => Self::Pending,
            Some("Recreating") => Self::Recreating,
            Some("Completed" | "Succeeded" | "Failed") => Self::Completed,
            _ => Self::Unanswered,
        }
    }
}

impl Recreated {
    /// Returns true if the container was stopped by the request, and runs or will run again.
    pub(crate) fn is_back(&self, target: &Container) -> bool {
        let Some(status) = &target.status else {
            return false;
        };
        match &status.state {
            ContainerState::Running { .. } => {
                !self.container_id.is_empty()
                    && (status.container_id != self.container_id
                        || status.restart_count > self.restart_count)
            }
            ContainerState::Waiting { .. } => self.killed,
            ContainerState::Terminated(_) | ContainerState::Unreported => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(request: Value) -> Option<RecreateRequest> {
        serde_json::from_value::<RecreateRequestWire>(request)
            .unwrap()
            .read()
    }

    #[test]
    fn containers_are_joined_with_their_states_by_name() {
        let request = read(json!({
            "metadata": {"name": "sidecar-termination-u1", "namespace": "ns", "resourceVersion": "7", "managedFields": [{}]},
            "spec": {"podName": "p", "containers": [
                {"name": "log", "statusContext": {"containerID": "containerd://1", "restartCount": 2}},
                {"name": "proxy"},
            ]},
            "status": {"phase": "Recreating", "containerRecreateStates": [
                {"name": "proxy", "phase": "Failed", "message": "kill container error: x"},
                {"name": "log", "phase": "Recreating", "isKilled": true},
            ]},
        }))
        .unwrap();
        assert_eq!(
            (&*request.pod_uid, request.phase),
            ("u1", RequestPhase::Recreating)
        );
        let log = Recreated {
            name: "log".into(),
            container_id: "containerd://1".into(),
            restart_count: 2,
            killed: true,
            ..Recreated::default()
        };
        assert_eq!(request.container("log"), Some(&log));
        let proxy = request.container("proxy").unwrap();
        assert!(proxy.failed && !proxy.killed && &*proxy.message == "kill container error: x");
        assert_eq!(request.container("other"), None);
    }

    #[test]
    fn a_request_without_a_status_is_unanswered_and_others_are_not_ours() {
        let of = |name: &str| read(json!({"metadata": {"name": name}, "spec": {}}));
        let request = of(&RecreateRequest::name_for("u1")).unwrap();
        assert_eq!(
            (&*request.pod_uid, request.phase, request.containers.len()),
            ("u1", RequestPhase::Unanswered, 0)
        );
        assert_eq!(of("restart-the-proxy"), None);
    }

    #[test]
    fn null_is_absent() {
        let name = json!({"name": "sidecar-termination-u1"});
        for request in [
            json!({"metadata": name, "spec": null, "status": null}),
            json!({"metadata": name, "spec": {"containers": null}, "status": {"containerRecreateStates": null}}),
            json!({"metadata": name, "spec": {"containers": [{"name": null, "statusContext": null}]}, "status": {"message": null}}),
        ] {
            assert!(read(request).is_some());
        }
    }
}
