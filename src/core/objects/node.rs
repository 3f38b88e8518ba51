//! A node as it is listed and watched, reduced to the fields that show how it treats its pods. It
//! is dropped once it is recognised (`cluster::node_class`): a node's annotations alone can be
//! larger than all that is cached of a pod.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::item::{ConditionView, FromView, Item, Part, View};
use super::runs_on::RunsOn;
use super::values::fields::{List, Text, or_default};

/// Labels or annotations.
pub type Marks = BTreeMap<Box<str>, Box<str>>;

/// A node, reduced to the fields by which it is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`: a node of the same name with another uid is another node.
    pub uid: Box<str>,
    /// `metadata.labels`
    pub labels: Marks,
    /// `metadata.annotations`
    pub annotations: Marks,
    /// `spec.taints`
    pub taints: Vec<Taint>,
    /// True if its condition `Ready` is true.
    pub ready: bool,
    /// `status.nodeInfo.kubeletVersion`; `None` if it is absent or cannot be read. A virtual node
    /// may report any.
    pub kubelet: Option<KubeletVersion>,
    /// `status.nodeInfo.operatingSystem`
    pub operating_system: Option<Box<str>>,
    /// `status.nodeInfo.architecture`
    pub architecture: Option<Box<str>>,
}

impl Node {
    /// Returns the name of its operating system; `None` if it does not say.
    pub fn system(&self) -> Option<&str> {
        self.label("kubernetes.io/os")
            .or(self.operating_system.as_deref())
    }

    /// Returns the name of its processor; `None` if it does not say.
    pub fn processor(&self) -> Option<&str> {
        self.label("kubernetes.io/arch")
            .or(self.architecture.as_deref())
    }

    /// Returns what it says of both.
    pub fn runs_on(&self) -> RunsOn {
        RunsOn::named(self.system(), self.processor())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(|value| &**value)
    }
}

/// The version of a kubelet, without its patch level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeletVersion {
    /// Always 1 so far.
    pub major: u32,
    /// The 34 of `v1.34.4`.
    pub minor: u32,
}

impl KubeletVersion {
    /// Reads a version such as `v1.34.4`, also with a vendor's suffix; `None` if it is none.
    pub fn read(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix('v')?.split('.');
        Some(Self {
            major: numbers.next()?.parse().ok()?,
            minor: numbers.next()?.parse().ok()?,
        })
    }
}

impl fmt::Display for KubeletVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// One of `spec.taints`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// `key`
    pub key: Box<str>,
    /// `value`; may be empty.
    pub value: Box<str>,
    /// True if it keeps no pod from the node: its effect is `PreferNoSchedule`.
    pub only_preferred: bool,
}

/// A node of a list or watch.
pub type NodeWire = Item<Node>;

/// `spec` of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpecView {
    taints: List<TaintView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TaintView {
    key: Text,
    value: Text,
    effect: Text,
}

/// `status` of a node; `I` is what is read of its list of images, which is the longest part of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "I: Part"))]
pub struct NodeStatusView<I = IgnoredAny> {
    pub(crate) images: I,
    conditions: List<ConditionView>,
    #[serde(deserialize_with = "or_default")]
    node_info: NodeInfoView,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfoView {
    kubelet_version: Text,
    operating_system: Text,
    architecture: Text,
}

impl FromView for Node {
    type Kind = k8s_openapi::api::core::v1::Node;
    type View = View<NodeSpecView, NodeStatusView>;

    fn of(view: Self::View) -> Option<Self> {
        Self::read(view)
    }
}

impl Node {
    /// Reads a node. Returns `None` if it has no name, because no pod can be on it then, or has more
    /// labels or annotations than are read.
    pub(crate) fn read<I>(view: View<NodeSpecView, NodeStatusView<I>>) -> Option<Self> {
        let (meta, status) = (view.metadata, view.status);
        let taint = |written: TaintView| Taint {
            key: written.key.value.unwrap_or_default(),
            value: written.value.value.unwrap_or_default(),
            only_preferred: written.effect.as_deref() == Some("PreferNoSchedule"),
        };
        let info = status.node_info;
        Some(Self {
            name: meta.name.filled()?,
            uid: meta.uid.value.unwrap_or_default(),
            labels: meta.labels.all()?,
            annotations: meta.annotations.all()?,
            taints: view.spec.taints.items.into_iter().map(taint).collect(),
            ready: status.conditions.iter().any(|one| one.is("Ready", "True")),
            kubelet: info
                .kubelet_version
                .as_deref()
                .and_then(KubeletVersion::read),
            operating_system: info.operating_system.value,
            architecture: info.architecture.value,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(node: Value) -> Option<Node> {
        serde_json::from_value::<NodeWire>(node).unwrap().read()
    }

    #[test]
    fn what_recognises_a_node_is_read() {
        let node = read(json!({
            "metadata": {"name": "n", "uid": "u", "labels": {"type": "virtual-kubelet"}, "annotations": {"a": "b"}, "managedFields": [{}]},
            "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "bare"}], "podCIDR": "10.0.0.0/24"},
            "status": {"images": [{"names": ["x"]}], "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.34.4"}},
        }))
        .unwrap();
        assert!(node.ready);
        assert_eq!(
            node.kubelet.map(|version| version.to_string()),
            Some("1.34".to_owned())
        );
        assert_eq!((&*node.name, &*node.uid), ("n", "u"));
        assert_eq!(
            node.labels.get("type").map(|value| &**value),
            Some("virtual-kubelet")
        );
        assert_eq!(node.annotations.get("a").map(|value| &**value), Some("b"));
        let taints = [("k", "v"), ("bare", "")].map(|(key, value)| Taint {
            only_preferred: false,
            key: key.into(),
            value: value.into(),
        });
        assert_eq!(node.taints, taints);
    }

    #[test]
    fn a_node_says_what_it_runs_on_in_labels_and_then_in_its_status() {
        let says = |labels: Value, system: &str, processor: &str| {
            let info = json!({"operatingSystem": system, "architecture": processor});
            let node =
                json!({"metadata": {"name": "n", "labels": labels}, "status": {"nodeInfo": info}});
            read(node).unwrap().runs_on()
        };
        let linux = RunsOn::named(Some("linux"), Some("amd64"));
        assert_eq!(says(json!({}), "linux", "amd64"), linux);
        let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"});
        assert_eq!(says(labels, "windows", "s390x"), linux);
        assert_eq!(says(json!({}), "", ""), RunsOn::default());
    }

    #[test]
    fn null_is_absent_and_the_rest_counts() {
        let node = read(json!({
            "metadata": {"name": "n", "labels": {"odd": null, "good": "1"}, "annotations": null},
            "spec": {"taints": [{"key": null, "value": "v"}]},
            "status": {"nodeInfo": null, "conditions": [{"type": "Ready", "status": null}]},
        }))
        .unwrap();
        assert!(!node.ready && node.kubelet.is_none() && node.annotations.is_empty());
        assert_eq!(node.labels.keys().collect::<Vec<_>>(), [&"good".into()]);
        assert!(node.taints[0].key.is_empty());
        assert!(read(json!({"metadata": {"name": "n", "labels": null}, "spec": null})).is_some());
        assert!(read(json!({"metadata": {"name": "n"}, "spec": {"taints": null}})).is_some());
    }

    #[test]
    fn versions_of_kubelets_are_compared_by_number() {
        let read = |text| KubeletVersion::read(text);
        assert!(read("v1.9.0") < read("v1.32.0-eks-1a2b") && read("v1.32.13") < read("v1.100.0"));
        for strange in ["", "1.34.4", "v1", "v1.x", "v-1.2", "agent"] {
            assert_eq!(read(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_node_without_a_name_is_none() {
        assert_eq!(read(json!({"metadata": {"uid": "u"}})), None);
        assert_eq!(read(json!({"metadata": {"name": ""}})), None);
        assert_eq!(read(json!({"metadata": null})), None);
    }
}
