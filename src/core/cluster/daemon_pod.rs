//! A pod of OpenKruise's daemon, reduced to its node and its readiness.

use k8s_openapi::api::core::v1::Pod;

use crate::objects::item::{FromView, Item};
use crate::objects::pod::view::PodView;

/// The namespace of OpenKruise, which is also the default of its own flags.
pub const NAMESPACE: &str = "kruise-system";
/// The label selector of its daemon's pods (OpenKruise's own manifest and its Helm chart agree).
pub const LABEL: &str = "control-plane=daemon";

/// A pod of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonPod {
    /// `metadata.name`
    pub name: Box<str>,
    /// `spec.nodeName`; empty until it is scheduled.
    pub node: Box<str>,
    /// True if the condition `Ready` is true and the pod is not being deleted.
    pub ready: bool,
}

/// A pod of a list or watch.
pub type DaemonPodWire = Item<DaemonPod>;

impl FromView for DaemonPod {
    type Kind = Pod;
    type View = PodView;

    /// Returns `None` if it has no name.
    fn of(pod: PodView) -> Option<Self> {
        let meta = pod.metadata;
        Some(Self {
            name: meta.name.filled()?,
            node: pod.spec.node_name.value.unwrap_or_default(),
            ready: pod.status.is_ready() && !meta.deletion_timestamp.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(pod: Value) -> Option<DaemonPod> {
        serde_json::from_value::<DaemonPodWire>(pod).unwrap().read()
    }

    fn pod(ready: &str) -> Value {
        json!({
            "metadata": {"name": "d", "labels": {"control-plane": "daemon"}}, "spec": {"nodeName": "n"},
            "status": {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}]},
        })
    }

    #[test]
    fn only_a_ready_pod_that_stays_is_ready() {
        assert_eq!(
            read(pod("True")),
            Some(DaemonPod {
                name: "d".into(),
                node: "n".into(),
                ready: true
            })
        );
        assert!(!read(pod("False")).unwrap().ready);
        let mut leaving = pod("True");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(!read(leaving).unwrap().ready);
    }

    #[test]
    fn null_is_absent_and_a_name_is_needed() {
        let read_of = |conditions: Value| {
            read(
                json!({"metadata": {"name": "d"}, "spec": {"nodeName": null}, "status": {"conditions": conditions}}),
            )
        };
        for conditions in [json!(null), json!([{"type": null}])] {
            assert!(read_of(conditions).is_some_and(|pod| !pod.ready));
        }
        assert_eq!(read(json!({"metadata": {"name": ""}})), None);
    }
}
