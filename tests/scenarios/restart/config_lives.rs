//! Changed configuration, and lives that end after each single write, or were not there when it
//! changed.

use std::time::Duration;

use http::Method;
use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Verb};
use tokio::time::sleep;

use super::config::{Configured, web};
use crate::line::Patches;

/// The patches for two pods: each restart is seven, and a record; the first record is a creation.
const PATCHES: usize = 16;
/// Long enough for the restarts of two pods, begun anew.
const ENOUGH: u64 = 60;

/// Both pods were restarted once, and the next change is seen. What goes on after that is asked
/// once per test, by `assert_quiet`.
async fn ends_well(world: &Configured, when: &str) {
    for pod in ["web-0", "web-1"] {
        assert_eq!(
            (world.restarts_of(pod), world.image_changes(pod)),
            ((1, 0), 1),
            "{pod}: {when}"
        );
        assert!(
            world
                .said(pod)
                .iter()
                .all(|(reason, _)| reason == "RestartOnChanged"),
            "{pod}: {when}: {:?}",
            world.said(pod)
        );
    }
    world.set_color("green").await;
    world.wait(ENOUGH).await;
    for pod in ["web-0", "web-1"] {
        assert_eq!(
            (world.restarts_of(pod), world.image_changes(pod)),
            ((2, 0), 2),
            "{pod}: the next change: {when}"
        );
    }
}

async fn two_pods() -> Configured {
    Configured::pods(2, "app=configmap/settings").await
}

#[tokio::test(start_paused = true)]
async fn killed_after_each_patch_before_its_answer_came() {
    for passing in 0..PATCHES {
        let world = two_pods().await;
        let life = world.start().await;
        life.line.patches(Patches::PassBeforeOneArrives(passing));
        world.set_color("blue").await;
        world.wait(ENOUGH).await;
        life.kill();
        let _next = world.start().await;
        world.wait(ENOUGH).await;
        ends_well(
            &world,
            &format!("{passing} patches were answered, one more was made"),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn killed_before_each_patch_was_made() {
    for passing in 0..PATCHES {
        let world = two_pods().await;
        let life = world.start().await;
        life.line.patches(Patches::PassBeforeAllStay(passing));
        world.set_color("blue").await;
        world.wait(ENOUGH).await;
        life.kill();
        let _next = world.start().await;
        world.wait(ENOUGH).await;
        ends_well(&world, &format!("{passing} patches were made")).await;
    }
}

/// Each write of whatever kind is the last one of its life; only Events do not count.
#[tokio::test(start_paused = true)]
async fn killed_as_soon_as_each_write_was_made() {
    for writes in 1.. {
        let world = two_pods().await;
        let life = world.start().await;
        let made = || {
            life.line
                .sent()
                .iter()
                .filter(|sent| sent.method != Method::GET && !sent.uri.contains("/events"))
                .count()
        };
        let before = made();
        world.set_color("blue").await;
        for _ in 0..600 {
            if made() < before + writes {
                sleep(Duration::from_millis(100)).await;
            }
        }
        if made() < before + writes {
            assert!(writes > PATCHES + 2, "there were only {writes} writes");
            ends_well(&world, "not killed").await;
            world.assert_quiet().await;
            return;
        }
        life.kill();
        let _next = world.start().await;
        world.wait(ENOUGH).await;
        ends_well(&world, &format!("killed after write {writes}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_while_no_controller_ran_is_found_by_the_next_one() {
    let world = two_pods().await;
    let life = world.start().await;
    life.kill();
    world.wait(3600).await;
    world.set_color("blue").await;
    world.create(&web(2, "app=configmap/settings")).await;
    world.wait(3600).await;
    let _next = world.start().await;
    world.wait(ENOUGH).await;
    assert_eq!(
        world.restarts_of("web-2"),
        (0, 0),
        "it came after the change"
    );
    for pod in ["web-0", "web-1"] {
        assert_eq!(
            (world.restarts_of(pod), world.image_changes(pod)),
            ((1, 0), 1),
            "{pod}"
        );
    }
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn two_controllers_restart_it_once() {
    let world = two_pods().await;
    let _one = world.start_controller_on_config();
    let _two = world.start().await;
    world.set_color("blue").await;
    world.wait(ENOUGH).await;
    ends_well(&world, "two controllers").await;
    world.assert_quiet().await;
}

/// Nobody knows whether the request was made: no other pod is begun with, and the same one is not
/// restarted twice.
#[tokio::test(start_paused = true)]
async fn answers_to_requests_are_lost() {
    for effect in [
        Effect::ApplyThenDrop,
        Effect::Drop,
        Effect::reply(500).into(),
        Effect::ApplyThenReply(Effect::reply(504)),
    ] {
        let world = two_pods().await;
        let fault = world.fault(effect.clone(), |rule| {
            rule.verb(Verb::Create)
                .resource("containerrecreaterequests")
        });
        let _life = world.start().await;
        world.set_color("blue").await;
        world.wait(30).await;
        assert!(
            world.open_requests() <= 1,
            "{effect:?}: {:?}",
            world.names_of_requests()
        );
        world.end_fault(fault);
        world.wait(ENOUGH).await;
        ends_well(&world, &format!("{effect:?}")).await;
        world.assert_quiet().await;
    }
}

/// The records cannot be kept: nothing is restarted, and nothing is lost.
#[tokio::test(start_paused = true)]
async fn records_that_cannot_be_stored_for_a_while() {
    for effect in [
        Effect::reply(503).into(),
        Effect::reply(403).into(),
        Effect::ApplyThenDrop,
        Effect::Drop,
    ] {
        let world = two_pods().await;
        let fault = world.fault(effect.clone(), |rule| {
            rule.resource("configmaps").namespace("state")
        });
        let _life = world.start().await;
        world.set_color("blue").await;
        world.wait(60).await;
        assert!(world.names_of_requests().is_empty(), "{effect:?}");
        world.end_fault(fault);
        world.wait(300).await;
        // Whether the first content was seen before the change depends on what could be read.
        let restarts = (world.restarts_of("web-0").0, world.restarts_of("web-1").0);
        assert!(
            restarts == (0, 0) || restarts == (1, 1),
            "{effect:?}: {restarts:?}"
        );
        world.set_color("green").await;
        world.wait(ENOUGH).await;
        assert_eq!(
            (world.restarts_of("web-0").0, world.restarts_of("web-1").0),
            (restarts.0 + 1, restarts.1 + 1),
            "{effect:?}"
        );
        world.assert_quiet().await;
    }
}

/// What is recorded of pods that are gone is dropped.
#[tokio::test(start_paused = true)]
async fn records_of_pods_that_are_gone_are_dropped() {
    let world = two_pods().await;
    let life = world.start().await;
    let records = |world: &Configured| {
        let map = world
            .server
            .peek("configmaps", "state", "swaplet-restart-on")
            .unwrap();
        let texts = map["data"]
            .as_object()
            .into_iter()
            .flat_map(|data| data.values());
        texts
            .map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap())
            .collect::<Vec<serde_json::Value>>()
    };
    assert_eq!(records(&world).len(), 2);
    assert!(
        records(&world)
            .iter()
            .any(|record| record["pod"] == json!("default/web-0")
                && record["seen"]["app"]["configmap/settings"].is_string())
    );
    world.remove("web-0").await;
    world.wait(90).await;
    assert_eq!(records(&world).len(), 1);
    life.kill();
    world.remove("web-1").await;
    let _next = world.start().await;
    world.wait(90).await;
    assert_eq!(records(&world).len(), 0);
    world.assert_quiet().await;
}
