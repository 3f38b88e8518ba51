//! The nodes that pods of a template may run on, according to the template, and the costs of a
//! finished pod there.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::node_table::{NodeTable, Row};
use crate::objects::node::{Marks, Node, Taint};
use crate::objects::pod::{ACS, ACS_CLASS};

/// The label by which a pod requests Alibaba ECI, and the label of its nodes (Alibaba Cloud,
/// "Schedule pods to ECI").
const ECI: (&str, &str) = ("alibabacloud.com/eci", "k8s.aliyun.com/vnode");
/// The prefix of taints that report a state of the node, and are temporary.
const STATE: &str = "node.kubernetes.io/";
/// The most labels and tolerations of a template that are read.
const MOST: usize = 256;

/// The constraints of a template on its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// `spec.nodeName`
    pub node: Option<Box<str>>,
    /// `nodeSelector`, and the first value of each `In` of the required node affinity.
    labels: Marks,
    /// `nodeSelector` alone.
    selector: Marks,
    tolerations: Vec<Toleration>,
}

/// One of `tolerations`, without its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Toleration {
    /// `None` for all keys.
    key: Option<Box<str>>,
    /// `None` for all values.
    value: Option<Box<str>>,
}

impl Placement {
    /// Reads the spec and the metadata of a pod.
    pub fn of(spec: &Value, metadata: &Value) -> Self {
        let selector: Marks = texts(&spec["nodeSelector"]).collect();
        let mut labels = selector.clone();
        labels.extend(affinity(&spec["affinity"]["nodeAffinity"]));
        let of_pod = &metadata["labels"];
        let on_acs = of_pod[ACS] == "true" || of_pod[ACS_CLASS].is_string();
        for (is_asked, of_node) in [(of_pod[ECI.0] == "true", ECI.1), (on_acs, ACS)] {
            if is_asked {
                labels.insert(of_node.into(), "true".into());
            }
        }
        Self {
            node: spec["nodeName"].as_str().map(Into::into),
            labels,
            selector,
            tolerations: list(&spec["tolerations"]).map(Toleration::of).collect(),
        }
    }

    /// Returns the row of the nodes that the template requests or tolerates, with a text of the
    /// condition; `None` if no row matches.
    pub fn row(&self, table: &NodeTable) -> Option<(Arc<Row>, Box<str>)> {
        let taint = |toleration: &Toleration| {
            Some(Taint {
                key: toleration.key.clone()?,
                value: toleration.value.clone().unwrap_or_default(),
                only_preferred: false,
            })
        };
        let node = Node {
            labels: self.labels.clone(),
            taints: self.tolerations.iter().filter_map(taint).collect(),
            ..Node::default()
        };
        table.find(&node)
    }

    /// Returns true if a pod of the template may be put on this node, by its selector and
    /// tolerations.
    pub fn may_be_on(&self, node: &Node) -> bool {
        let tolerated = |taint: &Taint| {
            taint.only_preferred
                || taint.key.starts_with(STATE)
                || self
                    .tolerations
                    .iter()
                    .any(|toleration| toleration.covers(taint))
        };
        self.node.as_ref().is_none_or(|name| *name == node.name)
            && (self.node.is_some()
                || self
                    .selector
                    .iter()
                    .all(|(key, value)| node.labels.get(key) == Some(value))
                    && node.taints.iter().all(tolerated))
    }
}

impl Toleration {
    fn of(value: &Value) -> Self {
        let exists = value["operator"] == "Exists";
        let text = |field: &str| value[field].as_str().unwrap_or_default();
        Self {
            key: Some(text("key"))
                .filter(|key| !key.is_empty())
                .map(Into::into),
            value: (!exists).then(|| text("value").into()),
        }
    }

    fn covers(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
    }
}

fn texts(marks: &Value) -> impl Iterator<Item = (Box<str>, Box<str>)> {
    let members = marks.as_object().into_iter().flatten();
    members
        .take(MOST)
        .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
}

fn affinity(affinity: &Value) -> impl Iterator<Item = (Box<str>, Box<str>)> {
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = list(&required["nodeSelectorTerms"]);
    let expressions = terms.flat_map(|term| list(&term["matchExpressions"]));
    let equal = expressions.filter(|expression| expression["operator"] == "In");
    equal.filter_map(|expression| {
        let value = expression["values"][0].as_str()?;
        Some((expression["key"].as_str()?.into(), value.into()))
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MOST)
}

/// The cost of a pod after its phase is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The pod has a machine of its own until it is deleted.
    Machine,
    /// If the phase was written, the containers run until the pod is deleted.
    Containers,
}

impl Cost {
    /// Returns the cost on nodes of this row; `None` if a finished pod costs nothing.
    pub fn on(row: &Row) -> Option<Self> {
        match (row.class.is_kubelet(), row.machine_per_pod) {
            (true, false) => None,
            (true, true) => Some(Self::Machine),
            (false, _) => Some(Self::Containers),
        }
    }
}
