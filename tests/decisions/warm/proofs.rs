//! What proves that a node has an image, and what does not.

use std::time::Duration;

use swaplet_core::warm::warming::Pulled;

use super::{A, B, Node, object, pod, read, refused, running, waiting};

#[test]
fn w1_the_old_container_proves_nothing_however_long_it_is_shown() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    for _ in 0..5 {
        node.after(15)
            .sees(pod("u", B, Some("c0"), &running("c0", A)))
            .assert_silent();
    }
    assert_eq!(node.ends(), [Some(String::new()), None]);
}

/// A kubelet that is about to act on a swap may start the old image once more: another container,
/// and not the image that is waited for.
#[test]
fn another_container_of_the_old_image_proves_nothing() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &refused("", "", A)))
        .swaps("u", A, B, "")
        .assert_silent();
    node.sees(pod("u", B, Some(""), &running("c1", A)))
        .assert_silent();
    assert_eq!(node.ends(), [None, None]);
    node.sees(pod("u", B, Some(""), &running("c2", B)));
    node.after(1).assert_silent();
    assert_eq!(
        node.ends(),
        [None, Some(String::new())],
        "A is tried again later"
    );
}

#[test]
fn two_names_of_the_same_bytes_are_told_apart_by_a_pod_that_never_had_another() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    node.sees(pod("u", B, Some("c0"), &running("c1", A)))
        .after(9)
        .assert_silent();
    node.after(1).deletes("u").creates(B, "v").assert_silent();
    node.sees(pod("v", B, None, &running("c0", A)))
        .deletes("v")
        .assert_silent();
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
}

#[test]
fn what_the_kubelet_has_announced_of_the_pod_settles_two_names_at_once() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    let pulled = Pulled::read(&format!(
        "Container image \"{B}\" already present on machine"
    ))
    .unwrap();
    node.warming.handle("other", &pulled);
    node.sees(pod("u", B, Some("c0"), &running("c1", A)))
        .assert_silent();
    node.warming.handle("u", &pulled);
    node.deletes("u");
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
    assert_eq!(node.warming.news()[1].pulled, Some(pulled));
}

/// On a busy node the kubelet's Event may come when the status has long proved the pull and the pod
/// has made room for another.
#[test]
fn an_event_of_a_pull_counts_that_comes_when_the_pod_is_gone() {
    let known = |node: &Node| node.warming.progress().next().unwrap().1[0].pulled.clone();
    let mut node = Node::new(&[A]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .deletes("u");
    assert_eq!(known(&node), None);
    let pulled = Pulled::read(&format!(
        "Successfully pulled image \"{A}\" in 633ms (2s including waiting). Image size: 7 bytes."
    ))
    .unwrap();
    assert_eq!(node.warming.handle("other", &pulled), None);
    assert_eq!(
        node.warming.handle("u", &pulled),
        Some(Duration::from_millis(633))
    );
    assert_eq!(node.warming.handle("u", &pulled), None, "no news");
    assert_eq!(known(&node), Some(pulled));
    node.assert_silent();
}

#[test]
fn a_digest_is_proved_by_the_digest() {
    let digest = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
    let asked = format!("r.example/b@{digest}");
    let mut node = Node::new(&[A, &asked]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, &asked, "c0");
    let mut object = object("u", &asked, Some("c0"), &running("c1", A));
    object["status"]["containerStatuses"][0]["imageID"] =
        format!("r.example/b@{}", digest.replace('1', "2")).into();
    node.sees(read(object.clone())).assert_silent();
    object["status"]["containerStatuses"][0]["imageID"] = asked.clone().into();
    node.sees(read(object)).deletes("u");
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
}

#[test]
fn w5_a_container_that_cannot_be_made_proves_the_pull_only_in_a_pod_of_its_own() {
    for reason in [
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
    ] {
        let mut node = Node::new(&[A, B]);
        node.creates(A, "u")
            .sees(pod("u", A, None, &waiting("", "", reason, "x")))
            .swaps("u", A, B, "");
        node.sees(pod("u", B, Some(""), &waiting("", "", reason, "x")))
            .assert_silent();
        node.after(10)
            .deletes("u")
            .creates(B, "v")
            .sees(pod("v", B, None, &waiting("", "", reason, "x")))
            .deletes("v");
        assert_eq!(
            node.ends(),
            [Some(String::new()), Some(String::new())],
            "{reason}"
        );
    }
}

#[test]
fn w5_or_where_the_kubelet_has_announced_the_pull() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    let pulled = Pulled::read(&format!(
        "Successfully pulled image \"{B}\" in 2s (2s including waiting). Image size: 7 bytes."
    ))
    .unwrap();
    node.warming.handle("u", &pulled);
    node.warming.handle(
        "u",
        &Pulled::read(&format!(
            "Container image \"{B}\" already present on machine"
        ))
        .unwrap(),
    );
    node.sees(pod(
        "u",
        B,
        Some("c0"),
        &waiting("c0", A, "CreateContainerError", "x"),
    ))
    .deletes("u");
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
    assert_eq!(
        node.warming.news()[1].pulled,
        Some(pulled),
        "that a second start finds it there is no news"
    );
}
