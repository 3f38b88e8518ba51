//! What happens to warmer pods: those that are lost or do not start, and what the kubelet says of
//! a pull.

mod nodes;
mod slots;
mod writes;

use std::time::Duration;

use serde_json::json;
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::warming::{Action, Answer, Pulled};

use crate::warm::{A, B, Node, nothing, object, pod, read, running};

/// The creation of the pod with image A that comes after so many others.
fn create(number: u32) -> Action {
    Action::Create {
        shape: Shape::InPlace,
        images: vec![A.into()],
        number,
    }
}

/// Nobody knows whether the write was done.
const fn unanswered() -> Answer {
    Err(WriteError::Failed {
        error: String::new(),
        retry_after: None,
    })
}

/// As written by the API server.
fn starting(uid: &str, status: serde_json::Value) -> swaplet_core::warm::pod::WarmerPod {
    let mut object = object(uid, A, None, &nothing());
    object["status"] = status;
    read(object)
}

#[test]
fn w12_a_lost_pod_is_made_again_a_minute_later_and_not_for_ever() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u").warming.pod_is_gone("u", Moment::START);
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
        Err(WriteError::Gone),
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
    node.creates(A, "u").warming.pod_is_gone("u", Moment::START);
    node.sees(pod("u", A, None, &running("c0", A)));
    assert_eq!(node.ends(), [None]);
    node.after(60).creates(A, "v");
}

/// On a node that pulls one image after the other the park image may stand behind others.
#[test]
fn u87_a_pod_that_does_not_start_is_tried_as_often_as_a_pull_and_says_what_keeps_it() {
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
        (json!({}), "its node has not reported why"),
    ] {
        let mut node = Node::new(&[A, B]);
        let tries: &[&str] = match words {
            "its node has not reported why" => &["u", "v"],
            _ => &["u"],
        };
        for uid in tries {
            assert_eq!(node.ends(), [None, None]);
            node.creates(A, uid)
                .sees(starting(uid, status.clone()))
                .after(119)
                .assert_silent();
            node.after(1).deletes(uid).assert_silent();
            node.after(60);
        }
        node.assert_silent();
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
