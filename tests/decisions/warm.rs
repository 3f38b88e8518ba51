//! Warming: what is written for a node, what is believed, and what is not.

mod failures;
mod proofs;

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pod::{Shape, WarmerPod, WarmerPodWire};
use swaplet_core::warm::warming::{Action, Answer, Elsewhere, End, Limits, Warming};

pub const A: &str = "r.example/a:1";
pub const B: &str = "r.example/b:1";
const C: &str = "r.example/c:1";

/// What a job allows where a test says nothing of it.
pub const LIMITS: Limits = Limits {
    parallelism: 1,
    timeout: seconds(100),
    backoff_limit: 1,
    ask_again: None,
};

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
    pub now: Moment,
}

impl Node {
    pub fn new(images: &[&str]) -> Self {
        Self::with(images, LIMITS)
    }

    pub fn with(images: &[&str], limits: Limits) -> Self {
        let mut warming =
            Warming::new(images.iter().map(|image| (*image).into()).collect(), limits);
        warming.add("n", Shape::InPlace, true, Moment::START);
        Self {
            warming,
            now: Moment::START,
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
        self.warming.observe_pod(pod, self.now);
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
            Ok(Some(Box::new(pod(uid, image, None, &nothing())))),
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
            Ok(Some(Box::new(pod(
                uid,
                to,
                Some(before),
                &running(before_id(before), "old"),
            )))),
        )
    }

    /// The pod is deleted, and goes.
    pub fn deletes(&mut self, uid: &str) -> &mut Self {
        let expected = Action::Delete {
            name: format!("pod-{uid}").into(),
            uid: uid.into(),
        };
        assert_eq!(self.step(), Some(expected.clone()));
        self.answers(&expected, Ok(None)).assert_silent();
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

    /// Whether the node is one of those that may pull at a time.
    pub fn holds_a_slot(&self) -> bool {
        self.warming.active().count() == 1
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
