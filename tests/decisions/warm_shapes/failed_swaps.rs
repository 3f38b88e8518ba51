//! Where swaps fail: when another pod goes on, and when not.

use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::warming::{Action, End};

use super::{C, creates, ends, impossible, node, not_started, set};
use crate::warm::{A, B, Node, nothing, pod, running};

/// A node whose pod has the first image, and the swap that it is to get.
fn with_first(images: &[&str]) -> (Node, Action) {
    let mut node = node(images, Shape::InPlace);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    assert!(matches!(&swap, Action::Swap { .. }), "{swap:?}");
    (node, swap)
}

#[test]
fn where_a_swap_is_forbidden_each_image_gets_a_pod_that_begins_with_it() {
    for denial in [
        "admission webhook \"policy.example\" denied the request: no updates",
        "cannot patch resource \"pods\"",
    ] {
        let (mut node, swap) = with_first(&[A, B, C]);
        node.answers(&swap, Err(WriteError::Denied(denial.to_owned())))
            .deletes("u")
            .creates(B, "v")
            .sees(pod("v", B, None, &running("c0", B)));
        let swap = node.step().unwrap();
        node.answers(&swap, Err(WriteError::Denied(denial.to_owned())))
            .deletes("v")
            .creates(C, "w")
            .sees(pod("w", C, None, &running("c0", C)))
            .deletes("w");
        assert_eq!(ends(&node), [const { Some(End::Succeeded) }; 3]);
        node.assert_silent();
    }
}

#[test]
fn a_swap_that_lost_a_race_is_made_again() {
    let (mut node, swap) = with_first(&[A, B]);
    node.answers(&swap, Err(WriteError::Conflict))
        .assert_silent();
    node.after(1).swaps("u", A, B, "c0");
}

#[test]
fn a_node_that_ignores_a_swap_gets_a_pod_that_begins_with_the_image() {
    let mut node = node(&[A, B], Shape::InPlace);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    node.sees(pod("u", B, Some("c0"), &running("c0", A)))
        .after(99)
        .assert_silent();
    node.after(1).deletes("u");
    node.after(12).creates(B, "v");
}

#[test]
fn a_pod_of_an_earlier_life_is_taken_over_whatever_its_shape_is() {
    let mut node = node(&[A, B], Shape::InPlace);
    node.sees(set("u", &[A, B], "Failed", &[not_started(), not_started()]))
        .deletes("u");
    assert_eq!(ends(&node), [Some(End::Succeeded), Some(End::Succeeded)]);
    let mut node = impossible(&[A, B]);
    node.sees(pod("u", A, None, &nothing())).assert_silent();
    node.sees(pod("u", A, None, &running("c0", A))).deletes("u");
    creates(&mut node, &[B], "v");
}
