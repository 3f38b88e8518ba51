//! Warming where images cannot be swapped in place: which shape pods have, and what they prove.

mod failed_swaps;
mod impossible_command;

use serde_json::{Value, json};
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pod::{Shape, WarmerPod};
use swaplet_core::warm::warming::{Action, End, Warming, shape};

use crate::node_classes::node as node_object;
use crate::warm::{LIMITS, Node, read};

const C: &str = "r.example/c:1";
/// One node whose pods have this shape.
fn node(images: &[&str], shape: Shape) -> Node {
    let mut warming = Warming::new(images.iter().map(|image| (*image).into()).collect(), LIMITS);
    warming.add("n", shape, true, Moment::START);
    Node {
        warming,
        now: Moment::START,
    }
}

fn impossible(images: &[&str]) -> Node {
    node(images, Shape::ImpossibleCommand)
}

/// What a node says of one container.
fn not_started() -> Value {
    json!({"imageID": "r.example/x@sha256:1", "containerID": "containerd://1",
        "state": {"terminated": {"exitCode": 128, "reason": "StartError"}}})
}

fn waits(reason: &str) -> Value {
    json!({"imageID": "", "state": {"waiting": {"reason": reason, "message": "not found"}}})
}

fn ended(exit_code: i32, reason: &str) -> Value {
    json!({"imageID": "r.example/x@sha256:1", "containerID": "containerd://1",
        "state": {"terminated": {"exitCode": exit_code, "reason": reason}}})
}

fn creating() -> Value {
    waits("ContainerCreating")
}

/// A pod with a container for each image, as the API server sends it.
fn set(uid: &str, images: &[&str], phase: &str, said: &[Value]) -> WarmerPod {
    let name = |number: usize| format!("image-{number}");
    let containers: Vec<_> = images
        .iter()
        .enumerate()
        .map(|(number, image)| json!({"name": name(number), "image": image}))
        .collect();
    let statuses: Vec<_> = said
        .iter()
        .enumerate()
        .map(|(number, said)| {
            let mut status = said.clone();
            status["name"] = name(number).into();
            status
        })
        .collect();
    read(json!({
        "metadata": {"name": format!("pod-{uid}"), "uid": uid,
            "annotations": {"swaplet.io/warm-node": "n", "swaplet.io/warm-image": images.join(" ")}},
        "spec": {"containers": containers},
        "status": {"phase": phase, "containerStatuses": statuses},
    }))
}

/// A pod is made that pulls all of these; while that is under way nothing else is written.
fn creates(node: &mut Node, images: &[&str], uid: &str) {
    let action = node.step().expect("a creation");
    let Action::Create {
        shape: Shape::ImpossibleCommand,
        images: made,
        ..
    } = &action
    else {
        panic!("{action:?}")
    };
    assert_eq!(
        made.iter().map(|image| &**image).collect::<Vec<_>>(),
        images
    );
    node.assert_silent();
    node.answers(
        &action,
        Ok(Some(Box::new(set(uid, images, "Pending", &[])))),
    );
}

fn ends(node: &Node) -> Vec<Option<End>> {
    node.warming
        .progress_on("n")
        .unwrap()
        .iter()
        .map(|image| image.end.clone())
        .collect()
}

fn why(node: &Node, index: usize) -> String {
    match &ends(node)[index] {
        Some(End::Failed(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_shape_is_what_the_node_can_do() {
    let of = |label: &str| {
        let labels = ["kubernetes.io/os=linux", "kubernetes.io/arch=amd64", label];
        let node = node_object("x", &labels, &[], &[]);
        shape(&node, &Recognised::of(&node, &NodeTable::built_in()))
    };
    assert_eq!(of("pool=a"), Ok(Shape::InPlace));
    assert_eq!(of("kubernetes.io/arch=arm64"), Ok(Shape::InPlace));
    assert_eq!(of("kubernetes.io/os=windows"), Ok(Shape::ImpossibleCommand));
    for (label, words) in [
        ("kubernetes.io/arch=s390x", "no park program for s390x"),
        ("kubernetes.io/os=plan9", "plan9"),
        (
            "eks.amazonaws.com/compute-type=fargate",
            "a machine of its own",
        ),
    ] {
        assert!(of(label).unwrap_err().contains(words), "{label}");
    }
}
