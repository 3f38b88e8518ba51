//! Warming where images cannot be swapped in place: which shape pods have, and what a pod of each
//! shape proves.

mod failed_swaps;
mod impossible_command;
mod volumes;

use serde_json::{Value, json};
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::KubeletVersion;
use swaplet_core::warm::pod::{Shape, System, WarmerPod};
use swaplet_core::warm::warming::nodes::shapes;
use swaplet_core::warm::warming::shape::{ShapeChoice, Shapes};
use swaplet_core::warm::warming::{Action, End, Warming};

use crate::node_classes::node as node_object;
use crate::warm::{LIMITS, Node, read};

const C: &str = "r.example/c:1";
const IMPOSSIBLE: Shape = Shape::ImpossibleCommand(System::Linux);
const AUTO: Shapes = Shapes {
    next: Shape::InPlace,
    fallback: Some(IMPOSSIBLE),
};

/// One node whose pods have these shapes.
fn node(images: &[&str], shapes: Shapes) -> Node {
    let mut warming = Warming::new(images.iter().map(|image| (*image).into()).collect(), LIMITS);
    warming.add("n", shapes, true, Moment::START);
    Node {
        warming,
        now: Moment::START,
    }
}

fn impossible(images: &[&str]) -> Node {
    node(
        images,
        Shapes {
            next: IMPOSSIBLE,
            fallback: None,
        },
    )
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
        shape: IMPOSSIBLE,
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
fn the_shape_is_what_the_node_can_do_unless_the_operator_has_chosen() {
    let of = |labels: &[&str], choice| {
        let node = node_object("x", labels, &[], &[]);
        shapes(
            &node,
            &Recognised::of(&node, &NodeTable::built_in()),
            choice,
        )
    };
    let (linux, windows, strange) = (
        &["kubernetes.io/arch=arm64"][..],
        &["kubernetes.io/os=windows"][..],
        &["kubernetes.io/arch=s390x"][..],
    );
    let only = |next| {
        Ok(Shapes {
            next,
            fallback: None,
        })
    };
    assert_eq!(of(&[], ShapeChoice::Auto), Ok(AUTO));
    assert_eq!(of(linux, ShapeChoice::Auto), Ok(AUTO));
    assert_eq!(
        of(windows, ShapeChoice::Auto),
        only(Shape::ImpossibleCommand(System::Windows))
    );
    assert_eq!(of(strange, ShapeChoice::Auto), only(IMPOSSIBLE));
    assert_eq!(of(linux, ShapeChoice::InPlace), only(Shape::InPlace));
    assert!(
        of(windows, ShapeChoice::InPlace)
            .unwrap_err()
            .contains("runs windows")
    );
    assert!(
        of(strange, ShapeChoice::InPlace)
            .unwrap_err()
            .contains("no park program for s390x")
    );
    assert_eq!(of(linux, ShapeChoice::ImpossibleCommand), only(IMPOSSIBLE));
    for choice in [ShapeChoice::Auto, ShapeChoice::ImpossibleCommand] {
        assert!(
            of(&["kubernetes.io/os=plan9"], choice)
                .unwrap_err()
                .contains("plan9")
        );
        assert!(
            of(&["eks.amazonaws.com/compute-type=fargate"], choice)
                .unwrap_err()
                .contains("a machine of its own")
        );
    }
}

#[test]
fn image_volumes_come_after_swaps_where_the_kubelet_surely_has_them_and_else_if_told() {
    let of = |minor: u32, choice| {
        let mut node = node_object("x", &[], &[], &[]);
        node.kubelet = Some(KubeletVersion { major: 1, minor });
        shapes(
            &node,
            &Recognised::of(&node, &NodeTable::built_in()),
            choice,
        )
    };
    assert_eq!(of(35, ShapeChoice::Auto), Ok(AUTO));
    assert_eq!(
        of(36, ShapeChoice::Auto),
        Ok(Shapes {
            next: Shape::InPlace,
            fallback: Some(Shape::ImageVolumes)
        })
    );
    assert_eq!(
        of(34, ShapeChoice::ImageVolumes),
        Ok(Shapes {
            next: Shape::ImageVolumes,
            fallback: None
        })
    );
    for labels in [
        &["kubernetes.io/os=windows"][..],
        &["kubernetes.io/arch=s390x"],
    ] {
        let node = node_object("x", labels, &[], &[]);
        let shapes = shapes(
            &node,
            &Recognised::of(&node, &NodeTable::built_in()),
            ShapeChoice::ImageVolumes,
        );
        assert!(shapes.is_err_and(|why| why.contains("park")), "{labels:?}");
    }
}
