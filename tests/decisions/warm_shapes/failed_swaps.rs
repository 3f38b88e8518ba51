//! Where swaps fail: when pods of another shape go on, and when not.

use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::warming::shape::Shapes;
use swaplet_core::warm::warming::{Action, End};

use super::{AUTO, C, creates, ends, impossible, node, not_started, set, why};
use crate::warm::{A, B, nothing, pod, running};

#[test]
fn where_a_swap_is_forbidden_pods_with_an_impossible_command_go_on() {
    for denial in [
        "admission webhook \"policy.example\" denied the request: no updates",
        "cannot patch resource \"pods\"",
    ] {
        let mut node = node(&[A, B, C], AUTO);
        node.creates(A, "u")
            .sees(pod("u", A, None, &running("c0", A)));
        let swap = node.step().unwrap();
        assert!(matches!(&swap, Action::Swap { .. }), "{swap:?}");
        node.answers(&swap, Err(WriteError::Denied(denial.to_owned())))
            .deletes("u");
        creates(&mut node, &[B, C], "v");
        let told = node.warming.fallbacks();
        assert!(
            matches!(&told[..], [(name, why)] if &**name == "n" && why.contains(denial)),
            "{told:?}"
        );
        assert!(node.warming.fallbacks().is_empty(), "it is told once");
        node.sees(set("v", &[B, C], "Failed", &[not_started(), not_started()]))
            .deletes("v");
        assert_eq!(ends(&node), [const { Some(End::Succeeded) }; 3]);
    }
}

#[test]
fn a_swap_that_lost_a_race_is_no_reason_for_another_shape() {
    let mut node = node(&[A, B], AUTO);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    node.answers(&swap, Err(WriteError::Conflict))
        .assert_silent();
    node.after(1).swaps("u", A, B, "c0");
    assert!(node.warming.fallbacks().is_empty());
}

#[test]
fn where_the_operator_wants_swaps_only_a_forbidden_one_is_a_failure() {
    let mut node = node(&[A, B], Shapes::in_place());
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    node.answers(&swap, Err(WriteError::Denied("no updates".to_owned())))
        .deletes("u");
    assert_eq!(why(&node, 1), "no updates");
    node.assert_silent();
}

#[test]
fn a_node_that_ignores_its_first_swap_gets_pods_of_the_other_shape() {
    let mut node = node(&[A, B], AUTO);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    node.sees(pod("u", B, Some("c0"), &running("c0", A)))
        .after(99)
        .assert_silent();
    node.after(1).deletes("u");
    creates(&mut node, &[B], "v");
    let told = node.warming.fallbacks();
    assert!(
        told[0]
            .1
            .contains("after a change of the image of its pod it was not pulled within 100 s"),
        "{told:?}"
    );
}

#[test]
fn where_a_swap_has_worked_a_slow_pull_is_a_slow_pull() {
    let mut node = node(&[A, B, C], AUTO);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    node.sees(pod("u", B, Some("c0"), &running("c1", B)))
        .swaps("u", B, C, "c1");
    node.after(100).deletes("u");
    assert!(node.warming.fallbacks().is_empty());
    node.after(12).creates(C, "v");
}

#[test]
fn a_pod_of_an_earlier_life_is_taken_over_whatever_its_shape_is() {
    let mut node = node(&[A, B], AUTO);
    node.sees(set("u", &[A, B], "Failed", &[not_started(), not_started()]))
        .deletes("u");
    assert_eq!(ends(&node), [Some(End::Succeeded), Some(End::Succeeded)]);
    let mut node = impossible(&[A, B]);
    node.sees(pod("u", A, None, &nothing())).assert_silent();
    node.sees(pod("u", A, None, &running("c0", A))).deletes("u");
    creates(&mut node, &[B], "v");
}
