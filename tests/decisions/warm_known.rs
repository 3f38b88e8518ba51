//! What is known of images on nodes when somebody asks.

use serde_json::json;
use swaplet_core::warm::known::{Knowledge, Known, ListedNode, Shown, known};
use swaplet_core::warm::pod::WarmerPod;

use crate::warm::{A, B, object, pod, read, refused, running, waiting};

const CLAIMED: &str = "r.example/claimed:1";
const UNKNOWN: &str = "r.example/unknown:1";

fn node(name: &str) -> ListedNode {
    ListedNode {
        name: name.into(),
        why_not: None,
        images: vec![vec!["r.example/claimed@sha256:1".into(), CLAIMED.into()]],
    }
}

/// What the pod `pod-u` shows.
fn shown(shown: Shown) -> Knowledge {
    Knowledge::OfPod {
        namespace: "".into(),
        pod: "pod-u".into(),
        shown,
    }
}

const PROVED: Shown = Shown::Proved { since: None };

fn images(images: &[&str]) -> Vec<Box<str>> {
    images.iter().map(|image| (*image).into()).collect()
}

/// What is known of one image on node `n`.
fn of(image: &str, pods: &[WarmerPod]) -> Knowledge {
    let mut all = known(&images(&[image]), &[node("n")], pods);
    assert_eq!((all.len(), all[0].image.as_deref()), (1, Some(image)));
    all.remove(0).knowledge
}

#[test]
fn a_container_of_a_warmer_pod_proves_its_image_and_no_other() {
    let pods = [pod("u", A, None, &running("c1", A))];
    assert_eq!(of(A, &pods), shown(PROVED));
    assert_eq!(of(B, &pods), Knowledge::Nothing { listed: 1 });
}

#[test]
fn the_container_before_a_swap_proves_nothing() {
    let pods = [pod("u", B, Some("c1"), &running("c1", A))];
    assert_eq!(of(B, &pods), shown(Shown::Pulling));
    assert_eq!(of(A, &pods), Knowledge::Nothing { listed: 1 });
    let unclear = [pod("u", B, Some("c1"), &running("c2", A))];
    assert_eq!(of(B, &unclear), shown(Shown::Pulling));
}

#[test]
fn of_two_pods_the_one_that_proves_the_image_counts() {
    let waits = pod("v", A, None, &refused("", "", A));
    let proves = pod("u", A, None, &running("c1", A));
    for pods in [[waits.clone(), proves.clone()], [proves, waits]] {
        assert_eq!(of(A, &pods), shown(PROVED));
    }
}

/// Anyone who may create pods can create one that names another node.
#[test]
fn a_pod_on_another_node_proves_nothing_of_the_one_that_it_names() {
    for (on, known) in [
        ("n", shown(PROVED)),
        ("m", Knowledge::Nothing { listed: 1 }),
    ] {
        let mut forged = object("u", A, None, &running("c1", A));
        forged["spec"]["nodeName"] = on.into();
        assert_eq!(of(A, &[read(forged)]), known, "{on}");
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
            of(A, &[read(leaving)]),
            Knowledge::Nothing { listed: 1 },
            "{field}"
        );
    }
}

#[test]
fn a_pull_that_fails_is_told_with_its_reason_and_what_fails_after_it_proves_the_image() {
    let failing = [pod("u", A, None, &refused("", "", A))];
    assert!(
        matches!(of(A, &failing), Knowledge::OfPod { shown: Shown::Failed(why), .. } if why.contains("not found"))
    );
    let past_it = waiting("", "", "CreateContainerError", "no such user");
    assert_eq!(of(A, &[pod("u", A, None, &past_it)]), shown(PROVED));
}

#[test]
fn what_a_node_lists_is_a_claim_and_what_it_does_not_list_is_not_known() {
    assert_eq!(of(CLAIMED, &[]), Knowledge::Claimed { listed: 1 });
    assert_eq!(of(UNKNOWN, &[]), Knowledge::Nothing { listed: 1 });
    let virtual_node = ListedNode {
        why_not: Some("keeps no images".to_owned()),
        ..node("v")
    };
    let skipped = known(&images(&[CLAIMED]), &[virtual_node], &[]);
    assert_eq!(
        skipped[0].knowledge,
        Knowledge::Skipped("keeps no images".to_owned())
    );
}

#[test]
fn two_spellings_are_one_image() {
    let full = "docker.io/library/busybox:latest";
    let pods = [pod("u", full, None, &running("c1", full))];
    assert_eq!(of("busybox", &pods), shown(PROVED));
}

#[test]
fn without_a_question_all_is_told_that_warmer_pods_have() {
    let pods = [pod("u", A, None, &running("c1", A))];
    let all = known(&[], &[node("m"), node("n")], &pods);
    let row = |node: &str, image: Option<&str>, knowledge| Known {
        node: node.into(),
        image: image.map(Into::into),
        knowledge,
    };
    assert_eq!(
        all,
        [
            row("m", None, Knowledge::Nothing { listed: 1 }),
            row("n", Some(A), shown(PROVED)),
        ]
    );
}
