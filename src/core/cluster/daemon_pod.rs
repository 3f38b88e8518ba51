//! A pod of OpenKruise's daemon, reduced to its node and its readiness.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use crate::objects::node::ConditionWire;
use crate::objects::values::lenient::{Lenient, Object, Text};
use crate::objects::values::parts::Parts;

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

/// A pod of a list or watch. As for pods, decoding fails only for JSON that is no Kubernetes object
/// at all.
#[derive(Clone, Debug)]
pub struct DaemonPodWire {
    metadata: ObjectMeta,
    deleting: bool,
    node: Text,
    conditions: Lenient<Vec<Lenient<Object<ConditionWire>>>>,
}

of_kind!(DaemonPodWire, k8s_openapi::api::core::v1::Pod);

type TopWire = Parts<MetaWire, SpecWire, StatusWire>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    resource_version: Text,
    deletion_timestamp: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    node_name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StatusWire {
    conditions: Lenient<Vec<Lenient<Object<ConditionWire>>>>,
}

impl<'de> Deserialize<'de> for DaemonPodWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let top = TopWire::deserialize(deserializer)?;
        let meta = top.metadata.value.0;
        let text = |field: Text| field.value.map(String::from);
        let deleting = meta.deletion_timestamp.value.is_some();
        let metadata = ObjectMeta {
            name: text(meta.name),
            resource_version: text(meta.resource_version),
            ..ObjectMeta::default()
        };
        Ok(Self {
            metadata,
            deleting,
            node: top.spec.value.0.node_name,
            conditions: top.status.value.0.conditions,
        })
    }
}

impl DaemonPodWire {
    /// Reads the pod. Returns `None` if it has no name.
    #[must_use]
    pub fn read(self) -> Option<DaemonPod> {
        let ready = self
            .conditions
            .value
            .iter()
            .any(|condition| condition.value.0.is("Ready", "True"));
        Some(DaemonPod {
            name: self.metadata.name.filter(|name| !name.is_empty())?.into(),
            node: self.node.value.unwrap_or_default(),
            ready: ready && !self.deleting,
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
    fn what_has_a_wrong_type_is_absent() {
        for strange in [json!(1), json!("x"), json!([1]), json!(null), json!({})] {
            let read = read(json!({
                "metadata": {"name": "d"}, "spec": {"nodeName": strange}, "status": {"conditions": [strange, {"type": strange}]},
            }));
            assert!(read.is_some_and(|pod| !pod.ready), "{strange}");
        }
        assert_eq!(read(json!({"metadata": {"name": ""}})), None);
    }
}
