//! Pods with image volumes: what proves an image, and when another shape goes on.

use serde_json::{Value, json};
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::{Shape, WarmerPod};
use swaplet_core::warm::warming::shape::Shapes;
use swaplet_core::warm::warming::{Action, End};

use super::{C, creates, ended, ends, node, not_started, set, waits, why};
use crate::warm::{A, B, Node};

/// The same pod with volumes for the images.
fn volumes(uid: &str, images: &[&str], phase: &str, said: &[Value]) -> WarmerPod {
    WarmerPod {
        shape: Shape::ImageVolumes,
        ..set(uid, images, phase, said)
    }
}

#[test]
fn a_container_that_runs_has_its_volume_and_one_that_ends_proves_nothing() {
    let runs = json!({"imageID": "park", "containerID": "c", "state": {"running": {}}});
    for (said, words) in [
        (waits("ErrImagePull"), "ErrImagePull"),
        (waits("CreateContainerError"), "CreateContainerError"),
        (not_started(), "as a volume has ended with 128"),
        (ended(0, "Completed"), "as a volume has ended with 0"),
    ] {
        let mut node = node(
            &[A, B, C],
            Shapes {
                next: Shape::ImageVolumes,
                fallback: None,
            },
        );
        let action = node.step().unwrap();
        assert!(
            matches!(&action, Action::Create { shape: Shape::ImageVolumes, images, .. } if images.len() == 3),
            "{action:?}"
        );
        node.answers(
            &action,
            Ok(Some(Box::new(volumes("u", &[A, B, C], "Pending", &[])))),
        );
        let said = || {
            volumes(
                "u",
                &[A, B, C],
                "Running",
                &[runs.clone(), said.clone(), runs.clone()],
            )
        };
        node.sees(said()).assert_silent();
        assert_eq!(
            ends(&node),
            [Some(End::Succeeded), None, Some(End::Succeeded)]
        );
        node.after(12).sees(said()).deletes("u");
        assert!(why(&node, 1).contains(words), "{}", why(&node, 1));
    }
}

/// Where swaps do not work on a node with image volumes.
fn with_volumes(images: &[&str]) -> Node {
    node(images, Shapes::after(Shape::ImageVolumes))
}

/// What is told of the node's shapes since the last time.
fn told(node: &mut Node) -> String {
    let told = node.warming.fallbacks();
    let [(name, why)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(&**name, "n");
    why.to_string()
}

#[test]
fn where_a_runtime_has_no_image_volumes_pods_with_an_impossible_command_go_on() {
    let mut node = with_volumes(&[A, B]);
    let action = node.step().unwrap();
    node.answers(
        &action,
        Ok(Some(Box::new(volumes("u", &[A, B], "Pending", &[])))),
    );
    let runs = json!({"imageID": "park", "containerID": "c", "state": {"running": {}}});
    node.sees(volumes(
        "u",
        &[A, B],
        "Running",
        &[runs, waits("CreateContainerError")],
    ))
    .deletes("u");
    assert_eq!(
        told(&mut node),
        "an image cannot be mounted as a volume: CreateContainerError: not found"
    );
    assert_eq!(
        ends(&node),
        [Some(End::Succeeded), None],
        "what was proved stays proved"
    );
    creates(&mut node, &[B], "v");
}

#[test]
fn a_missing_image_is_no_reason_for_another_shape() {
    let mut node = with_volumes(&[A]);
    let action = node.step().unwrap();
    node.answers(
        &action,
        Ok(Some(Box::new(volumes("u", &[A], "Pending", &[])))),
    );
    node.sees(volumes("u", &[A], "Pending", &[waits("ErrImagePull")]))
        .assert_silent();
    node.after(12).deletes("u");
    assert!(why(&node, 0).contains("ErrImagePull"));
    assert!(node.warming.fallbacks().is_empty());
}

#[test]
fn where_a_policy_forbids_image_volumes_pods_with_an_impossible_command_go_on() {
    for denial in [
        "violates PodSecurity \"restricted:v1.30\": restricted volume types",
        "volumes of this type are not allowed",
    ] {
        let mut node = with_volumes(&[A, B]);
        let action = node.step().unwrap();
        node.answers(&action, Err(WriteError::Denied(denial.to_owned())));
        assert_eq!(
            told(&mut node),
            format!("a pod with image volumes cannot be created: {denial}")
        );
        creates(&mut node, &[A, B], "u");
    }
    let mut node = with_volumes(&[A, B]);
    let action = node.step().unwrap();
    node.answers(
        &action,
        Err(WriteError::Denied("exceeded quota: pods".to_owned())),
    )
    .assert_silent();
    assert!(
        node.warming.fallbacks().is_empty(),
        "a quota holds for every shape"
    );
}
