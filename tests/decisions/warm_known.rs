//! What is known of images on nodes when somebody asks.

use jiff::Timestamp;
use serde_json::json;
use swaplet_core::warm::known::{Announced, Knowledge, Known, ListedNode, known};
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::warming::pulled::Pulled;

use crate::warm::{A, B, nothing, object, pod, read, refused, running, waiting};

const CLAIMED: &str = "r.example/claimed:1";
const UNKNOWN: &str = "r.example/unknown:1";

fn node(name: &str) -> ListedNode {
    ListedNode {
        name: name.into(),
        why_not: None,
        images: vec![vec!["r.example/claimed@sha256:1".into(), CLAIMED.into()]],
    }
}

fn event(pod: &str, uid: &str, second: i64, image: &str) -> Announced {
    let pulled = Pulled {
        image: image.into(),
        took: None,
        bytes: None,
    };
    Announced {
        node: "n".into(),
        namespace: "".into(),
        pod: pod.into(),
        uid: uid.into(),
        at: Timestamp::from_second(second).ok(),
        pulled,
    }
}

fn images(images: &[&str]) -> Vec<Box<str>> {
    images.iter().map(|image| (*image).into()).collect()
}

/// What is known of one image on node `n`.
fn of(image: &str, pods: &[WarmerPod], events: &[Announced]) -> Knowledge {
    let mut all = known(&images(&[image]), &[node("n")], pods, events);
    assert_eq!((all.len(), all[0].image.as_deref()), (1, Some(image)));
    all.remove(0).knowledge
}

#[test]
fn a_container_of_a_warmer_pod_proves_its_image_and_no_other() {
    let pods = [pod("u", A, None, &running("c1", A))];
    assert_eq!(
        of(A, &pods, &[]),
        Knowledge::Proved {
            namespace: "".into(),
            pod: "pod-u".into(),
            since: None
        }
    );
    assert_eq!(of(B, &pods, &[]), Knowledge::Nothing { listed: 1 });
}

#[test]
fn the_container_before_a_swap_proves_nothing() {
    let pods = [pod("u", B, Some("c1"), &running("c1", A))];
    assert_eq!(
        of(B, &pods, &[]),
        Knowledge::Pulling {
            namespace: "".into(),
            pod: "pod-u".into()
        }
    );
    assert_eq!(of(A, &pods, &[]), Knowledge::Nothing { listed: 1 });
    let unclear = [pod("u", B, Some("c1"), &running("c2", A))];
    assert_eq!(
        of(B, &unclear, &[]),
        Knowledge::Pulling {
            namespace: "".into(),
            pod: "pod-u".into()
        }
    );
    let told = [event("pod-u", "u", 1, B)];
    let elsewhere = [Announced {
        namespace: "team".into(),
        ..told[0].clone()
    }];
    assert!(
        matches!(of(B, &unclear, &elsewhere), Knowledge::Announced(_)),
        "an Event of another namespace says nothing of the pod"
    );
    assert_eq!(
        of(B, &unclear, &told),
        Knowledge::Proved {
            namespace: "".into(),
            pod: "pod-u".into(),
            since: None
        }
    );
}

/// Anyone who may create pods can create one that names another node.
#[test]
fn a_pod_on_another_node_proves_nothing_of_the_one_that_it_names() {
    for (on, known) in [
        (
            "n",
            Knowledge::Proved {
                namespace: "".into(),
                pod: "pod-u".into(),
                since: None,
            },
        ),
        ("m", Knowledge::Nothing { listed: 1 }),
    ] {
        let mut forged = object("u", A, None, &running("c1", A));
        forged["spec"]["nodeName"] = on.into();
        assert_eq!(of(A, &[read(forged)], &[]), known, "{on}");
    }
}

#[test]
fn a_pod_that_leaves_keeps_nothing() {
    for (part, field, value) in [
        (
            "metadata",
            "deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        ),
        ("status", "phase", json!("Failed")),
    ] {
        let mut leaving = object("u", A, None, &running("c1", A));
        leaving[part][field] = value;
        assert_eq!(
            of(A, &[read(leaving)], &[]),
            Knowledge::Nothing { listed: 1 },
            "{field}"
        );
    }
}

#[test]
fn an_event_counts_and_a_pull_that_fails_now_counts_more() {
    let events = [
        event("user", "other", 1, A),
        event("swaplet-warm-x", "old", 5, A),
        event("user", "other", 3, A),
    ];
    assert_eq!(of(A, &[], &events), Knowledge::Announced(events[1].clone()));
    assert_eq!(
        of(A, &[pod("u", A, None, &nothing())], &events),
        Knowledge::Announced(events[1].clone())
    );
    let failing = [pod("u", A, None, &refused("", "", A))];
    assert!(
        matches!(of(A, &failing, &events), Knowledge::Failed { why, .. } if why.contains("not found"))
    );
    let past_it = [pod(
        "u",
        A,
        None,
        &waiting("", "", "CreateContainerError", "no such user"),
    )];
    assert!(matches!(of(A, &past_it, &[]), Knowledge::Proved { .. }));
}

#[test]
fn what_a_node_lists_is_a_claim_and_what_it_does_not_list_is_not_known() {
    assert_eq!(of(CLAIMED, &[], &[]), Knowledge::Claimed { listed: 1 });
    assert_eq!(of(UNKNOWN, &[], &[]), Knowledge::Nothing { listed: 1 });
    let virtual_node = ListedNode {
        why_not: Some("keeps no images".to_owned()),
        ..node("v")
    };
    let skipped = known(&images(&[CLAIMED]), &[virtual_node], &[], &[]);
    assert_eq!(
        skipped[0].knowledge,
        Knowledge::Skipped("keeps no images".to_owned())
    );
}

#[test]
fn two_spellings_are_one_image() {
    let events = [event(
        "swaplet-warm-x",
        "u",
        1,
        "docker.io/library/busybox:latest",
    )];
    assert_eq!(
        of("busybox", &[], &events),
        Knowledge::Announced(events[0].clone())
    );
}

#[test]
fn without_a_question_all_is_told_that_warmer_pods_have_had() {
    let pods = [pod("u", A, None, &running("c1", A))];
    let events = [
        event("swaplet-warm-x", "gone", 1, B),
        event("user", "other", 1, UNKNOWN),
        event("pod-u", "u", 1, A),
    ];
    let all = known(&[], &[node("m"), node("n")], &pods, &events);
    let row = |node: &str, image: Option<&str>, knowledge| Known {
        node: node.into(),
        image: image.map(Into::into),
        knowledge,
    };
    assert_eq!(
        all,
        [
            row("m", None, Knowledge::Nothing { listed: 1 }),
            row(
                "n",
                Some(A),
                Knowledge::Proved {
                    namespace: "".into(),
                    pod: "pod-u".into(),
                    since: None
                }
            ),
            row("n", Some(B), Knowledge::Announced(events[0].clone())),
        ]
    );
}
