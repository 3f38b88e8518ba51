//! How long a node takes one of the slots that `parallelism` allows.

use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::warming::{Action, Elsewhere, Limits};

use super::unanswered;
use crate::warm::{A, LIMITS, Node, nothing, pod, refused};

/// Another node of the job, `z`, where images can be warmed.
fn add_another(node: &mut Node) {
    node.warming.add("z", Shape::InPlace, true, node.now);
}

/// Two nodes, of which one at a time may pull.
fn beside_another(backoff_limit: u32) -> Node {
    let limits = Limits {
        parallelism: 1,
        backoff_limit,
        ..LIMITS
    };
    let mut node = Node::with(&[A], limits);
    add_another(&mut node);
    node
}

fn assert_only_another_creates(node: &mut Node) {
    let actions = node.warming.step(node.now, |_| Elsewhere::default());
    assert!(
        matches!(&actions[..], [(name, Action::Create { .. })] if &**name == "z"),
        "{actions:?}"
    );
}

#[test]
fn a_slot_is_taken_until_the_pod_is_gone() {
    let mut node = beside_another(0);
    node.creates(A, "u").after(100);
    assert!(
        matches!(node.step(), Some(Action::Delete { .. })),
        "a pull that may still be under way"
    );
    node.answers(
        &Action::Delete {
            name: "pod-u".into(),
            uid: "u".into(),
        },
        Ok(None),
    )
    .after(5);
    let mut leaving = pod("u", A, None, &nothing());
    leaving.deleting = true;
    node.sees(leaving).assert_silent();
    node.warming.pod_is_gone("u", node.now);
    assert_only_another_creates(&mut node);
}

#[test]
fn a_creation_that_nobody_has_answered_takes_a_slot_until_that_is_known() {
    let mut node = beside_another(1);
    let create = node.step().unwrap();
    node.answers(&create, unanswered()).assert_silent();
    assert_eq!(node.after(2).step(), Some(create.clone()));
    node.answers(&create, Err(WriteError::Conflict))
        .assert_silent();
    node.sees(pod("u", A, None, &nothing()))
        .after(1)
        .assert_silent();
}

#[test]
fn a_node_that_only_waits_for_another_try_gives_its_slot_to_those_who_want_it() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &refused("", "", A)))
        .assert_silent();
    add_another(&mut node);
    node.deletes("u");
    assert_only_another_creates(&mut node);
    node.after(12).assert_silent();
}
