//! The administrator's own: classes by label or annotation, and rows.

use NodeClass::{Kubelet, Unknown, VirtualInert, VirtualRejects, VirtualUpdates};
use swaplet_core::cluster::node_class::{NodeClass, OVERRIDE, Recognised, Why};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::node::Node;

use super::{node, table};

fn own(yaml: &str) -> NodeTable {
    NodeTable::read(yaml)
        .unwrap_or_else(|error| panic!("{error}"))
        .before(&table())
}

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
