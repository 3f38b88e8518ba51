//! Restarts of single containers.

mod asked;
mod ends;
mod forged;
pub mod leash;
mod outcomes;
mod own_image;
mod parking;
mod patience;
mod readiness;
mod refusals;
mod repeated;
mod strategy;
pub mod world;

use serde_json::json;
use swaplet_core::objects::recreate_request::RequestPhase;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::Action;
use swaplet_core::restart::request::StatePhase;

use self::world::{DIGEST, World, images, pod, request};

#[test]
fn an_alias_is_written_once_and_success_is_another_ready_container() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut world = World::of(policy);
        assert_eq!(world.settle().reason, Reason::RestartPending, "{policy}");
        assert_eq!(
            (world.image("app"), world.image("log"), world.swaps),
            (&*images("app").1, &*images("log").0, 1)
        );
        assert_eq!(world.state("app"), (StatePhase::Recreating, String::new()));
        assert_eq!(world.reasons(), [Reason::ContainerRestarting]);

        world.restarts("app", false);
        assert_eq!(world.settle().reason, Reason::RestartPending);
        world.restarts("app", true);
        assert_eq!(
            world.assert_over("app"),
            (StatePhase::Succeeded, String::new()),
            "{policy}"
        );
        assert_eq!(
            (world.swaps, world.reasons()),
            (
                1,
                vec![Reason::ContainerRestarting, Reason::ContainerRestarted]
            )
        );
        assert!(world.request.state("app").killed);
    }
}

/// Whatever the last life has written, the next one goes on from there.
#[test]
fn a_new_life_after_each_write_changes_nothing() {
    let mut world = World::of("Never");
    let mut writes = 0;
    loop {
        let decision = world.dies().decide();
        match decision.action {
            Some(action) => world.write(&action),
            None if decision.reason == Reason::RestartPending => {
                world.restarts("app", true);
            }
            None => break,
        }
        writes += 1;
        assert!(writes < 20, "no end");
    }
    assert_eq!(
        (world.swaps, world.state("app").0),
        (1, StatePhase::Succeeded)
    );
    assert_eq!(
        world.pod.as_ref().unwrap().pod.containers[0]
            .status
            .as_ref()
            .unwrap()
            .restart_count,
        1
    );
}

#[test]
fn the_steps_in_their_order() {
    let mut world = World::of("Always");
    let mut steps = Vec::new();
    for _ in 0..5 {
        let action = world.decide().action.unwrap();
        steps.push(match &action {
            Action::Accept(_) => "accept",
            Action::WriteDown(_) => "write down",
            Action::Report(_) => "report",
            Action::Swap(..) => "swap",
            Action::Release | Action::Delete => "end",
            Action::Finalize(_) | Action::NoteUnready | Action::SetReadiness(_) => {
                panic!("nobody has asked for it")
            }
        });
        world.write(&action);
    }
    assert_eq!(steps, ["accept", "report", "write down", "swap", "report"]);
    let mark = world.request.mark("app").unwrap();
    let intent = mark.intent.as_ref().unwrap();
    assert_eq!(
        (&*intent.from, &*intent.to, intent.generation),
        (&*images("app").0, &*images("app").1, Some(1))
    );
    assert_eq!(
        (&*mark.container_id, mark.restart_count),
        ("containerd://app-0", 0)
    );
}

#[test]
fn the_next_restart_takes_the_next_name() {
    let mut world = World::of("Always");
    world.pod.as_mut().unwrap().pod.containers[0].image = images("app").1.into();
    world.settle();
    assert_eq!(
        world.image("app"),
        format!("r.example/app:1-restart-3@{DIGEST}")
    );
}

#[test]
fn what_openkruise_fills_in_is_filled_in_once() {
    let mut world = World::of("Always");
    let Some(Action::Accept(acceptance)) = world.decide().action else {
        panic!("{:?}", world.decide())
    };
    assert_eq!((&*acceptance.pod_uid, &*acceptance.node), ("pu", "n"));
    let filled = &acceptance.containers[0];
    assert_eq!(
        (
            &*filled.name,
            &*filled.context.container_id,
            filled.context.restart_count
        ),
        ("app", "containerd://app-0", 0)
    );
    assert_eq!(
        (&filled.pre_stop, acceptance.grace_seconds),
        (&None, Some(30))
    );

    let mut filled = request(&["app"], &json!({"terminationGracePeriodSeconds": 30}));
    filled["spec"]["containers"][0]["statusContext"] =
        json!({"containerID": "containerd://app-0", "restartCount": 0});
    let Some(Action::Accept(acceptance)) = World::new(&filled, &pod("Always")).decide().action
    else {
        panic!()
    };
    assert!(
        acceptance.containers.is_empty() && acceptance.grace_seconds.is_none(),
        "its webhook was there"
    );
}

#[test]
fn hooks_are_copied_unless_they_are_too_long_for_the_schema() {
    let filled = |host: String| {
        let mut pod = pod("Always");
        let hook = json!({"httpGet": {"port": "web", "host": host}});
        pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": hook});
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "name": "web"}]);
        let Some(Action::Accept(mut acceptance)) = World::new(&request(&["app"], &json!({})), &pod)
            .decide()
            .action
        else {
            panic!()
        };
        let filled = acceptance.containers.remove(0);
        (
            filled.pre_stop.is_some_and(|copy| copy == hook),
            filled.ports.is_some(),
        )
    };
    assert_eq!(filled("localhost".to_owned()), (true, true));
    assert_eq!(filled("x".repeat(5000)), (false, false));
}

/// OpenKruise's webhook does not let anybody change it.
#[test]
fn a_changed_label_of_the_pod_ends_the_request() {
    let mut world = World::of("Always");
    world.settle_until(|action| matches!(action, Action::Swap(..)));
    world.request.pod_uid = Some("another".into());
    assert_eq!(
        world.assert_over("app"),
        (StatePhase::Failed, "pod has gone".to_owned())
    );
    assert_eq!((world.swaps, world.image("app")), (0, &*images("app").0));
}

#[test]
fn crr_e1b_two_containers_change_in_one_patch() {
    let mut world = World::new(&request(&["app", "log"], &json!({})), &pod("Always"));
    world.settle();
    assert_eq!(
        (world.swaps, world.image("app"), world.image("log")),
        (1, &*images("app").1, &*images("log").1)
    );
    world.restarts("app", true).settle();
    assert_eq!(
        (world.state("app").0, world.request.phase),
        (StatePhase::Succeeded, RequestPhase::Recreating)
    );
    world.restarts("log", true);
    assert_eq!(world.assert_over("log").0, StatePhase::Succeeded);
}

#[test]
fn a_second_request_waits_and_is_carried_out_then() {
    let mut second = World::of("Always");
    second.is_first = false;
    assert_eq!(second.settle().reason, Reason::RequestWaits);
    assert_eq!(
        (second.request.phase, second.swaps),
        (RequestPhase::Pending, 0)
    );
    second.is_first = true;
    second.settle();
    second.restarts("app", true);
    assert_eq!(second.assert_over("app").0, StatePhase::Succeeded);
}

#[test]
fn requests_for_others_are_left_alone() {
    let mut of_the_vendor = request(&["app"], &json!({}));
    of_the_vendor["metadata"]["labels"] = json!({"type": "virtual-kubelet"});
    let mut of_the_terminator = request(&["app"], &json!({}));
    of_the_terminator["metadata"]["name"] = json!("sidecar-termination-pu");
    let mut of_the_daemon = request(&["app"], &json!({}));
    of_the_daemon["status"] = json!({"phase": "Recreating"});
    for request in [of_the_vendor, of_the_terminator, of_the_daemon] {
        let mut world = World::new(&request, &pod("Always"));
        assert_eq!(world.settle().reason, Reason::RequestLeft);
        assert_eq!(world.request, world::read_request(&request));
    }
    let mut on_its_node = World::of("Always");
    on_its_node.node = Some(swaplet_core::cluster::node_class::NodeClass::Daemon);
    assert_eq!(on_its_node.settle().reason, Reason::RequestLeft);
    assert!(on_its_node.request.journal.is_none());
}
