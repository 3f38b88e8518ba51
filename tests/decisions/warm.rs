//! Warming: what is written for a node, what is believed, and what is not.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::warm::pod::{Shape, WarmerPod, WarmerPodWire};
use swaplet_core::warm::warming::pulled::Pulled;
use swaplet_core::warm::warming::shape::Shapes;
use swaplet_core::warm::warming::{Action, Answer, Elsewhere, End, Limits, Warming};

pub const A: &str = "r.example/a:1";
pub const B: &str = "r.example/b:1";
const C: &str = "r.example/c:1";

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What a node says of the container of a warmer pod.
#[derive(Clone)]
pub struct Said {
    pub id: &'static str,
    pub image: &'static str,
    pub state: Value,
}

pub fn running(id: &'static str, image: &'static str) -> Said {
    Said {
        id,
        image,
        state: json!({"running": {}}),
    }
}

pub fn waiting(id: &'static str, image: &'static str, reason: &str, message: &str) -> Said {
    Said {
        id,
        image,
        state: json!({"waiting": {"reason": reason, "message": message}}),
    }
}

pub fn refused(id: &'static str, image: &'static str, about: &str) -> Said {
    waiting(
        id,
        image,
        "ImagePullBackOff",
        &format!("Back-off pulling image \"{about}\": ErrImagePull: not found"),
    )
}

/// Nothing yet: the init container is done.
pub const fn nothing() -> Said {
    Said {
        id: "",
        image: "",
        state: Value::Null,
    }
}

/// A warmer pod on node `n` as the API server sends it.
pub fn object(uid: &str, image: &str, before: Option<&str>, said: &Said) -> Value {
    let mut annotations = json!({"swaplet.io/warm-node": "n", "swaplet.io/warm-image": image});
    if let Some(before) = before {
        annotations["swaplet.io/warm-before"] = before.into();
    }
    json!({
        "metadata": {"name": format!("pod-{uid}"), "uid": uid, "annotations": annotations},
        "spec": {"containers": [{"name": "warmer", "image": image}]},
        "status": {
            "phase": "Running",
            "initContainerStatuses": [{"name": "park", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "warmer", "image": said.image, "imageID": format!("r.example/x@sha256:{}", said.image),
                "containerID": said.id, "state": said.state}],
        },
    })
}

pub fn read(object: Value) -> WarmerPod {
    serde_json::from_value::<WarmerPodWire>(object)
        .unwrap()
        .read()
        .unwrap()
}

pub fn pod(uid: &str, image: &str, before: Option<&str>, said: &Said) -> WarmerPod {
    read(object(uid, image, before, said))
}

/// One node `n`, and the time.
pub struct Node {
    pub warming: Warming,
    pub now: Duration,
}

impl Node {
    pub fn new(images: &[&str]) -> Self {
        Self::with(
            images,
            Limits {
                parallelism: 1,
                timeout: seconds(100),
                backoff_limit: 1,
                ask_again: None,
            },
        )
    }

    pub fn with(images: &[&str], limits: Limits) -> Self {
        let mut warming =
            Warming::new(images.iter().map(|image| (*image).into()).collect(), limits);
        warming.add("n", Shapes::in_place(), true, Duration::ZERO);
        Self {
            warming,
            now: Duration::ZERO,
        }
    }

    pub fn after(&mut self, passed: u64) -> &mut Self {
        self.now += seconds(passed);
        self
    }

    /// What is to be written for the node; nothing is for any other.
    pub fn step(&mut self) -> Option<Action> {
        let mut actions = self.warming.step(self.now, |_| Elsewhere::default());
        assert!(
            actions.len() <= 1 && actions.iter().all(|(node, _)| &**node == "n"),
            "{actions:?}"
        );
        actions.pop().map(|(_, action)| action)
    }

    /// Nothing is written, now and on a second look.
    pub fn assert_silent(&mut self) {
        assert_eq!((self.step(), self.step()), (None, None));
    }

    pub fn sees(&mut self, pod: WarmerPod) -> &mut Self {
        self.warming.see_pod(pod, self.now);
        self
    }

    pub fn answers(&mut self, action: &Action, answer: Answer) -> &mut Self {
        self.warming.written("n", action, answer, self.now);
        self
    }

    /// A pod is made with this image; while that is under way nothing else is written.
    pub fn creates(&mut self, image: &str, uid: &str) -> &mut Self {
        let action = self.step();
        let Some(Action::Create {
            shape: Shape::InPlace,
            images,
            ..
        }) = &action
        else {
            panic!("no creation: {action:?}")
        };
        assert_eq!(images[..], [image.into()]);
        self.assert_silent();
        self.answers(
            &action.unwrap(),
            Answer::Pod(Box::new(pod(uid, image, None, &nothing()))),
        )
    }

    /// The image is swapped from one to the other.
    pub fn swaps(&mut self, uid: &str, from: &str, to: &str, before: &str) -> &mut Self {
        let expected = Action::Swap {
            name: format!("pod-{uid}").into(),
            uid: uid.into(),
            index: 0,
            from: from.into(),
            to: to.into(),
            before: before.into(),
        };
        assert_eq!(self.step(), Some(expected.clone()));
        self.assert_silent();
        self.answers(
            &expected,
            Answer::Pod(Box::new(pod(
                uid,
                to,
                Some(before),
                &running(before_id(before), "old"),
            ))),
        )
    }

    /// The pod is deleted, and goes.
    pub fn deletes(&mut self, uid: &str) -> &mut Self {
        let expected = Action::Delete {
            name: format!("pod-{uid}").into(),
            uid: uid.into(),
        };
        assert_eq!(self.step(), Some(expected.clone()));
        self.answers(&expected, Answer::Done).assert_silent();
        self.after(1);
        self.warming.pod_is_gone(uid, self.now);
        self
    }

    /// What is known of each image: an empty text where it is warm.
    pub fn ends(&self) -> Vec<Option<String>> {
        let end = |end: &End| match end {
            End::Succeeded => String::new(),
            End::Failed(why) => why.to_string(),
        };
        self.warming
            .progress()
            .flat_map(|(_, images)| {
                images
                    .iter()
                    .map(|image| image.end.as_ref().map(end))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// The only image that has failed; why.
    pub fn failure(&self) -> String {
        self.ends()
            .into_iter()
            .flatten()
            .find(|end| !end.is_empty())
            .unwrap()
    }
}

fn before_id(before: &str) -> &'static str {
    ["c0", "c1", "c2"]
        .into_iter()
        .find(|id| *id == before)
        .unwrap_or_default()
}

#[test]
fn images_go_through_one_pod_one_after_another() {
    let mut node = Node::new(&[A, B, C]);
    node.creates(A, "u").assert_silent();
    node.sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0")
        .assert_silent();
    node.sees(pod("u", B, Some("c0"), &running("c1", B)))
        .swaps("u", B, C, "c1")
        .assert_silent();
    node.sees(pod("u", C, Some("c1"), &running("c2", C)))
        .deletes("u")
        .assert_silent();
    assert_eq!(
        node.ends(),
        [
            Some(String::new()),
            Some(String::new()),
            Some(String::new())
        ]
    );
    assert!(node.warming.is_over());
    assert_eq!(node.warming.news().len(), 3);
    assert!(node.warming.news().is_empty(), "told once");
}

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
    node.warming.hear("other", &pulled);
    node.sees(pod("u", B, Some("c0"), &running("c1", A)))
        .assert_silent();
    node.warming.hear("u", &pulled);
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
    assert_eq!(node.warming.hear("other", &pulled), None);
    assert_eq!(
        node.warming.hear("u", &pulled),
        Some(Duration::from_millis(633))
    );
    assert_eq!(node.warming.hear("u", &pulled), None, "no news");
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
            parallelism: 1,
            timeout: seconds(100),
            backoff_limit: 0,
            ask_again: None,
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

#[test]
fn w19_an_image_for_another_platform_is_not_tried_again() {
    let mut node = Node::new(&[A]);
    let wrong = waiting(
        "",
        "",
        "ErrImagePull",
        "failed to pull: no match for platform in manifest: not found",
    );
    node.creates(A, "u")
        .sees(pod("u", A, None, &wrong))
        .deletes("u");
    assert!(node.failure().contains("no match for platform"));
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
    node.warming.hear("u", &pulled);
    node.warming.hear(
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
