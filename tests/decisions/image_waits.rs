//! Pods that wait for their images come before jobs that pull them ahead of time.

use serde_json::{Value, json};
use swaplet_core::warm::image_waits::{ImageWait, ImageWaitWire, ImageWaits};
use swaplet_core::warm::pull_job::lets_others_pull;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use swaplet_core::warm::warming::{Action, Elsewhere, Limits};

use super::warm::{A, B, LIMITS, Node, nothing, object, pod, read, running, seconds};
use crate::expect::moment;

/// Pods of others wait for their images there.
const BUSY: fn(&str) -> Elsewhere = |_| Elsewhere {
    taken: false,
    wanted: false,
    others_pull: true,
};

fn is_silent_while_busy(node: &mut Node) {
    assert_eq!(
        (
            node.warming.step(node.now, BUSY),
            node.warming.step(node.now, BUSY)
        ),
        (Vec::new(), Vec::new())
    );
}

/// The loop looks each second.
fn passes_busy(node: &mut Node, time: u64) {
    for _ in 0..time {
        is_silent_while_busy(node);
        node.after(1);
    }
}

#[test]
fn i6_serial_a_node_where_pods_wait_for_images_is_begun_with_later() {
    let mut node = Node::new(&[A]);
    passes_busy(&mut node, 30);
    assert!(
        node.warming.is_kept_back("n") && !node.holds_a_slot(),
        "it takes no slot"
    );
    assert_eq!(
        (
            node.warming.waits().kept,
            node.warming.waits().first_kept.as_deref()
        ),
        (1, Some("n"))
    );
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    assert_eq!(
        (node.warming.is_kept_back("n"), node.warming.waits().kept),
        (false, 0)
    );
    node.deletes("u").assert_silent();
}

#[test]
fn i6_serial_a_node_is_kept_back_for_ten_minutes_in_all_and_no_longer() {
    let mut node = Node::new(&[A]);
    passes_busy(&mut node, 300);
    // Others of the job have the slot: that is not the doing of the pods.
    node.warming.set_limits(Limits {
        parallelism: 0,
        ..LIMITS
    });
    node.after(1).assert_silent();
    node.after(3600);
    node.warming.set_limits(LIMITS);
    passes_busy(&mut node, 301);
    let actions = node.warming.step(node.now, BUSY);
    assert!(
        matches!(&actions[..], [(_, Action::Create { .. })]),
        "{actions:?}"
    );
}

#[test]
fn i6_serial_the_next_image_of_a_pod_waits_too_and_its_slot_goes_to_a_node_that_is_free() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u").sees(pod("u", A, None, &nothing()));
    is_silent_while_busy(&mut node);
    node.sees(pod("u", A, None, &running("c0", A)));
    passes_busy(&mut node, 20);
    assert!(node.holds_a_slot());
    node.swaps("u", A, B, "c0")
        .sees(read(object("u", B, Some("c0"), &running("c1", B))))
        .deletes("u")
        .assert_silent();

    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    node.warming.add(
        "other",
        swaplet_core::warm::pod::Shape::InPlace,
        true,
        node.now,
    );
    let busy = |name: &str| Elsewhere {
        others_pull: name == "n",
        ..Elsewhere::default()
    };
    let gone = Action::Delete {
        name: "pod-u".into(),
        uid: "u".into(),
    };
    assert_eq!(
        node.warming.step(node.now, busy),
        [("n".into(), gone.clone())]
    );
    node.answers(&gone, Ok(None)).after(1);
    node.warming.pod_is_gone("u", node.now);
    let begun = node.warming.step(node.now, busy);
    assert!(
        matches!(&begun[..], [(other, Action::Create { .. })] if &**other == "other"),
        "{begun:?}"
    );
}

#[test]
fn i6_serial_a_node_that_is_asked_again_waits_as_well() {
    let mut node = Node::with(
        &[A],
        Limits {
            ask_again: Some(seconds(1000)),
            ..LIMITS
        },
    );
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .deletes("u")
        .assert_silent();
    node.after(1000);
    passes_busy(&mut node, 600);
    node.after(1);
    let actions = node.warming.step(node.now, BUSY);
    assert!(
        matches!(&actions[..], [(_, Action::Create { .. })]),
        "{actions:?}"
    );
}

#[test]
fn i6_serial_a_job_that_has_used_half_of_its_time_waits_for_nobody() {
    let job = |policy: Value| {
        let job = json!({"metadata": {"name": "j", "namespace": "d", "uid": "u"}, "spec": {"image": A, "completionPolicy": policy}});
        PullJob::read(JobKind::ImagePullJob, serde_json::from_value(job).unwrap())
            .unwrap()
            .spec
            .unwrap()
    };
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let after = |time| start.checked_add(seconds(time)).unwrap();
    let short = job(json!({"activeDeadlineSeconds": 90}));
    assert!(
        lets_others_pull(&short, start, after(44)) && !lets_others_pull(&short, start, after(45))
    );
    assert!(
        lets_others_pull(&job(json!({})), start, after(1_000_000))
            && lets_others_pull(&job(json!({"type": "Never"})), start, after(1))
    );
}

fn wait(status: Value) -> bool {
    let pod =
        json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": "n"}, "status": status});
    read_wait(pod).unwrap().waits
}

fn read_wait(pod: Value) -> Option<ImageWait> {
    serde_json::from_value::<ImageWaitWire>(pod).unwrap().read()
}

#[test]
fn i6_serial_what_waits_for_something_else_than_a_pull_does_not_count() {
    let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let running = |started: Value| json!({"started": started, "state": {"running": {}}});
    let ended = |code: i64| json!({"state": {"terminated": {"exitCode": code}}});
    let main = |one: Value| json!({"containerStatuses": [one]});
    let after = |init: Value| json!({"initContainerStatuses": [init], "containerStatuses": [waiting("PodInitializing")]});
    for status in [
        json!({"phase": "Pending"}),
        main(waiting("ContainerCreating")),
        main(json!({})),
        json!({"containerStatuses": [waiting("ImagePullBackOff"), waiting("ContainerCreating")]}),
        after(waiting("PodInitializing")),
        after(ended(0)),
        after(running(json!(true))),
    ] {
        assert!(wait(status.clone()), "{status}");
    }
    let others = [
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CrashLoopBackOff",
        "whatever",
    ];
    for status in others
        .map(|reason| main(waiting(reason)))
        .into_iter()
        .chain([
            after(waiting("ImagePullBackOff")),
            after(running(json!(false))),
            after(running(json!(null))),
            after(ended(1)),
            main(running(json!(true))),
            main(ended(0)),
        ])
    {
        assert!(!wait(status.clone()), "{status}");
    }
    let leaving = json!({"metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n"}});
    assert_eq!(
        read_wait(leaving),
        Some(ImageWait {
            uid: "u".into(),
            node: "n".into(),
            waits: false
        })
    );
    assert_eq!(read_wait(json!({"metadata": {"uid": "u"}})), None);
}

fn waiting(uid: &str, node: &str) -> ImageWait {
    ImageWait {
        uid: uid.into(),
        node: node.into(),
        waits: true,
    }
}

#[test]
fn i6_serial_a_pod_counts_for_two_minutes_from_when_it_was_first_seen() {
    let mut waits = ImageWaits::default();
    assert!(!waits.are_on("n", moment(0)));
    waits.observe(waiting("a", "n"), moment(0));
    waits.observe(
        ImageWait {
            waits: false,
            ..waiting("a", "n")
        },
        moment(50),
    );
    assert!(!waits.are_on("n", moment(50)));
    waits.observe(waiting("a", "n"), moment(100));
    assert!(waits.are_on("n", moment(119)) && !waits.are_on("other", moment(119)));
    assert!(
        !waits.are_on("n", moment(120)),
        "whatever it has shown meanwhile"
    );
    // Another list changes nothing about that.
    waits.observe(waiting("a", "n"), moment(130));
    waits.observe(waiting("b", "m"), moment(130));
    assert!(!waits.are_on("n", moment(130)) && waits.are_on("m", moment(130)));
    waits.is_gone("m", "b");
    assert!(!waits.are_on("m", moment(130)), "it is gone");
    waits.observe(waiting("c", "m"), moment(140));
    waits.is_gone("m", "c");
    assert!(!waits.are_on("m", moment(140)));
    let mut one = ImageWaits::default();
    assert!(one.observe(waiting("a", "n"), moment(0)));
    assert_eq!(
        format!("{waits:?}"),
        format!("{one:?}"),
        "nothing is kept of the others"
    );
}

#[test]
fn i6_serial_until_pods_were_listed_all_nodes_wait_for_ten_seconds_at_most() {
    let begun = || ImageWaits::begun(moment(5));
    assert!(begun().are_on("n", moment(14)) && !begun().are_on("n", moment(15)));
    let mut told = begun();
    assert!(told.are_on("n", moment(6)));
    told.wait_for_no_list();
    assert!(!told.are_on("n", moment(6)));
}

#[test]
fn i6_serial_so_many_pods_are_kept_and_no_more() {
    let mut waits = ImageWaits::default();
    for number in 0..1000 {
        let is_kept = waits.observe(waiting(&number.to_string(), "crowded"), moment(0));
        assert_eq!(is_kept, number < 256);
    }
    (0..256).for_each(|number: i32| waits.is_gone("crowded", &number.to_string()));
    assert!(!waits.are_on("crowded", moment(0)), "of one node");
    for number in 0..40_000 {
        waits.observe(waiting("u", &format!("ghost{number}")), moment(0));
    }
    assert!(
        waits.are_on("ghost19999", moment(0)) && !waits.are_on("ghost20000", moment(0)),
        "of all"
    );
}
