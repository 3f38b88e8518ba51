//! What happens to warmer pods, their nodes and the writes.

use std::time::Duration;

use serde_json::json;
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::warming::nodes::shapes;
use swaplet_core::warm::warming::pulled::Pulled;
use swaplet_core::warm::warming::shape::{ShapeChoice, Shapes};
use swaplet_core::warm::warming::{Action, Answer, Elsewhere, Limits, Warming};

use crate::node_classes::node as node_object;
use crate::warm::{A, B, Node, nothing, object, pod, read, refused, running, seconds};

/// As written by the API server.
fn starting(uid: &str, status: serde_json::Value) -> swaplet_core::warm::pod::WarmerPod {
    let mut object = object(uid, A, None, &nothing());
    object["status"] = status;
    read(object)
}

#[test]
fn w12_a_lost_pod_is_made_again_a_minute_later_and_not_for_ever() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u")
        .warming
        .pod_is_gone("u", Duration::ZERO);
    node.after(59).assert_silent();
    node.after(1).creates(A, "v");
    let evicted = starting(
        "v",
        json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory"}),
    );
    node.sees(evicted);
    assert!(matches!(node.step(), Some(Action::Delete { .. })));
    node.answers(
        &Action::Delete {
            name: "pod-v".into(),
            uid: "v".into(),
        },
        Answer::Gone,
    )
    .assert_silent();
    assert_eq!(
        node.failure(),
        "the warmer pod was lost: Evicted: The node was low on resource: memory"
    );
    assert!(node.warming.is_over());
}

#[test]
fn an_old_state_of_a_pod_that_is_gone_brings_nothing_back() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u")
        .warming
        .pod_is_gone("u", Duration::ZERO);
    node.sees(pod("u", A, None, &running("c0", A)));
    assert_eq!(node.ends(), [None]);
    node.after(60).creates(A, "v");
}

#[test]
fn a_pod_that_does_not_start_says_what_keeps_it() {
    for (status, words) in [
        (
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: Insufficient pods"}]}),
            "Insufficient pods",
        ),
        (
            json!({"initContainerStatuses": [{"name": "park", "state": {"waiting": {"reason": "ErrImagePull", "message": "no route"}}}]}),
            "park image waits: ErrImagePull: no route",
        ),
        (
            json!({"initContainerStatuses": [{"name": "park", "state": {"terminated": {"exitCode": 1}}}]}),
            "has ended with 1",
        ),
        (json!({}), "its node has not said why"),
    ] {
        let mut node = Node::new(&[A, B]);
        node.creates(A, "u")
            .sees(starting("u", status))
            .after(119)
            .assert_silent();
        node.after(1).deletes("u").assert_silent();
        assert!(
            node.ends()
                .iter()
                .all(|end| end.as_ref().is_some_and(|why| why.contains(words))),
            "{:?}",
            node.ends()
        );
    }
}

#[test]
fn w11_a_node_that_is_not_ready_is_waited_for_and_then_given_up() {
    let mut node = Node::new(&[A]);
    node.warming.see_node("n", false, Duration::ZERO);
    node.after(50).assert_silent();
    node.warming.see_node("n", true, node.now);
    node.creates(A, "u");
    node.warming.see_node("n", false, node.now);
    node.after(99).warming.see_node("n", false, seconds(149));
    node.assert_silent();
    node.after(1).deletes("u").assert_silent();
    assert_eq!(node.failure(), "the node is not Ready");
}

#[test]
fn w11_a_node_that_goes_fails_with_that_reason_and_its_slot_is_free() {
    let limits = Limits {
        parallelism: 1,
        timeout: seconds(100),
        backoff_limit: 1,
        ask_again: None,
    };
    let mut warming = Warming::new(vec![A.into()], limits);
    warming.add("a", Shapes::in_place(), true, Duration::ZERO);
    warming.add("b", Shapes::in_place(), true, Duration::ZERO);
    let creates = |warming: &mut Warming| {
        let created = warming
            .step(Duration::ZERO, |_| Elsewhere::default())
            .into_iter()
            .filter(|(_, action)| matches!(action, Action::Create { .. }));
        created.map(|(node, _)| node).collect::<Vec<_>>()
    };
    assert_eq!(creates(&mut warming), ["a".into()]);
    assert!(creates(&mut warming).is_empty(), "one at a time");
    let create = Action::Create {
        shape: Shape::InPlace,
        images: vec![A.into()],
        number: 0,
    };
    let mut pod = pod("u", A, None, &nothing());
    pod.node = "a".into();
    warming.written("a", &create, Answer::Pod(Box::new(pod)), Duration::ZERO);
    assert!(creates(&mut warming).is_empty());
    warming.node_is_gone("a");
    let actions = warming.step(Duration::ZERO, |_| Elsewhere::default());
    assert!(
        matches!(&actions[..], [(_, Action::Delete { .. }), (node, Action::Create { .. })] if &**node == "b"),
        "{actions:?}"
    );
}

#[test]
fn a_slot_is_taken_until_the_pod_is_gone() {
    let limits = Limits {
        parallelism: 1,
        timeout: seconds(100),
        backoff_limit: 0,
        ask_again: None,
    };
    let mut warming = Warming::new(vec![A.into()], limits);
    warming.add("n", Shapes::in_place(), true, Duration::ZERO);
    warming.add("z", Shapes::in_place(), true, Duration::ZERO);
    let mut node = Node {
        warming,
        now: Duration::ZERO,
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
        Answer::Done,
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
fn a_write_that_failed_is_decided_anew_after_the_time_that_the_server_asks() {
    let mut node = Node::new(&[A]);
    let create = Action::Create {
        shape: Shape::InPlace,
        images: vec![A.into()],
        number: 0,
    };
    assert_eq!(node.step(), Some(create.clone()));
    node.answers(
        &create,
        Answer::Failed {
            retry_after: Some(seconds(7)),
        },
    )
    .after(6)
    .assert_silent();
    assert_eq!(
        node.after(1).step(),
        Some(create.clone()),
        "the same name: two pods are impossible"
    );
    node.answers(&create, Answer::Conflict).assert_silent();
    node.sees(pod("u", A, None, &running("c0", A)))
        .after(1)
        .deletes("u");
    assert_eq!(node.ends(), [Some(String::new())]);
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
    warming.add("n", Shapes::in_place(), true, Duration::ZERO);
    warming.add("z", Shapes::in_place(), true, Duration::ZERO);
    let mut node = Node {
        warming,
        now: Duration::ZERO,
    };
    let create = node.step().unwrap();
    node.answers(&create, Answer::Failed { retry_after: None })
        .assert_silent();
    assert_eq!(node.after(2).step(), Some(create.clone()));
    node.answers(&create, Answer::Conflict).assert_silent();
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
    warming.add("n", Shapes::in_place(), true, Duration::ZERO);
    let mut node = Node {
        warming,
        now: Duration::ZERO,
    };
    node.creates(A, "u")
        .sees(pod("u", A, None, &refused("", "", A)))
        .assert_silent();
    node.warming
        .add("z", Shapes::in_place(), true, Duration::ZERO);
    node.deletes("u");
    let actions = node.warming.step(node.now, |_| Elsewhere::default());
    assert!(
        matches!(&actions[..], [(name, Action::Create { .. })] if &**name == "z"),
        "{actions:?}"
    );
    node.after(12).assert_silent();
}

/// The watch may be faster than the answer.
#[test]
fn a_swap_has_its_whole_time_whatever_is_seen_of_it_first() {
    for answer_is_first in [true, false] {
        let mut node = Node::new(&[A, B]);
        node.creates(A, "u")
            .after(90)
            .sees(pod("u", A, None, &running("c0", A)));
        let swap = node.step().unwrap();
        let swapped = pod("u", B, Some("c0"), &running("c0", A));
        if !answer_is_first {
            node.sees(swapped.clone());
        }
        node.answers(&swap, Answer::Pod(Box::new(swapped)))
            .after(99)
            .assert_silent();
        assert!(matches!(node.after(1).step(), Some(Action::Delete { .. })));
    }
}

#[test]
fn a_swap_that_was_done_and_never_answered_goes_on() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    node.answers(&swap, Answer::Failed { retry_after: None });
    node.sees(pod("u", B, Some("c0"), &running("c0", A)))
        .after(2)
        .assert_silent();
    node.sees(pod("u", B, Some("c0"), &running("c1", B)))
        .deletes("u");
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
}

#[test]
fn w2_a_swap_that_met_a_change_looks_again_and_a_foreign_image_proves_nothing() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    let mut foreign = object("u", B, Some("c0"), &running("c1", "r.example/evil:1"));
    foreign["spec"]["containers"][0]["image"] = "r.example/evil:1".into();
    node.sees(read(foreign)).deletes("u").creates(B, "v");
    assert_eq!(node.ends(), [Some(String::new()), None]);
}

#[test]
fn an_image_that_a_webhook_rewrites_is_judged_by_what_is_stored() {
    let mut node = Node::new(&[A, B]);
    let create = node.step().unwrap();
    let stored = |image: &str, mirror: &str, before: Option<&str>, said: &crate::warm::Said| {
        let mut object = object("u", image, before, said);
        object["spec"]["containers"][0]["image"] = mirror.into();
        read(object)
    };
    node.answers(
        &create,
        Answer::Pod(Box::new(stored(A, "mirror.example/a:1", None, &nothing()))),
    );
    node.sees(stored(
        A,
        "mirror.example/a:1",
        None,
        &running("c0", "mirror.example/a:1"),
    ));
    let swap = node.step().unwrap();
    assert!(
        matches!(&swap, Action::Swap { from, to, .. } if &**from == "mirror.example/a:1" && &**to == B),
        "{swap:?}"
    );
    let old = running("c0", "mirror.example/a:1");
    node.answers(
        &swap,
        Answer::Pod(Box::new(stored(B, "mirror.example/b:1", Some("c0"), &old))),
    )
    .assert_silent();
    node.sees(stored(
        B,
        "mirror.example/b:1",
        Some("c0"),
        &running("c1", "mirror.example/b:1"),
    ))
    .deletes("u");
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
}

#[test]
fn w20_a_denial_is_final_for_the_image_or_for_the_node_and_a_full_quota_waits() {
    let create = |image: &str| Action::Create {
        shape: Shape::InPlace,
        images: vec![image.into()],
        number: 0,
    };
    let denied = |why: &str| Answer::Denied(why.to_owned());
    let mut node = Node::new(&[A, B]);
    assert_eq!(node.step(), Some(create(A)));
    node.answers(
        &create(A),
        denied("admission webhook \"policy\" denied the request: unsigned"),
    )
    .creates(B, "u");
    assert!(node.failure().contains("unsigned") && node.ends()[1].is_none());
    for why in [
        "pods is forbidden: User \"u\" cannot create resource \"pods\"",
        "violates PodSecurity \"restricted:latest\"",
    ] {
        let mut node = Node::new(&[A, B]);
        assert_eq!(node.step(), Some(create(A)));
        node.answers(&create(A), denied(why)).assert_silent();
        assert_eq!(node.ends(), [Some(why.to_owned()), Some(why.to_owned())]);
        assert!(node.warming.is_over());
    }
    let mut node = Node::new(&[A]);
    assert_eq!(node.step(), Some(create(A)));
    node.answers(&create(A), denied("exceeded quota: pods"))
        .after(59)
        .assert_silent();
    node.after(1).creates(A, "u");
}

#[test]
fn a_namespace_that_is_not_there_and_a_deletion_that_is_forbidden_end_the_node() {
    let mut node = Node::new(&[A]);
    let create = node.step().unwrap();
    node.answers(&create, Answer::Gone).assert_silent();
    assert_eq!(node.failure(), "there is no such namespace for warmer pods");
    let mut node = Node::new(&[A]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let delete = node.step().unwrap();
    node.answers(&delete, Answer::Denied("no".to_owned()))
        .assert_silent();
    assert!(node.warming.is_over() && node.ends() == [Some(String::new())]);
}

#[test]
fn an_older_state_of_the_pod_changes_nothing() {
    let mut node = Node::new(&[A, B]);
    let generation =
        |generation: i64, image: &str, before: Option<&str>, said: &crate::warm::Said| {
            let mut object = object("u", image, before, said);
            object["metadata"]["generation"] = generation.into();
            read(object)
        };
    let create = node.step().unwrap();
    node.answers(
        &create,
        Answer::Pod(Box::new(generation(1, A, None, &nothing()))),
    );
    node.sees(generation(1, A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    node.answers(
        &swap,
        Answer::Pod(Box::new(generation(2, B, Some("c0"), &running("c0", A)))),
    );
    node.sees(generation(1, A, None, &running("c0", A)))
        .assert_silent();
    node.sees(generation(2, B, Some("c0"), &refused("c0", A, B)))
        .assert_silent();
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
    (&["type=virtual-kubelet"], &[], "nobody knows whether"),
    (&["kubernetes.io/os=windows"], &[], "this node runs windows"),
    (
        &["kubernetes.io/arch=s390x"],
        &[],
        "no park program for s390x",
    ),
];

#[test]
fn nodes_that_keep_no_images_are_left_out_with_the_reason() {
    let why = |labels: &[&str], taints: &[&str]| {
        let node = node_object("x", labels, taints, &[]);
        shapes(
            &node,
            &Recognised::of(&node, &NodeTable::built_in()),
            ShapeChoice::InPlace,
        )
        .err()
    };
    assert_eq!(
        why(&["kubernetes.io/os=linux", "kubernetes.io/arch=arm64"], &[]),
        None
    );
    assert_eq!(
        why(
            &["type=virtual-kubelet", "swaplet.io/node-class=Kubelet"],
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

#[test]
fn the_words_of_the_kubelet_about_a_pull() {
    let read = |message: &str| {
        Pulled::read(message).map(|pulled| (pulled.image.to_string(), pulled.took, pulled.bytes))
    };
    let long = "Successfully pulled image \"r/a:1\" in 1m2.5s (1m10s including waiting). Image size: 12345 bytes.";
    assert_eq!(
        read(long),
        Some((
            "r/a:1".to_owned(),
            Some(Duration::from_millis(62_500)),
            Some(12_345)
        ))
    );
    assert_eq!(
        read("Successfully pulled image \"a\" in 250ms (250ms including waiting)")
            .unwrap()
            .1,
        Some(Duration::from_millis(250))
    );
    assert_eq!(
        read("Container image \"a\" already present on machine"),
        Some(("a".to_owned(), None, None))
    );
    assert_eq!(
        read("Container image \"a\" already present on machine and can be accessed by the pod")
            .unwrap()
            .1,
        None
    );
    for other in [
        "Pulling image \"a\"",
        "Successfully pulled image \"a\" in soon",
        "Container image \"a\" is not present with pull policy",
        "",
    ] {
        assert_eq!(read(other), None, "{other}");
    }
}
