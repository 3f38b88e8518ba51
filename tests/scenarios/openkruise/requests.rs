//! Requests to the daemon that are refused, lost or already there.

use swaplet_testbed::apiserver::{Effect, Verb};

use super::daemon::OBEDIENT;
use super::{REQUESTS, first, last};
use crate::harness::World;
use crate::node::Kubelet;
use crate::objects::pod;

#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_leads_to_the_next_method_at_once() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.fault(
        Effect::reply(403).message("feature-gate KruiseDaemon is not enabled"),
        |rule| rule.verb(Verb::Create).resource(REQUESTS),
    );
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 1)
    );
    assert_eq!(world.events("p"), ["RecreateFailed", "SidecarEnded"]);
    assert!(
        world.notes("p")[0]
            .1
            .contains("KruiseDaemon is not enabled")
    );
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_sent_is_tried_again_for_a_while() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    let down = world.fault(Effect::reply(503), |rule| {
        rule.verb(Verb::Create).resource(REQUESTS)
    });
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(20).await;
    assert_eq!(world.patches("p"), 0);
    world.end_fault(down);
    world.start_daemon(OBEDIENT);
    world.wait(20).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 0)
    );
    assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
    assert!(world.asked() < 10, "{} tries", world.asked());
    world.assert_quiet_beside_openkruise().await;

    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.fault(
        Effect::reply(500).message("failed calling webhook"),
        |rule| rule.verb(Verb::Create).resource(REQUESTS),
    );
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["RecreateFailed", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_no_second_request() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(last());
    world.start_daemon(OBEDIENT);
    world.fault(Effect::ApplyThenDrop, |rule| {
        rule.verb(Verb::Create).resource(REQUESTS).times(1)
    });
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (
            world.phase("p").as_str(),
            world.asked(),
            world.recreate_requests().len()
        ),
        ("Succeeded", 1, 1)
    );
    assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_life_follows_the_request_that_is_there() {
    let world = World::with_openkruise("Never").await;
    let life = world.start_beside(last());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(2).await;
    life.kill();
    assert_eq!(world.asked(), 1);
    let _next = world.start_beside(last());
    world.wait(2).await;
    world.start_daemon(OBEDIENT);
    world.wait(5).await;
    assert_eq!((world.phase("p").as_str(), world.asked()), ("Succeeded", 1));
    assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn openkruise_comes_and_goes() {
    let world = World::with_openkruise("Never").await;
    let life = world.start_beside(first());
    life.line.hide(Some("/apis/apps.kruise.io"));
    world.start_kubelet(Kubelet::default());
    world.start_daemon(OBEDIENT);
    world.run_pod(&pod("q", "Never")).await;
    world.wait(1).await;
    world.ends("q", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("q").as_str(), world.patches("q"), world.asked()),
        ("Succeeded", 1, 0)
    );

    life.line.hide(None);
    world.wait(310).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 0, 1)
    );

    life.line.hide(Some("/apis/apps.kruise.io"));
    world.wait(70).await;
    world.run_pod(&pod("r", "Never")).await;
    world.ends("r", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("r").as_str(), world.patches("r"), world.asked()),
        ("Succeeded", 1, 1)
    );
    world.assert_quiet_beside_openkruise().await;
}
