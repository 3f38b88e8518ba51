//! How nodes are recognised: every row of the table, their order, rows and labels of the
//! administrator's own.

use NodeClass::{Kubelet, Unknown, VirtualInert, VirtualRejects, VirtualUpdates};
use serde_json::{Value, json};
use swaplet_core::cluster::node_class::{NodeClass, OVERRIDE, Recognised, Why};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::node::{Node, NodeWire};

fn table() -> NodeTable {
    NodeTable::built_in()
}

fn own(yaml: &str) -> NodeTable {
    NodeTable::read(yaml)
        .unwrap_or_else(|error| panic!("{error}"))
        .before(&table())
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

/// virtual-nodes.md B.7.
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

// The administrator's own.

#[test]
fn a_node_says_its_own_class_by_label_or_annotation() {
    for class in [Kubelet, VirtualUpdates, VirtualInert, VirtualRejects] {
        let mark = format!("{OVERRIDE}={class}");
        for (labels, annotations, place) in [
            (vec![&*mark], vec![], "label"),
            (vec![], vec![&*mark], "annotation"),
        ] {
            let found = Recognised::of(
                &node(
                    "n",
                    &[&labels[..], &["k8s.aliyun.com/vnode=true"]].concat(),
                    &[],
                    &annotations,
                ),
                &table(),
            );
            assert_eq!(
                (found.class, found.why, found.problem),
                (class, Why::Own(place), None)
            );
            assert!(
                found.row.is_some_and(|row| row.budget.is_some()),
                "the budget of the provider holds all the same"
            );
        }
    }
    let both = node(
        "n",
        &["swaplet.io/node-class=VirtualInert"],
        &[],
        &["swaplet.io/node-class=Kubelet"],
    );
    assert_eq!(Recognised::of(&both, &table()).class, VirtualInert);
}

#[test]
fn a_class_that_is_none_is_told_and_the_row_counts() {
    for wrong in ["kubelet", "Inert", "Daemon", "Unknown", "", "VirtualInert "] {
        let label = format!("{OVERRIDE}={wrong}");
        let found = Recognised::of(
            &node("n", &[&label, "liqo.io/type=virtual-node"], &[], &[]),
            &table(),
        );
        assert_eq!(
            (found.class, &found.why.to_string()[..9]),
            (VirtualInert, "row liqo:"),
            "{wrong}"
        );
        let problem = found.problem.unwrap();
        assert!(
            problem.contains(&format!("{wrong:?}"))
                && problem.contains("Kubelet, VirtualUpdates, VirtualInert, VirtualRejects"),
            "{problem}"
        );
    }
}

#[test]
fn own_rows_come_first() {
    let own = own("
- {name: ours, class: VirtualRejects, match: [{labels: [k8s.aliyun.com/vnode]}]}
- {name: edge, class: VirtualInert, updatesPerSecond: 0.5, match: [{name: 'edge-*', taints: [edge]}]}
");
    let found = |node: &Node| {
        let found = Recognised::of(node, &own);
        (found.class, found.provider().map(str::to_owned))
    };
    assert_eq!(
        found(&node("n", &["k8s.aliyun.com/vnode=true"], &[], &[])),
        (VirtualRejects, Some("ours".to_owned()))
    );
    assert_eq!(
        found(&node("edge-7", &[], &["edge=a"], &[])),
        (VirtualInert, Some("edge".to_owned()))
    );
    for other in [
        node("edge-7", &[], &[], &[]),
        node("an-edge-7", &[], &["edge=a"], &[]),
    ] {
        assert_eq!(found(&other), (Kubelet, None));
    }
    assert_eq!(
        found(&node("n", &["liqo.io/type=virtual-node"], &[], &[])),
        (VirtualInert, Some("Liqo".to_owned()))
    );
}

#[test]
fn a_node_that_cannot_be_looked_at_is_unknown_but_for_rows_that_go_by_the_name() {
    let found = Recognised::by_name("bursting-node", &table());
    assert_eq!((found.class, found.why), (Unknown, Why::NotSeen));
    let all = own("[{name: all, class: Kubelet, match: [{name: '*'}]}]");
    assert_eq!(Recognised::by_name("any", &all).class, Kubelet);
}

#[test]
fn a_table_with_an_error_names_the_row_the_field_and_the_fix() {
    let cases = [
        (
            "[{name: a, class: Kubelets, match: [{name: x}]}]",
            "row \"a\": class: \"Kubelets\" is none of Kubelet, VirtualUpdates",
        ),
        (
            "[{name: a, class: Daemon, match: [{name: x}]}]",
            "row \"a\": class: \"Daemon\" is none of",
        ),
        (
            "[{name: a, class: Kubelet, match: []}]",
            "row \"a\": match: is empty: name at least one",
        ),
        (
            "[{name: a, class: Kubelet, match: [{}]}]",
            "row \"a\": match: an entry names nothing",
        ),
        (
            "[{name: a, class: Kubelet, match: [{labels: ['=x']}]}]",
            "row \"a\": match: \"=x\" is not KEY=VALUE",
        ),
        (
            "[{name: a, class: Kubelet, match: [{taints: ['a: b']}]}]",
            "is not KEY=VALUE",
        ),
        (
            "[{name: a, class: Kubelet, updatesPerSecond: 0, match: [{name: x}]}]",
            "row \"a\": updatesPerSecond: 0 is not from 0.01 to 1000",
        ),
        (
            "[{name: a, class: Kubelet, updatesPerSecond: .nan, match: [{name: x}]}]",
            "updatesPerSecond",
        ),
        (
            "[{name: '', class: Kubelet, match: [{name: x}]}]",
            "name: is empty",
        ),
        (
            "[{name: a, class: Kubelet, matches: [{name: x}]}]",
            "matches",
        ),
        ("[{name: a, match: [{name: x}]}]", "class"),
        ("rows: []", "line 1"),
        ("[", "line 1"),
    ];
    for (yaml, words) in cases {
        let error = NodeTable::read(yaml).expect_err(yaml).to_string();
        assert!(error.contains(words), "{yaml}: {error}");
    }
    assert_eq!(
        NodeTable::read("[]"),
        Ok(NodeTable::default()),
        "a file may be empty of rows"
    );
}
