//! The reader of the requests that swaplet carries out.

use super::{
    ACTIVE, JOURNAL, Journal, NODE_NAME, NODE_TYPE, POD_UID, RecreateState, RestartRequest,
    StatePhase, Strategy, UNREADY_ACQUIRED, VIRTUAL_KUBELET, Wanted,
};
use crate::objects::item::{FromView, Item, View, items};
use crate::objects::recreate_request::{
    RequestKind, RequestPhase, RequestSpec, RequestStatus, StateView, StrategyView, WantedView,
};
use crate::objects::values::bounds;
use crate::objects::values::lenient::{Integer, Text};
use crate::restart::on_config::annotation::RESTART_ON;

/// A request of a list or watch.
pub type RestartRequestWire = Item<RestartRequest>;

impl FromView for RestartRequest {
    type Kind = RequestKind;
    type View = View<RequestSpec, RequestStatus>;

    /// Returns `None` if name, namespace or uid are missing: such an object cannot be addressed.
    fn of(view: Self::View) -> Option<Self> {
        let View {
            metadata: more,
            spec,
            status,
            ..
        } = view;
        let required = |text: Text| text.value.filter(|text| !text.is_empty());
        let label = |key: &str| more.labels.value.0.get(key).map(|text| &**text);
        let annotation = |key: &str| more.annotations.value.0.get(key).map(|text| &**text);
        let pod_uid = label(POD_UID).filter(|uid| !uid.is_empty());
        let active = label(ACTIVE).is_some();
        let phase = RequestPhase::read(status.phase.value.as_deref());
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
            finalizers: more
                .finalizers
                .value
                .into_iter()
                .filter_map(|finalizer| finalizer.value)
                .collect(),
            restart_on: annotation(RESTART_ON).map(Into::into),
            namespace: required(more.namespace)?,
            name: required(more.name)?,
            uid: required(more.uid)?,
            version: more.resource_version.value.unwrap_or_default(),
            created_at: more.creation_timestamp.value,
            deleting: more.deletion_timestamp.value.0,
            pod_name: spec.pod_name.value.unwrap_or_default(),
            containers: items(&spec.containers).map(wanted).collect(),
            strategy: strategy(&spec.strategy.value.0),
            active_deadline_seconds: seconds(&spec.active_deadline_seconds),
            ttl_seconds: seconds(&spec.ttl_seconds_after_finished),
            phase,
            message: status.message.value.0,
            completed_at: status.completion_time.value,
            states: items(&status.container_recreate_states)
                .map(state)
                .collect(),
        })
    }
}

fn seconds(field: &Integer) -> Option<u32> {
    field.value.map(bounds::seconds)
}

fn wanted(container: &WantedView) -> Wanted {
    Wanted {
        name: container.name.value.clone().unwrap_or_default(),
        has_context: container.status_context.value.is_some(),
    }
}

fn strategy(written: &StrategyView) -> Strategy {
    Strategy {
        ignores_failures: written.failure_policy.value.as_deref() == Some("Ignore"),
        ordered: written.ordered_recreate.value == Some(true),
        force: written.force_recreate.value == Some(true),
        grace_seconds: seconds(&written.termination_grace_period_seconds),
        unready_seconds: seconds(&written.unready_grace_period_seconds),
        min_started_seconds: seconds(&written.min_started_seconds).unwrap_or_default(),
    }
}

fn state(written: &StateView) -> RecreateState {
    RecreateState {
        name: written.name.value.clone().unwrap_or_default(),
        phase: StatePhase::read(written.phase.value.as_deref()),
        message: written.message.value.0.clone(),
        killed: written.is_killed.value == Some(true),
    }
}

#[cfg(test)]
mod tests {
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
                "labels": {POD_UID: "pu", ACTIVE: "true", "other": 1}, "annotations": {JOURNAL: journal.as_text(), UNREADY_ACQUIRED: "2026-01-01T00:00:05Z"}, "finalizers": ["x"], "managedFields": [{}]},
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
    fn what_has_a_wrong_type_is_absent() {
        for strange in [json!(1), json!("x"), json!([1]), json!(null), json!({})] {
            let request = read(json!({
                "metadata": {"name": "r", "namespace": "ns", "uid": "u", "labels": strange, "annotations": {JOURNAL: strange}, "finalizers": strange},
                "spec": {"podName": strange, "containers": [strange, {"name": strange}], "strategy": strange},
                "status": {"phase": strange, "completionTime": strange, "containerRecreateStates": [strange]},
            }))
            .unwrap();
            assert_eq!(
                (request.journal, request.completed_at),
                (None, None),
                "{strange}"
            );
            assert!(read(json!({"metadata": {"name": "r", "namespace": "ns", "uid": "u"}, "spec": strange, "status": strange})).is_some());
        }
    }

    #[test]
    fn what_cannot_be_addressed_is_not_read() {
        assert_eq!(
            read(json!({"metadata": {"name": "r", "namespace": "ns"}})),
            None
        );
        assert_eq!(read(json!({"metadata": 3})), None);
    }
}
