//! Images that are refused, and pulls that do not end.

use swaplet_core::warm::warming::Limits;

use super::{A, B, C, LIMITS, Node, pod, refused, running, waiting};

#[test]
fn w4_a_refused_image_is_tried_again_later_while_others_go_on_and_then_fails_with_the_reason() {
    let mut node = Node::new(&[A, B, C]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &refused("", "", A)))
        .swaps("u", A, B, "")
        .assert_silent();
    node.sees(pod("u", B, Some(""), &running("c1", B)))
        .swaps("u", B, C, "c1");
    node.sees(pod("u", C, Some("c1"), &running("c2", C)))
        .assert_silent();
    node.after(11).assert_silent();
    node.after(1).swaps("u", C, A, "c2").assert_silent();
    node.sees(pod("u", A, Some("c2"), &refused("c2", C, A)))
        .deletes("u")
        .assert_silent();
    assert_eq!(
        node.failure(),
        format!("ImagePullBackOff: Back-off pulling image \"{A}\": ErrImagePull: not found")
    );
    assert_eq!(node.ends()[1..], [Some(String::new()), Some(String::new())]);
}

#[test]
fn a_refusal_of_another_image_is_not_about_this_one() {
    // One refusal is enough to fail.
    let mut node = Node::with(
        &[A, B],
        Limits {
            backoff_limit: 0,
            ..LIMITS
        },
    );
    node.creates(A, "u")
        .sees(pod("u", A, None, &refused("", "", A)))
        .swaps("u", A, B, "");
    node.sees(pod("u", B, Some(""), &refused("", "", A)))
        .assert_silent();
    let full = waiting(
        "",
        "",
        "ErrImagePull",
        "failed to pull and unpack image \"r.example/a:1\": not found",
    );
    node.sees(pod("u", B, Some(""), &full)).assert_silent();
    let crash = waiting(
        "c0",
        A,
        "CrashLoopBackOff",
        "back-off 10s restarting failed container=warmer",
    );
    node.sees(pod("u", B, Some("c0"), &crash)).assert_silent();
    assert!(
        node.ends()[0].is_some() && node.ends()[1].is_none(),
        "{:?}",
        node.ends()
    );
}

#[test]
fn the_only_image_is_left_to_the_kubelet_and_may_still_come() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &refused("", "", A)))
        .assert_silent();
    node.after(5)
        .sees(pod("u", A, None, &running("c0", A)))
        .deletes("u");
    assert_eq!(node.ends(), [Some(String::new())]);
}

/// Of the second image of a pod only what is said of it counts: the kubelet may still say something of
/// the one before.
#[test]
fn l9_cri_o_says_which_image_it_cannot_pull_in_its_own_way() {
    let digest = format!("sha256:{}", "1".repeat(64));
    let tagged: &str = format!("r.example/b:1@{digest}").leak();
    let by_digest = format!("r.example/b@{digest}");
    for (image, told, is_about_it) in [
        (B, B, true),
        (B, A, false),
        (B, "r.example/b:10", false),
        (B, "r.example/b", false),
        (tagged, &by_digest, true),
        ("busybox", "busybox:latest", true),
        ("docker.io/grafana/loki:3", "grafana/loki:3", true),
        ("r.example/library/b:1", "b:1", false),
    ] {
        let said = format!(
            "choosing an image from manifest list docker://{told}: no image found in image index for architecture \"amd64\""
        );
        let mut node = Node::new(&[A, image]);
        node.creates(A, "u")
            .sees(pod("u", A, None, &running("c0", A)))
            .swaps("u", A, image, "c0");
        node.sees(pod(
            "u",
            image,
            Some("c0"),
            &waiting("c0", A, "ErrImagePull", &said),
        ));
        if is_about_it {
            node.deletes("u");
            assert!(node.failure().contains("no image found"), "{image}");
        } else {
            node.assert_silent();
        }
    }
}

#[test]
fn w19_an_image_for_another_platform_is_not_tried_again() {
    // containerd, and CRI-O.
    for said in [
        "failed to pull: no match for platform in manifest: not found",
        "choosing an image from manifest list docker://r.example/a:1: no image found in image index for architecture \"amd64\", variant \"\", OS \"linux\"",
        "choosing an image from manifest list docker://r.example/a:1: no image found in manifest list for architecture \"amd64\", variant \"\", OS \"linux\"",
    ] {
        let mut node = Node::new(&[A]);
        node.creates(A, "u")
            .sees(pod("u", A, None, &waiting("", "", "ErrImagePull", said)))
            .deletes("u");
        assert!(node.failure().contains(said));
    }
}

#[test]
fn w3_a_pull_that_does_not_end_costs_its_tries_and_a_new_pod_each() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u").after(99).assert_silent();
    node.after(1)
        .deletes("u")
        .creates(B, "v")
        .sees(pod("v", B, None, &running("c0", B)))
        .assert_silent();
    node.after(12)
        .swaps("v", B, A, "c0")
        .after(99)
        .assert_silent();
    node.after(1).deletes("v").assert_silent();
    assert_eq!(node.failure(), "not pulled within 100 s");
    assert!(node.warming.is_over());
}

/// A kubelet shows the last failure unchanged until its next pull has ended.
#[test]
fn u25_a_failed_pull_that_is_still_shown_while_the_kubelet_pulls_again_is_counted_once() {
    let failed = || waiting("", "", "ErrImagePull", "503 Service Unavailable");
    let tried = || {
        let mut node = Node::new(&[A]);
        node.creates(A, "u").sees(pod("u", A, None, &failed()));
        node.assert_silent();
        node.after(14).sees(pod("u", A, None, &refused("", "", A)));
        node.assert_silent();
        node.after(60).assert_silent();
        assert_eq!(node.ends(), [None]);
        node
    };
    let mut comes = tried();
    comes
        .sees(pod("u", A, None, &running("c0", A)))
        .deletes("u");
    assert_eq!(comes.ends(), [Some(String::new())]);
    let mut fails = tried();
    fails.sees(pod("u", A, None, &failed())).deletes("u");
    assert!(fails.failure().contains("503"), "{}", fails.failure());
    // Where nothing else is ever shown, the time of the try ends it, in the node's words.
    let mut stands = tried();
    stands.after(37).assert_silent();
    stands.after(1).deletes("u");
    assert!(
        stands.failure().contains("not found"),
        "{}",
        stands.failure()
    );
}
