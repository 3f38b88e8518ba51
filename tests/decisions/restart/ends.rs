//! Every request ends, whoever was to carry it out and whatever is seen of its pod; and none before
//! its time.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::ContainerState;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::Action;
use swaplet_core::restart::request::StatePhase;

use super::world::{World, gated_pod, pod, read_request, request};
use crate::expect::moment;

const ABANDONED: &str = "another controller has begun it without a record, and no kruise-daemon is on the node to continue it";

fn changed(mut request: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut request);
    request
}

fn app() -> Value {
    request(&["app"], &json!({}))
}

/// It is deleted at its time, and nothing else is written before.
fn assert_deleted_after(world: &mut World, seconds: u64) {
    let over = world.settle();
    assert_eq!(
        (over.reason, over.again),
        (
            Reason::RequestOver,
            Some(world.now + Duration::from_secs(seconds))
        )
    );
    assert_eq!(world.later(seconds - 1).dies().decide().action, None);
    assert_eq!(world.later(1).decide().action, Some(Action::Delete));
}

#[test]
fn b1_d4_a_request_that_was_refused_has_its_ttl_as_well() {
    let ttl = |request: Value| {
        changed(request, |request| {
            request["spec"]["ttlSecondsAfterFinished"] = json!(5)
        })
    };
    let mut gone = World::new(&ttl(app()), &pod("Always"));
    gone.pod = None;
    let unknown = World::new(&ttl(request(&["aap"], &json!({}))), &pod("Always"));
    let finished = World::new(
        &ttl(app()),
        &changed(pod("Never"), |pod| {
            pod["status"]["phase"] = json!("Succeeded")
        }),
    );
    let pending = World::new(
        &ttl(app()),
        &changed(pod("Never"), |pod| pod["spec"]["nodeName"] = json!("")),
    );
    for mut refused in [gone, unknown, finished, pending] {
        refused.later(3).settle();
        assert!(
            refused.request.journal.is_none() && refused.request.completed_at.is_some(),
            "{:?}",
            refused.request
        );
        assert_deleted_after(&mut refused, 5);
    }
    // Without a ttl it stays, and nobody looks at it again.
    let mut kept = World::new(&request(&["aap"], &json!({})), &pod("Always"));
    assert_eq!(kept.assert_over("aap").0, StatePhase::Failed);
    // Also one of OpenKruise's own: where it is not there, nobody else deletes it.
    let mut terminator = ttl(app());
    terminator["metadata"]["name"] = json!("sidecar-termination-pu");
    terminator["status"] = json!({"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z"});
    assert_deleted_after(&mut World::new(&terminator, &pod("Always")), 5);
}

#[test]
fn u204_a_request_whose_label_cannot_be_removed_is_deleted_in_its_time() {
    let asked = changed(app(), |request| {
        request["spec"]["ttlSecondsAfterFinished"] = json!(5)
    });
    let mut world = World::new(&asked, &pod("Always"));
    world.settle();
    world.restarts("app", true);
    let denied = world.settle_until(|action| matches!(action, Action::Release));
    assert!(world.request.completed_at.is_some() && world.request.active);
    assert_eq!(world.later(4).decide().action, Some(denied));
    assert_eq!(world.later(1).decide().action, Some(Action::Delete));
}

#[test]
fn r20c_a_request_by_the_name_of_openkruises_own_ends_where_openkruise_is_not() {
    let asked = changed(app(), |request| {
        request["metadata"]["name"] = json!("sidecar-termination-pu");
        request["spec"]["activeDeadlineSeconds"] = json!(20);
        request["spec"]["ttlSecondsAfterFinished"] = json!(30);
    });
    let mut world = World::new(&asked, &pod("Always"));
    let mut left = world.clone();
    left.later(100_000);
    assert_eq!(
        (left.settle().reason, left.settle().again),
        (Reason::RequestLeft, None),
        "a daemon is there, or nobody has looked"
    );
    world.memory.without_daemon = Some(Moment::START);
    assert_eq!(world.settle().again, Some(moment(20)));
    world.later(20).settle();
    let (phase, message) = world.state("app");
    assert!(
        phase == StatePhase::Failed && message.contains("no kruise-daemon is on the node"),
        "{message}"
    );
    assert_deleted_after(&mut world, 30);
    assert_eq!(world.swaps, 0);
}

#[test]
fn b3_what_a_daemon_has_begun_is_left_to_it_and_ends_some_time_after_it_is_gone() {
    let begun = changed(app(), |request| {
        request["status"] = json!({"phase": "Recreating"})
    });
    let mut world = World::new(&begun, &pod("Always"));
    world.later(100_000);
    assert_eq!(
        (world.settle().reason, world.settle().again),
        (Reason::RequestLeft, None),
        "a daemon is there, or nobody has looked"
    );
    world.memory.without_daemon = Some(world.now);
    let waits = world.settle();
    assert_eq!(
        (waits.reason, waits.again),
        (
            Reason::RequestLeft,
            Some(world.now + Duration::from_secs(600))
        )
    );
    world.later(599);
    let mut back = world.clone();
    back.memory.without_daemon = None;
    assert_eq!(
        (
            back.later(100).settle().reason,
            back.request == read_request(&begun)
        ),
        (Reason::RequestLeft, true),
        "it is back"
    );
    assert_eq!(
        world.later(1).assert_over("app"),
        (StatePhase::Failed, ABANDONED.to_owned())
    );
    assert_eq!(world.swaps, 0);
}

#[test]
fn b3_its_deadline_ends_it_where_no_daemon_is() {
    let begun = changed(app(), |request| {
        request["status"] = json!({"phase": "Recreating"});
        request["spec"]["activeDeadlineSeconds"] = json!(30);
    });
    let mut world = World::new(&begun, &pod("Always"));
    world.memory.without_daemon = Some(Moment::START);
    assert_eq!(world.settle().again, Some(moment(30)));
    let mut left = world.clone();
    left.memory.without_daemon = None;
    assert_eq!(
        left.later(100).settle().reason,
        Reason::RequestLeft,
        "OpenKruise's manager ends it"
    );
    assert_eq!(world.later(30).assert_over("app").1, ABANDONED);
}

#[test]
fn b4_a_request_with_the_label_of_virtual_nodes_is_carried_out_where_the_row_of_the_node_says_so() {
    let labelled = changed(app(), |request| {
        request["metadata"]["labels"] = json!({"type": "virtual-kubelet"})
    });
    let mut world = World::new(&labelled, &pod("Always"));
    world.node = Some(NodeClass::VirtualUpdates);
    assert_eq!(world.settle().reason, Reason::RequestLeft);
    world.left_to_vendor = None;
    assert_eq!(world.settle().reason, Reason::RequestWaits);
    assert_eq!(
        world.request,
        read_request(&labelled),
        "nothing was written"
    );
    world.left_to_vendor = Some(false);
    world.settle();
    assert_eq!(world.swaps, 1);
    // What was begun goes on, whatever anybody says of the node now.
    world.left_to_vendor = Some(true);
    world.restarts("app", true);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
    // One that a vendor has begun is his, also where no daemon of OpenKruise is.
    let begun = changed(labelled, |request| {
        request["status"] = json!({"phase": "Recreating"})
    });
    let mut vendors = World::new(&begun, &pod("Always"));
    (vendors.left_to_vendor, vendors.memory.without_daemon) = (Some(false), Some(Moment::START));
    assert_eq!(vendors.later(10_000).settle().reason, Reason::RequestLeft);
}

/// Who may write requests moves the time from which the pod counts as not ready, or writes one that
/// is yet to come. The leash keeps it for those who may patch the pod, and no decision is made by
/// it: the journal is made of the status of the pod.
#[test]
fn b6_what_others_have_filled_in_decides_nothing_and_is_not_overwritten() {
    let filled = changed(app(), |request| {
        let container = &mut request["spec"]["containers"][0];
        container["statusContext"] =
            json!({"containerID": "containerd://another", "restartCount": 7});
        container["preStop"] = json!({"exec": {"command": ["true"]}});
        container["ports"] = json!([{"containerPort": 1}]);
    });
    let accepted = |request: &Value| match World::new(request, &pod("Always")).decide().action {
        Some(Action::Accept(acceptance)) => (acceptance.journal, acceptance.containers.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!((accepted(&filled).1, accepted(&app()).1), (0, 1));
    assert_eq!(accepted(&filled).0, accepted(&app()).0);
    let ended = |request: &Value| {
        let mut world = World::new(request, &pod("Always"));
        world.settle();
        world.restarts("app", true).later(2);
        (
            world.assert_over("app"),
            world.swaps,
            world.image("app").to_owned(),
            world.told,
        )
    };
    assert_eq!(ended(&filled), ended(&app()));
    assert_eq!(ended(&filled).0.0, StatePhase::Succeeded);
}

#[test]
fn b7_the_time_since_when_the_pod_is_not_ready_is_the_first_one_that_was_seen() {
    let drained = || {
        World::new(
            &request(&["app"], &json!({"unreadyGracePeriodSeconds": 60})),
            &gated_pod(""),
        )
    };
    let mut moved = drained();
    assert_eq!(moved.settle().again, Some(moment(60)));
    for other in ["2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "yesterday"] {
        moved.request.unready_acquired = Some(other.into());
        let waits = moved.settle();
        assert_eq!((waits.again, moved.swaps), (Some(moment(60)), 0), "{other}");
    }
    moved.later(60).settle();
    assert_eq!(moved.swaps, 1);

    let mut ahead = drained();
    ahead.request.unready_acquired = Some("2027-01-01T00:00:00Z".into());
    assert_eq!(ahead.settle().again, Some(moment(60)), "it would never end");
    assert_eq!(ahead.later(20).settle().again, Some(moment(60)));
    ahead.later(40).settle();
    assert_eq!(ahead.swaps, 1);
}

fn min_started(seconds: i64, deadline: Option<u32>) -> World {
    let object = changed(
        request(&["app"], &json!({"minStartedSeconds": seconds})),
        |request| {
            request["spec"]["activeDeadlineSeconds"] = deadline.map_or(Value::Null, Into::into);
        },
    );
    let mut world = World::new(&object, &pod("Always"));
    world.settle();
    world
}

fn becomes_ready(world: &mut World, ready: bool) -> &mut World {
    world.node_says("app", |pod, index| pod.details[index].ready = ready)
}

/// As in OpenKruise.
#[test]
fn d12_the_minimum_counts_from_the_start_of_the_container_and_it_is_ready_then() {
    let mut world = min_started(60, None);
    world.later(10).restarts("app", false).settle();
    becomes_ready(world.later(45), true);
    assert_eq!(world.settle().again, Some(moment(70)));
    assert_eq!(
        becomes_ready(&mut world, false).settle().reason,
        Reason::RestartPending
    );
    world.later(30);
    assert_eq!(
        world.settle().reason,
        Reason::RestartPending,
        "it is not ready"
    );
    assert_eq!(
        becomes_ready(&mut world, true).assert_over("app").0,
        StatePhase::Succeeded,
        "it is, and was started long ago"
    );
}

/// The clock of the node is wrong: what was seen counts.
#[test]
fn d12_clock_a_start_that_cannot_be_true_counts_from_when_it_can_have_been() {
    for (started, earliest) in [
        ("2025-12-31T23:00:00Z", 60),
        ("2026-01-01T01:00:00Z", 70),
        ("2026-01-01T00:00:04Z", 64),
    ] {
        let mut world = min_started(60, None);
        world.later(10).restarts("app", true);
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].status.as_mut().unwrap().state = ContainerState::Running {
                started_at: started.parse().ok(),
            };
        });
        assert_eq!(world.settle().again, Some(moment(earliest)), "{started}");
        assert_eq!(
            world.later(earliest - 11).settle().reason,
            Reason::RestartPending
        );
        assert_eq!(world.later(1).assert_over("app").0, StatePhase::Succeeded);
    }
}

#[test]
fn d13_no_request_is_given_up_as_not_ready_before_its_own_deadline() {
    let mut world = min_started(0, Some(1800));
    world.restarts("app", false).settle();
    assert_eq!(world.later(1500).settle().reason, Reason::RestartPending);
    let mut slow = world.clone();
    assert_eq!(
        becomes_ready(&mut slow, true).assert_over("app").0,
        StatePhase::Succeeded
    );
    assert!(
        world
            .later(300)
            .assert_over("app")
            .1
            .contains("activeDeadlineSeconds")
    );
    // A shorter one is its own matter, and without one the ten minutes stay.
    let mut without = min_started(0, None);
    without.restarts("app", false).settle();
    assert!(
        without.later(600).assert_over("app").1.contains("in 600 s"),
        "{:?}",
        without.request.states
    );
}
