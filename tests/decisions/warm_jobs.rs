//! What a job does to warming when it is changed, taken up again, or asks for too much.

mod others;

use std::sync::Arc;

use serde_json::json;
use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::pull_job::limits;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use swaplet_core::warm::warming::{Elsewhere, End, Limits, Pulled};

use super::warm::{A, B, LIMITS, Node, nothing, pod, running, seconds};

fn images(images: &[&str]) -> Vec<Box<str>> {
    images.iter().map(|image| (*image).into()).collect()
}

#[test]
fn what_is_known_of_images_that_stay_is_kept() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    node.warming.set_images(images(&["r.example/d:1", A]));
    assert_eq!(node.ends(), [None, Some(String::new())]);
    node.swaps("u", B, "r.example/d:1", "c0").assert_silent();
}

#[test]
fn an_image_that_is_not_wanted_any_more_is_no_reason_to_wait_or_to_complain() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u");
    node.warming.set_images(images(&[]));
    node.deletes("u").assert_silent();
    assert!(node.warming.is_over() && node.warming.news().is_empty());
}

#[test]
fn with_less_parallelism_a_node_leaves_at_the_end_of_a_pull() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u");
    node.warming.set_limits(Limits {
        parallelism: 0,
        ..LIMITS
    });
    node.assert_silent();
    node.sees(pod("u", A, None, &nothing())).assert_silent();
    node.sees(pod("u", A, None, &running("c0", A)))
        .deletes("u")
        .assert_silent();
    node.warming.set_limits(LIMITS);
    node.creates(B, "v");
}

#[test]
fn another_chance_keeps_what_is_there_and_waits_for_the_pod_to_be_gone() {
    let mut node = Node::with(&[A, B], LIMITS);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    node.warming.give_up("too late");
    node.warming.try_again("n", true, node.now);
    assert_eq!(
        node.ends(),
        [Some(String::new()), Some("too late".to_owned())]
    );
    node.deletes("u").assert_silent();
    node.warming.try_again("n", true, node.now + seconds(1));
    assert_eq!(node.ends(), [Some(String::new()), None]);
    node.creates(B, "v");
}

#[test]
fn a_pod_that_pulls_is_left_alone_also_where_an_image_that_comes_before_is_open() {
    let mut node = Node::with(&[A, B], LIMITS);
    // The life before had warmed A and begun with B.
    node.sees(pod("u", B, Some("c0"), &running("c0", A)))
        .assert_silent();
    node.sees(pod("u", B, Some("c0"), &running("c1", B)))
        .swaps("u", B, A, "c1")
        .assert_silent();
    node.sees(pod("u", A, Some("c1"), &running("c2", A)))
        .deletes("u")
        .assert_silent();
}

#[test]
fn a_pod_that_an_earlier_life_has_deleted_is_no_loss() {
    let mut node = Node::with(
        &[A],
        Limits {
            backoff_limit: 0,
            ..LIMITS
        },
    );
    let mut leaving = pod("u", A, None, &running("c0", A));
    leaving.deleting = true;
    node.sees(leaving).assert_silent();
    node.warming.pod_is_gone("u", node.now);
    assert_eq!(node.ends(), [None]);
    node.creates(A, "v")
        .sees(pod("v", A, None, &running("c1", A)))
        .deletes("v")
        .assert_silent();
}

#[test]
fn a_node_is_asked_again_so_long_after_it_was_asked_and_what_was_said_of_pulls_stays() {
    let mut node = Node::with(
        &[A],
        Limits {
            ask_again: Some(seconds(1000)),
            ..LIMITS
        },
    );
    node.after(500)
        .creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let pulled = Pulled {
        image: A.into(),
        took: Some(seconds(2)),
        bytes: Some(7),
    };
    node.warming.handle("u", &pulled);
    node.deletes("u").assert_silent();
    node.after(900).assert_silent();
    node.after(100);
    let taken = |_: &str| Elsewhere {
        taken: true,
        ..Elsewhere::default()
    };
    assert_eq!(
        node.warming.step(node.now, taken),
        [],
        "others have the node"
    );
    node.warming.observe_node("n", false, node.now);
    node.assert_silent();
    node.warming.observe_node("n", true, node.now);
    node.creates(A, "v");
    assert_eq!(
        (
            node.ends(),
            node.warming.progress().next().unwrap().1[0].pulled.as_ref()
        ),
        (vec![None], Some(&pulled))
    );
    node.sees(pod("v", A, None, &running("c1", A)))
        .deletes("v")
        .assert_silent();
    node.after(900).assert_silent();
}

#[test]
fn a9_no_job_may_try_an_image_for_longer_than_the_installation_says() {
    let spec = |seconds: u64| {
        let job = json!({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {"image": A, "pullPolicy": {"timeoutSeconds": seconds}}});
        PullJob::read(JobKind::ImagePullJob, serde_json::from_value(job).unwrap())
            .unwrap()
            .spec
            .unwrap()
    };
    assert_eq!(
        limits(&spec(2_147_483_647), 1, 0, seconds(1800)).timeout,
        seconds(1800)
    );
    assert_eq!(limits(&spec(60), 1, 0, seconds(1800)).timeout, seconds(60));
}

/// Statuses are counted only then.
#[test]
fn bug9_where_nothing_happens_nothing_has_changed() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u");
    assert!(node.warming.take_changed());
    node.after(1).assert_silent();
    node.warming.pod_is_gone("of somebody else", node.now);
    assert_eq!(
        node.warming.handle(
            "of somebody else",
            &Pulled {
                image: A.into(),
                took: None,
                bytes: None
            }
        ),
        None
    );
    assert!(!node.warming.take_changed());
    node.sees(pod("u", A, None, &running("c0", A)));
    assert!(node.warming.take_changed());
}

/// A list has 255 images of a kilobyte, and a cluster thousands of nodes.
#[test]
fn a12_the_texts_of_a_job_are_kept_once_for_all_nodes() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u");
    let pulled = Pulled {
        image: A.into(),
        took: Some(seconds(1)),
        bytes: None,
    };
    node.warming.handle("u", &pulled);
    node.warming.add("m", Shape::InPlace, true, Moment::START);
    node.warming.give_up("job exceeds activeDeadlineSeconds");
    let texts = node.warming.images();
    for (name, images) in node.warming.progress() {
        let pulled = images[0].pulled.iter().map(|pulled| &pulled.image);
        assert_eq!(pulled.clone().count(), usize::from(name == "n"));
        let first = images.iter().map(|image| &image.image).chain(pulled);
        for (text, kept) in texts.iter().chain(&texts[..1]).zip(first) {
            assert!(Arc::ptr_eq(text, kept), "{name}: {kept}");
        }
        let ends = [&images[0].end, &images[1].end];
        let [Some(End::Failed(one)), Some(End::Failed(other))] = ends else {
            panic!("{ends:?}")
        };
        assert!(Arc::ptr_eq(one, other));
    }
}
