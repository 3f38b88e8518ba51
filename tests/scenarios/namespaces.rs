//! A controller that works in some namespaces only.

use swaplet_controller::terminate::selection::Selection;
use swaplet_testbed::apiserver::{Effect, Verb};

use super::harness::World;
use super::node::Kubelet;
use super::objects::{EXIT, pod};

/// Pods of `default`; the other namespace has none.
async fn world() -> World {
    let world = World::new();
    world.create_namespace("other").await;
    world.run_pod(&pod("p", "Never")).await;
    world
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_namespace_that_is_named_are_ended_and_no_others() {
    let world = world().await;
    let life = world.start_controller_in(&["other"]);
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!((world.patches("p"), life.pods_kept()), (0, 0));
    assert!(
        world
            .requests()
            .iter()
            .all(|request| request.namespace == "other" || request.resource == "nodes")
    );
    life.kill();
    world.start_controller_in(&["other", "default"]);
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(
        (world.patches("p"), world.phase("p").as_str()),
        (1, "Succeeded")
    );
    world.assert_quiet().await;
}

/// What changed in it meanwhile is seen.
#[tokio::test(start_paused = true)]
async fn watch_where_one_namespace_has_to_be_listed_again_the_others_are_not() {
    let world = world().await;
    world.run_pod(&pod("gone", "Never")).await;
    let life = world.start_controller_in(&["default", "other"]);
    world.wait(1).await;
    assert_eq!((world.lists(), life.pods_kept()), (2, 2));
    let held = world.fault(Effect::HoldWatch, |rule| {
        rule.verb(Verb::Watch).resource("pods").namespace("default")
    });
    world.remove("gone").await;
    world.end_fault(held);
    let expired = world.fault(Effect::ExpireWatch(0), |rule| {
        rule.verb(Verb::Watch)
            .resource("pods")
            .namespace("default")
            .times(1)
    });
    world.wait(60).await;
    world.end_fault(expired);
    assert_eq!((world.lists(), life.pods_kept()), (3, 1));
    world.ends("p", "main", 0).await;
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(
        (world.patches("p"), world.phase("p").as_str()),
        (1, "Succeeded")
    );
    world.assert_quiet().await;
}

/// The RoleBinding of a namespace goes with it.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_must_not_be_read_does_not_hold_up_the_others_and_is_seen_as_soon_as_it_may_be()
 {
    let world = world().await;
    let forbidden = |namespace: &'static str| {
        world.fault(Effect::reply(403), move |rule| {
            rule.verb(Verb::List).namespace(namespace)
        })
    };
    let other = forbidden("other");
    let life = world.start_controller_in(&["default", "other"]);
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.image("p").as_str(), world.events("p")),
        (EXIT, Vec::new())
    );
    life.kill();
    world.end_fault(other);

    let default = forbidden("default");
    world.run_pod(&pod("q", "Never")).await;
    world.ends("q", "main", 0).await;
    world.start_controller_in(&["default", "other"]);
    world.wait(60).await;
    assert_eq!(world.patches("q"), 0);
    world.end_fault(default);
    world.start_kubelet(Kubelet::default());
    world.wait(30).await;
    assert_eq!(
        (
            world.patches("q"),
            world.phase("q").as_str(),
            world.phase("p").as_str()
        ),
        (1, "Succeeded", "Succeeded")
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_ends_no_sidecars_writes_nothing() {
    let world = world().await;
    world.start_controller_that_selects(Selection::nothing());
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    assert_eq!((world.patches("p"), world.events("p").len()), (0, 0));
    world.assert_quiet().await;
}
