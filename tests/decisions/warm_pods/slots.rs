//! How long a node takes one of the slots that `parallelism` allows.

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::warming::shape::Shapes;
use swaplet_core::warm::warming::{Action, Elsewhere, Limits, Warming};

use crate::warm::{A, Node, nothing, pod, refused, seconds};

#[test]
fn a_slot_is_taken_until_the_pod_is_gone() {
    let limits = Limits {
        parallelism: 1,
        timeout: seconds(100),
        backoff_limit: 0,
        ask_again: None,
    };
    let mut warming = Warming::new(vec![A.into()], limits);
    warming.add("n", Shapes::in_place(), true, Moment::START);
    warming.add("z", Shapes::in_place(), true, Moment::START);
    let mut node = Node {
        warming,
        now: Moment::START,
    };
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
    let actions = node.warming.step(node.now, |_| Elsewhere::default());
    assert!(
        matches!(&actions[..], [(name, Action::Create { .. })] if &**name == "z"),
        "{actions:?}"
    );
}

#[test]
fn a_creation_that_nobody_has_answered_takes_a_slot_until_that_is_known() {
    let limits = Limits {
        parallelism: 1,
        timeout: seconds(100),
        backoff_limit: 1,
        ask_again: None,
    };
    let mut warming = Warming::new(vec![A.into()], limits);
    warming.add("n", Shapes::in_place(), true, Moment::START);
    warming.add("z", Shapes::in_place(), true, Moment::START);
    let mut node = Node {
        warming,
        now: Moment::START,
    };
    let create = node.step().unwrap();
    node.answers(
        &create,
        Err(WriteError::Failed {
            error: String::new(),
            retry_after: None,
        }),
    )
    .assert_silent();
    assert_eq!(node.after(2).step(), Some(create.clone()));
    node.answers(&create, Err(WriteError::Conflict))
        .assert_silent();
    node.sees(pod("u", A, None, &nothing()))
        .after(1)
        .assert_silent();
}

#[test]
fn a_node_that_only_waits_for_another_try_gives_its_slot_to_those_who_want_it() {
    let limits = Limits {
        parallelism: 1,
        timeout: seconds(100),
        backoff_limit: 1,
        ask_again: None,
    };
    let mut warming = Warming::new(vec![A.into()], limits);
    warming.add("n", Shapes::in_place(), true, Moment::START);
    let mut node = Node {
        warming,
        now: Moment::START,
    };
    node.creates(A, "u")
        .sees(pod("u", A, None, &refused("", "", A)))
        .assert_silent();
    node.warming
        .add("z", Shapes::in_place(), true, Moment::START);
    node.deletes("u");
    let actions = node.warming.step(node.now, |_| Elsewhere::default());
    assert!(
        matches!(&actions[..], [(name, Action::Create { .. })] if &**name == "z"),
        "{actions:?}"
    );
    node.after(12).assert_silent();
}
