//! Nodes that are not Ready, that go, and that keep no images.

use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::warming::{Action, Elsewhere, Limits, Warming, shape};

use super::create;
use crate::expect::moment;
use crate::node_classes::node as node_object;
use crate::warm::{A, B, LIMITS, Node, nothing, pod};

#[test]
fn w11_a_node_that_is_not_ready_is_waited_for_and_then_given_up() {
    let mut node = Node::new(&[A]);
    node.warming.observe_node("n", false, Moment::START);
    node.after(50).assert_silent();
    node.warming.observe_node("n", true, node.now);
    node.creates(A, "u");
    node.warming.observe_node("n", false, node.now);
    node.after(99).warming.observe_node("n", false, moment(149));
    node.assert_silent();
    node.after(1).deletes("u").assert_silent();
    assert_eq!(node.failure(), "the node is not Ready");
}

/// Else others begin beside it on the node, and more nodes of the job than its parallelism allows.
#[test]
fn a_node_that_was_given_up_takes_a_slot_again_when_an_edit_adds_an_image() {
    let mut node = Node::new(&[A]);
    node.warming.observe_node("n", false, Moment::START);
    node.after(100).assert_silent();
    assert_eq!(node.failure(), "the node is not Ready");
    node.warming.observe_node("n", true, node.now);
    node.warming.set_images(vec![A.into(), B.into()]);
    node.creates(B, "u");
    assert!(node.holds_a_slot());
}

/// As after an outage: the old pod is gone only when the kubelet is there again.
#[test]
fn a_node_that_was_given_up_with_a_pod_starts_again_once_it_is_ready_and_the_pod_is_gone() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u");
    node.warming.observe_node("n", false, node.now);
    let delete = node.after(100).step().unwrap();
    assert_eq!(node.failure(), "the node is not Ready");
    node.answers(&delete, Ok(None));
    let mut leaving = pod("u", A, None, &nothing());
    leaving.deleting = true;
    node.sees(leaving);
    node.warming.try_again("n", true, node.now);
    node.assert_silent();
    node.warming.pod_is_gone("u", node.now);
    node.after(1).creates(A, "v");
    assert!(node.holds_a_slot());
}

#[test]
fn w11_a_node_that_goes_fails_with_that_reason_and_its_slot_is_free() {
    let limits = Limits {
        parallelism: 1,
        ..LIMITS
    };
    let mut warming = Warming::new(vec![A.into()], limits);
    warming.add("a", Shape::InPlace, true, Moment::START);
    warming.add("b", Shape::InPlace, true, Moment::START);
    let creates = |warming: &mut Warming| {
        let created = warming
            .step(Moment::START, |_| Elsewhere::default())
            .into_iter()
            .filter(|(_, action)| matches!(action, Action::Create { .. }));
        created.map(|(node, _)| node).collect::<Vec<_>>()
    };
    assert_eq!(creates(&mut warming), ["a".into()]);
    assert!(creates(&mut warming).is_empty(), "one at a time");
    let create = create(0);
    let mut pod = pod("u", A, None, &nothing());
    pod.node = "a".into();
    warming.written("a", &create, Ok(Some(Box::new(pod))), Moment::START);
    assert!(creates(&mut warming).is_empty());
    warming.node_is_gone("a");
    let actions = warming.step(Moment::START, |_| Elsewhere::default());
    assert!(
        matches!(&actions[..], [(_, Action::Delete { .. }), (node, Action::Create { .. })] if &**node == "b"),
        "{actions:?}"
    );
}

/// Labels and taints of nodes that keep no images, and what is said of them.
const KEEP_NOTHING: &[(&[&str], &[&str], &str)] = &[
    (
        &["eks.amazonaws.com/compute-type=fargate"],
        &[],
        "EKS Fargate runs each pod on a machine of its own",
    ),
    (
        &["virtualization=virtualnode2"],
        &["virtual-kubelet.io/provider=azure"],
        "(VN2) runs each pod on a machine of its own",
    ),
    (
        &["node.kubernetes.io/instance-type=eklet"],
        &[],
        "on a machine of its own",
    ),
    (
        &[],
        &["virtual-kubelet.io/provider=alibabacloud"],
        "Alibaba ECI keeps no images",
    ),
    (
        &[],
        &["virtual-kubelet.io/provider=azure"],
        "keeps no images for later pods (row azure-aci",
    ),
    (
        &["swaplet.io/node-class=VirtualUpdates"],
        &[],
        "keeps no images",
    ),
    (&["type=virtual-kubelet"], &[], "it is not known whether"),
    (&["kubernetes.io/os=plan9"], &[], "this node runs plan9"),
    (
        &["kubernetes.io/os=linux"],
        &[],
        "does not say its processor",
    ),
    (&["pool=a"], &[], "says its operating system neither"),
    (
        &["kubernetes.io/os=linux", "kubernetes.io/arch=s390x"],
        &[],
        "no park program for s390x",
    ),
];

#[test]
fn nodes_that_keep_no_images_are_left_out_with_the_reason() {
    let why = |labels: &[&str], taints: &[&str]| {
        let node = node_object("x", labels, taints, &[]);
        shape(&node, &Recognised::of(&node, &NodeTable::built_in())).err()
    };
    assert_eq!(
        why(&["kubernetes.io/os=linux", "kubernetes.io/arch=arm64"], &[]),
        None
    );
    assert_eq!(
        why(
            &[
                "type=virtual-kubelet",
                "swaplet.io/node-class=Kubelet",
                "kubernetes.io/os=linux",
                "kubernetes.io/arch=amd64"
            ],
            &[]
        ),
        None
    );
    for &(labels, taints, words) in KEEP_NOTHING {
        assert!(
            why(labels, taints).is_some_and(|why| why.contains(words)),
            "{labels:?} {taints:?}: {:?}",
            why(labels, taints)
        );
    }
}
