//! `unreadyGracePeriodSeconds`: the pod is not ready before, while, and never after.

use serde_json::{Value, json};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::Action;
use swaplet_core::restart::request::{StatePhase, UNREADY_ACQUIRED};

use super::world::{World, gated_pod, images, pod, request, restarted};
use crate::expect::moment;

const OURS: &str = r#"{"userAgent":"ContainerRecreateRequest","key":"ns/r"}"#;
const OTHER: &str = r#"{"userAgent":"Lifecycle","key":"another"}"#;

fn drained(pod: &Value) -> World {
    World::new(
        &request(&["app"], &json!({"unreadyGracePeriodSeconds": 5})),
        pod,
    )
}

/// Status and message of the gate.
fn gate(world: &World) -> (bool, &str) {
    let gate = world
        .pod
        .as_ref()
        .unwrap()
        .readiness
        .as_ref()
        .unwrap()
        .gate
        .as_ref()
        .unwrap();
    (gate.is_true, &gate.message)
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::Accept(_) => "accept",
        Action::Report(_) => "report",
        Action::Finalize(finalizers) if finalizers.is_empty() => "let go",
        Action::Finalize(_) => "hold",
        Action::SetReadiness(readiness) if readiness.gate.is_true => "ready",
        Action::SetReadiness(_) => "unready",
        Action::NoteUnready => "note",
        Action::WriteDown(_) => "write down",
        Action::Swap(..) => "swap",
        Action::Release => "release",
        Action::Delete => "delete",
    }
}

#[test]
fn crr_e3c_the_pod_is_not_ready_for_so_long_before_and_ready_after() {
    let mut world = drained(&gated_pod(""));
    let mut steps = Vec::new();
    let wait = loop {
        let decision = world.decide();
        let Some(action) = decision.action else {
            break decision;
        };
        steps.push(name(&action));
        if let Action::SetReadiness(readiness) = &action {
            assert!(
                readiness.unready && &*readiness.version == "1",
                "{readiness:?}"
            );
        }
        world.write(&action);
    };
    assert_eq!(steps, ["accept", "report", "hold", "unready", "note"]);
    assert_eq!(gate(&world), (false, &*format!("[{OURS}]")));
    assert_eq!(
        (&*world.request.finalizers, world.swaps),
        (&[UNREADY_ACQUIRED.into()][..], 0)
    );
    assert_eq!(
        (wait.reason, wait.again),
        (Reason::RestartPending, Some(moment(5)))
    );
    assert_eq!(world.later(4).decide().action, None, "it runs to its end");

    world.later(1).settle();
    assert_eq!(
        (world.swaps, gate(&world).0),
        (1, false),
        "not ready until it is over"
    );
    world.restarts("app", true);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
    assert_eq!(
        (gate(&world), world.request.finalizers.len()),
        ((true, "[]"), 0)
    );
    assert_eq!((world.swaps, &*world.request.message), (1, ""));
}

#[test]
fn entries_of_others_stay_and_keep_the_pod_not_ready() {
    let mut world = drained(&gated_pod(&format!("[{OTHER}]")));
    world.settle();
    assert_eq!(gate(&world), (false, &*format!("[{OURS},{OTHER}]")));
    world.later(5).settle();
    world.restarts("app", true);
    world.assert_over("app");
    assert_eq!(gate(&world), (false, &*format!("[{OTHER}]")));
}

#[test]
fn what_another_user_has_written_by_hand_is_not_touched() {
    let mut world = drained(&gated_pod("drained by hand"));
    world.settle();
    assert_eq!(world.later(4).decide().action, None);
    world.later(1).settle();
    world.restarts("app", true);
    world.assert_over("app");
    assert_eq!(
        (gate(&world), world.request.finalizers.len()),
        ((false, "drained by hand"), 0)
    );
}

/// As OpenKruise, which does not say so.
#[test]
fn a_pod_without_the_gate_is_restarted_so_much_later_and_that_is_said() {
    let mut world = drained(&pod("Always"));
    world.settle();
    assert!(
        world
            .request
            .message
            .contains("unreadyGracePeriodSeconds 5 only delays the restart"),
        "{}",
        world.request.message
    );
    assert_eq!((world.request.finalizers.len(), world.swaps), (0, 0));
    world.later(4).settle();
    assert_eq!(world.swaps, 0);
    world.later(1).settle();
    world.restarts("app", true);
    assert_eq!(
        (world.assert_over("app").0, world.swaps),
        (StatePhase::Succeeded, 1)
    );
}

#[test]
fn a_new_life_after_each_write_leaves_the_pod_ready() {
    let mut world = drained(&gated_pod(&format!("[{OTHER}]")));
    let mut writes = Vec::new();
    loop {
        let decision = world.dies().decide();
        match (decision.action, decision.reason) {
            (Some(action), _) => {
                writes.push(name(&action));
                world.write(&action);
            }
            (None, Reason::RestartPending) if world.swaps == 0 => {
                world.later(5);
            }
            (None, Reason::RestartPending) => {
                world.restarts("app", true);
            }
            _ => break,
        }
        assert!(writes.len() < 30, "no end");
    }
    assert_eq!(
        (world.swaps, world.state("app").0, world.now),
        (1, StatePhase::Succeeded, moment(5))
    );
    assert_eq!(
        writes.iter().filter(|write| **write == "unready").count(),
        2,
        "with the entry, and without it: {writes:?}"
    );
    assert_eq!(gate(&world), (false, &*format!("[{OTHER}]")));
}

/// The finalizer keeps a request that is deleted until its entry is gone.
#[test]
fn a_request_that_is_deleted_halfway_lets_the_pod_be_ready_and_restarts_nothing() {
    for after in ["hold", "unready", "note"] {
        let mut world = drained(&gated_pod(""));
        loop {
            let action = world.decide().action.unwrap();
            world.write(&action);
            if name(&action) == after {
                break;
            }
        }
        world.request.deleting = true;
        world.dies().later(60);
        assert_eq!(world.settle().reason, Reason::RequestOver, "{after}");
        assert_eq!(
            (gate(&world).0, world.request.finalizers.len(), world.swaps),
            (true, 0, 0),
            "{after}"
        );
    }
}

#[test]
fn a_pod_that_is_replaced_meanwhile_is_not_touched() {
    let mut world = drained(&gated_pod(""));
    world.settle();
    let mut next = gated_pod(&format!("[{OURS}]"));
    next["metadata"]["uid"] = json!("another");
    world.pod = Some(super::world::read_pod(&next));
    assert_eq!(
        world.assert_over("app"),
        (StatePhase::Failed, "pod has gone".to_owned())
    );
    assert_eq!(
        (gate(&world), world.request.finalizers.len()),
        ((false, &*format!("[{OURS}]")), 0)
    );

    let mut gone = drained(&gated_pod(""));
    gone.settle();
    gone.pod = None;
    gone.assert_over("app");
    assert_eq!(gone.request.finalizers.len(), 0);
}

#[test]
fn the_deadline_ends_the_wait_and_the_pod_is_ready_again() {
    let mut object = request(&["app"], &json!({"unreadyGracePeriodSeconds": 60}));
    object["spec"]["activeDeadlineSeconds"] = json!(10);
    let mut world = World::new(&object, &gated_pod(""));
    assert_eq!(world.settle().again, Some(moment(10)));
    world.later(10);
    assert_eq!(world.assert_over("app").0, StatePhase::Failed);
    assert_eq!(
        (gate(&world).0, world.swaps, world.image("app")),
        (true, 0, &*images("app").0)
    );
}

/// What cannot be restarted is refused before the pod is made not ready.
#[test]
fn a_refused_restart_does_not_touch_the_readiness() {
    let mut pod = gated_pod("");
    pod["status"]["containerStatuses"][0]["imageID"] = json!("");
    let mut world = drained(&pod);
    assert_eq!(world.assert_over("app").0, StatePhase::Failed);
    assert_eq!(
        (gate(&world), world.request.unready_acquired.as_deref()),
        ((true, ""), None)
    );
}

/// OpenKruise's manager, which sees the same request, was faster.
#[test]
fn what_openkruise_has_begun_is_gone_on_with() {
    let mut world = drained(&gated_pod(""));
    world.settle_until(|action| matches!(action, Action::SetReadiness(_)));
    world.pod = Some(super::world::read_pod(&gated_pod(&format!("[{OURS}]"))));
    world.request.unready_acquired = Some("2026-01-01T00:00:02Z".into());
    let decision = world.later(3).settle();
    assert_eq!(decision.again, Some(moment(7)), "its time counts");
    world.later(4).settle();
    world.restarts("app", true);
    world.assert_over("app");
    assert!(gate(&world).0);

    let mut strange = drained(&gated_pod(""));
    strange.request.unready_acquired = Some("yesterday".into());
    strange.assert_over("app");
    assert_eq!(
        (&*strange.request.message, strange.swaps),
        ("failed to parse unready time yesterday", 0)
    );
}

#[test]
fn an_entry_that_was_not_written_is_written_again() {
    let mut world = drained(&gated_pod(""));
    let set = world.settle_until(|action| matches!(action, Action::SetReadiness(_)));
    assert_eq!(world.decide().action, Some(set));
    // Ordered restarts wait once.
    let mut both = World::new(
        &super::world::request(
            &["app", "log"],
            &json!({"unreadyGracePeriodSeconds": 5, "orderedRecreate": true}),
        ),
        &gated_pod(""),
    );
    both.settle();
    both.later(5).settle();
    both.restarts("app", true).settle();
    assert_eq!((both.swaps, both.image("log")), (2, &*restarted("log", 3)));
}
