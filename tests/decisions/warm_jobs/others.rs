//! What jobs that want the same node do to each other.

use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::warming::{Action, Elsewhere, Limits};

use crate::warm::{A, B, LIMITS, Node, nothing, pod, running, seconds};

#[test]
fn a_node_that_others_have_is_not_begun_with_and_one_that_they_want_is_given_up_between_tries() {
    let mut node = Node::new(&[A]);
    let taken = |_: &str| Elsewhere {
        taken: true,
        ..Elsewhere::default()
    };
    assert_eq!(
        (
            node.warming.step(node.now, taken),
            node.warming.waits_for("n", node.now)
        ),
        (Vec::new(), true)
    );
    node.warming.is_free_again("n");
    node.creates(A, "u");
    assert_eq!(
        (
            node.warming.waits_for("n", node.now),
            node.warming.active().count()
        ),
        (false, 1)
    );
    let wanted = |_: &str| Elsewhere {
        wanted: true,
        ..Elsewhere::default()
    };
    assert_eq!(
        node.warming.step(node.now, wanted),
        [],
        "not in the middle of a try"
    );
    node.sees(pod("u", A, None, &crate::warm::refused("", "", A)))
        .after(1);
    let actions = node.warming.step(node.now, wanted);
    assert!(
        matches!(&actions[..], [(_, Action::Delete { .. })]),
        "{actions:?}"
    );
}

/// Others wait for the node.
const WANTED: fn(&str) -> Elsewhere = |_| Elsewhere {
    taken: false,
    wanted: true,
    others_pull: false,
};

fn gives_way(node: &mut Node, uid: &str) {
    let actions = node.warming.step(node.now, WANTED);
    assert!(
        matches!(&actions[..], [(_, Action::Delete { .. })]),
        "{actions:?}"
    );
    node.warming.written("n", &actions[0].1, Ok(None), node.now);
    node.after(1);
    node.warming.pod_is_gone(uid, node.now);
}

#[test]
fn a9_a_job_gives_way_after_one_image_where_others_want_the_node() {
    let mut node = Node::with(&[A, B], LIMITS);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    gives_way(&mut node, "u");
    assert_eq!(node.ends(), [Some(String::new()), None]);
    node.creates(B, "v")
        .sees(pod("v", B, None, &running("c1", B)))
        .deletes("v")
        .assert_silent();
}

#[test]
fn a9_a_pull_gives_way_after_ten_minutes_and_what_it_has_taken_counts() {
    let mut node = Node::with(
        &[A],
        Limits {
            timeout: seconds(1800),
            backoff_limit: 0,
            ..LIMITS
        },
    );
    node.creates(A, "u");
    node.after(599);
    assert_eq!(node.warming.step(node.now, WANTED), []);
    node.after(1);
    gives_way(&mut node, "u");
    node.creates(A, "v").after(600);
    gives_way(&mut node, "v");
    assert_eq!(node.ends(), [None], "it is no failure");
    node.creates(A, "w").after(599).assert_silent();
    node.after(1).deletes("w");
    assert_eq!(node.failure(), "not pulled within 1800 s");
}

#[test]
fn a9_a_pod_whose_deletion_hangs_keeps_others_from_its_node_for_two_minutes() {
    let mut node = Node::with(&[A], LIMITS);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let action = node.step().unwrap();
    node.answers(&action, Ok(None));
    let mut leaving = pod("u", A, None, &running("c0", A));
    leaving.deleting = true;
    node.sees(leaving.clone()).after(119);
    // Whoever changes the pod meanwhile does not begin the time anew.
    node.sees(WarmerPod {
        images: pod("u", B, None, &running("c0", A)).images,
        ..leaving
    });
    assert_eq!(
        (
            node.warming.held(node.now).count(),
            node.warming.active().count()
        ),
        (1, 1)
    );
    node.after(1);
    assert_eq!(
        (
            node.warming.held(node.now).count(),
            node.warming.active().count()
        ),
        (0, 1)
    );
}

#[test]
fn d6_a_pull_that_hangs_keeps_others_from_its_node_for_a_minute_only_and_is_said() {
    let mut node = Node::with(
        &[A],
        Limits {
            timeout: seconds(600),
            ..LIMITS
        },
    );
    node.creates(A, "u").after(59).assert_silent();
    let held = |node: &Node| {
        node.warming
            .held(node.now)
            .map(|(_, is_slow)| is_slow)
            .collect::<Vec<_>>()
    };
    assert_eq!((held(&node), node.warming.waits().slow), (vec![false], 0));
    node.after(1).assert_silent();
    assert_eq!(
        (held(&node), node.warming.waits().first_slow.clone()),
        (vec![true], Some(("n".into(), A.into())))
    );
    assert_eq!(node.ends(), [None], "it goes on");
}

#[test]
fn d6_who_waits_for_pods_of_others_is_said() {
    let mut node = Node::new(&[A]);
    let taken = |_: &str| Elsewhere {
        taken: true,
        ..Elsewhere::default()
    };
    assert_eq!(
        (
            node.warming.step(node.now, taken),
            node.warming.waits().elsewhere
        ),
        (Vec::new(), 1)
    );
    node.warming.is_free_again("n");
    node.creates(A, "u");
    assert_eq!(node.warming.waits().elsewhere, 0);
}

/// A kubelet that pulls does not end the pod.
#[test]
fn d6_a_pod_that_was_deleted_and_does_not_go_is_said_and_replaced() {
    let mut node = Node::with(&[A, B], LIMITS);
    node.creates(A, "u").after(100);
    let action = node.step().unwrap();
    node.answers(&action, Ok(None));
    let going = |uid| WarmerPod {
        deleting: true,
        ..pod(uid, A, None, &nothing())
    };
    node.sees(going("u")).after(119).assert_silent();
    assert_eq!(node.warming.waits().stuck, 0);
    node.after(1);
    assert_eq!(node.step(), None);
    let Some(Action::Create {
        images, number: 1, ..
    }) = node.step()
    else {
        panic!("no other pod")
    };
    assert_eq!(
        (&images[..], node.warming.waits().first_stuck.as_deref()),
        (&[Box::from(A)][..], Some("n"))
    );
    let action = Action::Create {
        shape: swaplet_core::warm::pod::Shape::InPlace,
        images,
        number: 1,
    };
    node.answers(
        &action,
        Ok(Some(Box::new(pod("v", A, None, &running("c0", A))))),
    );
    // What is told of the old one later changes nothing, and its end is the end of the message.
    node.sees(going("u")).swaps("v", A, B, "c0").assert_silent();
    node.warming.pod_is_gone("u", node.now);
    node.assert_silent();
    assert_eq!(
        (node.warming.waits().stuck, node.warming.active().count()),
        (0, 1)
    );
}
