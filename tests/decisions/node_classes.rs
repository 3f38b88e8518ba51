//! How nodes are recognised: every row of the table, and their order.

mod overrides;

use NodeClass::{Kubelet, Unknown, VirtualInert, VirtualUpdates};
use serde_json::{Value, json};
use swaplet_core::cluster::node_class::{NodeClass, Recognised, Why};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::node::{Node, NodeWire};
use swaplet_core::objects::pod::wire::PodWire;

fn table() -> NodeTable {
    NodeTable::built_in()
}

/// A node with these labels, taints and annotations, each `KEY=VALUE`.
pub fn node(name: &str, labels: &[&str], taints: &[&str], annotations: &[&str]) -> Node {
    let pair = |text: &str| {
        text.split_once('=')
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .unwrap()
    };
    let marks = |texts: &[&str]| -> Value {
        texts
            .iter()
            .map(|text| pair(text))
            .map(|(key, value)| (key, Value::from(value)))
            .collect()
    };
    let taints: Vec<_> = taints
        .iter()
        .map(|text| pair(text))
        .map(|(key, value)| json!({"key": key, "value": value, "effect": "NoSchedule"}))
        .collect();
    let metadata = json!({"name": name, "uid": "uid-1", "labels": marks(labels), "annotations": marks(annotations)});
    serde_json::from_value::<NodeWire>(json!({"metadata": metadata, "spec": {"taints": taints}}))
        .unwrap()
        .read()
        .unwrap()
}

fn recognise(node: &Node) -> (NodeClass, Option<String>) {
    let found = Recognised::of(node, &table());
    assert_eq!(found.problem, None);
    (found.class, found.row.map(|row| row.name.to_string()))
}

const VK: &str = "type=virtual-kubelet";

/// Labels, taints and annotations.
type Marks = [&'static [&'static str]; 3];

/// Nodes as providers make them, with the marks of several rows where they really have them: the
/// row and class, and the name and marks.
const NODES: &[(&str, NodeClass, &str, Marks)] = &[
    (
        "eks-fargate",
        Kubelet,
        "fargate-ip-10-0-0-1",
        [
            &["eks.amazonaws.com/compute-type=fargate"],
            &["eks.amazonaws.com/compute-type=fargate"],
            &[],
        ],
    ),
    // The taint of classic ACI, with the opposite behaviour.
    (
        "azure-vn2",
        Kubelet,
        "vn2",
        [
            &["virtualization=virtualnode2"],
            &["virtual-kubelet.io/provider=azure"],
            &[],
        ],
    ),
    (
        "liqo",
        VirtualInert,
        "liqo-rome",
        [
            &[VK, "liqo.io/type=virtual-node"],
            &["virtual-node.liqo.io/not-allowed=true"],
            &[],
        ],
    ),
    (
        "interlink",
        VirtualInert,
        "slurm",
        [
            &["virtual-node.interlink/type=virtual-kubelet"],
            &["virtual-node.interlink/no-schedule=true"],
            &[],
        ],
    ),
    (
        "tencent-super-node",
        Kubelet,
        "eklet-1",
        [&["node.kubernetes.io/instance-type=eklet"], &[], &[]],
    ),
    (
        "tencent-super-node",
        Kubelet,
        "eklet-2",
        [&[VK], &["eks.tke.cloud.tencent.com/eklet="], &[]],
    ),
    (
        "volcengine-vci",
        VirtualUpdates,
        "vci-1",
        [&["vci.vke.volcengine.com/node-type=vci"], &[], &[]],
    ),
    (
        "volcengine-vci",
        VirtualUpdates,
        "vci-2",
        [&[VK], &["vci.vke.volcengine.com/node-type=vci"], &[]],
    ),
    // What a template asks for that wants ACS; its nodes are those of the next row.
    (
        "alibaba-acs",
        Unknown,
        "acs",
        [&["alibabacloud.com/acs=true"], &[], &[]],
    ),
    (
        "alibaba-eci",
        VirtualUpdates,
        "virtual-kubelet-cn-1",
        [&[VK], &["virtual-kubelet.io/provider=alibabacloud"], &[]],
    ),
    (
        "alibaba-eci",
        VirtualUpdates,
        "vnode-1",
        [&["k8s.aliyun.com/vnode=true"], &[], &[]],
    ),
    (
        "alibaba-eci",
        VirtualUpdates,
        "vnode-2",
        [&[], &["k8s.aliyun.com/vnode=true"], &[]],
    ),
    (
        "azure-aci",
        VirtualInert,
        "virtual-node-aci-linux",
        [&[VK], &["virtual-kubelet.io/provider=azure"], &[]],
    ),
    (
        "azure-aci",
        VirtualInert,
        "untainted",
        [&[VK, "kubernetes.azure.com/managed=false"], &[], &[]],
    ),
    (
        "huawei-cci",
        VirtualUpdates,
        "bursting-node",
        [&[VK], &[], &[]],
    ),
    (
        "kwok",
        VirtualInert,
        "kwok-0",
        [&["type=kwok"], &["kwok.x-k8s.io/node=fake"], &[]],
    ),
    (
        "kwok",
        VirtualInert,
        "kwok-1",
        [&[], &[], &["kwok.x-k8s.io/node=fake"]],
    ),
    ("virtual-kubelet", Unknown, "vk-1", [&[VK], &[], &[]]),
    (
        "virtual-kubelet",
        Unknown,
        "vk-2",
        [&[], &["virtual-kubelet.io/provider=mock"], &[]],
    ),
];

#[test]
fn every_row_is_found_by_each_of_its_marks() {
    for &(row, class, name, [labels, taints, annotations]) in NODES {
        let node = node(name, labels, taints, annotations);
        assert_eq!(
            recognise(&node),
            (class, Some(row.to_owned())),
            "{}",
            node.name
        );
    }
    for row in table().rows() {
        assert!(
            NODES.iter().any(|(name, ..)| **name == *row.name),
            "no node for row {}",
            row.name
        );
        assert!(
            !row.confidence.is_empty() && !row.source.is_empty(),
            "row {} says not where it is from",
            row.name
        );
    }
}

#[test]
fn rows_are_tried_in_the_order_of_the_reference() {
    let names: Vec<_> = table()
        .rows()
        .iter()
        .map(|row| row.name.to_string())
        .collect();
    let expected = [
        "eks-fargate",
        "azure-vn2",
        "liqo",
        "interlink",
        "tencent-super-node",
        "volcengine-vci",
        "alibaba-acs",
        "alibaba-eci",
        "azure-aci",
        "huawei-cci",
        "kwok",
        "virtual-kubelet",
    ];
    assert_eq!(names, expected);
}

#[test]
fn what_no_row_matches_is_an_ordinary_node() {
    let half = [
        node(
            "ip-10-0-0-1",
            &[
                "kubernetes.io/os=linux",
                "node.kubernetes.io/instance-type=m5.large",
            ],
            &["node.kubernetes.io/not-ready="],
            &[],
        ),
        // Only half of what a row asks for.
        node(
            "unmanaged",
            &["kubernetes.azure.com/managed=false"],
            &[],
            &[],
        ),
        node("bursting-node", &[], &[], &[]),
        node(
            "other",
            &[
                "eks.amazonaws.com/compute-type=ec2",
                "k8s.aliyun.com/vnode=false",
                "type=metal",
            ],
            &[],
            &[],
        ),
    ];
    for node in half {
        let found = Recognised::of(&node, &table());
        assert_eq!(
            (found.class, found.row, found.why),
            (Kubelet, None, Why::Ordinary),
            "{}",
            node.name
        );
    }
}

#[test]
fn only_eci_has_a_budget_and_ends_its_own_sidecars() {
    for row in table().rows() {
        let expected = if &*row.name == "alibaba-eci" {
            (Some(4.0), true)
        } else {
            (None, false)
        };
        assert_eq!(
            (
                row.budget
                    .map(swaplet_core::cluster::budget::Rate::per_second),
                row.ends_eci_sidecars
            ),
            expected,
            "{}",
            row.name
        );
    }
}

#[test]
fn why_names_the_row_and_what_was_found() {
    let why = |node: &Node| Recognised::of(node, &table()).why.to_string();
    assert_eq!(
        why(&node("n", &[], &["virtual-kubelet.io/provider=mock"], &[])),
        "row virtual-kubelet: taint virtual-kubelet.io/provider=mock"
    );
    let azure = node(
        "n",
        &["type=virtual-kubelet", "kubernetes.azure.com/managed=false"],
        &[],
        &[],
    );
    assert_eq!(
        why(&azure),
        "row azure-aci: label kubernetes.azure.com/managed=false, label type=virtual-kubelet"
    );
    assert_eq!(
        why(&node("bursting-node", &["type=virtual-kubelet"], &[], &[])),
        "row huawei-cci: name bursting-node, label type=virtual-kubelet"
    );
}

/// One virtual node of Alibaba runs pods on ECI and on ACS.
#[test]
fn pods_that_ask_for_acs_are_of_its_row_on_nodes_of_eci_and_nowhere_else() {
    let eci = Recognised::of(
        &node("n", &["k8s.aliyun.com/vnode=true"], &[], &[]),
        &table(),
    );
    let acs = eci.on_acs(&table()).unwrap();
    let row = acs.row.as_ref().unwrap();
    assert_eq!((acs.class, &*row.name), (Unknown, "alibaba-acs"));
    assert!(row.budget.is_none() && row.swap_under_never.is_none());
    assert_eq!(acs.why.to_string(), "row alibaba-acs: labels of the pod");
    // What an administrator says of a node holds for all of its pods.
    let own = [
        "k8s.aliyun.com/vnode=true",
        "swaplet.io/node-class=VirtualInert",
    ];
    for labels in [&own[..], &["virtualization=virtualnode2"], &[VK], &[]] {
        let other = Recognised::of(&node("n", labels, &[], &[]), &table());
        assert_eq!(other.on_acs(&table()), None, "{labels:?}");
    }

    let asks = |labels: Value| {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": labels}, "spec": {}});
        let pod: PodWire = serde_json::from_value(pod).unwrap();
        pod.read().unwrap().on_acs
    };
    assert!(asks(json!({"alibabacloud.com/acs": "true"})));
    assert!(asks(
        json!({"alibabacloud.com/compute-class": "general-purpose"})
    ));
    for labels in [
        json!({}),
        json!({"alibabacloud.com/eci": "true"}),
        json!({"alibabacloud.com/acs": "false"}),
        json!({"alibabacloud.com/acs": null}),
    ] {
        assert!(!asks(labels.clone()), "{labels}");
    }
}
