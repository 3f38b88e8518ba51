//! New images that do not work, lives that end around each write, and writes that fail.

use std::collections::BTreeSet;

use swaplet_testbed::apiserver::{Effect, UpdateWebhook, Verb};

use super::{RECORD, Upgrades, image};
use crate::line::Patches;
use crate::objects::PARK;

#[tokio::test(start_paused = true)]
async fn a_wrong_image_goes_back_by_itself_and_says_so() {
    let world = Upgrades::with_pods(3).await;
    let _life = world.start();
    world.wait(5).await;
    world.upgrade_to(404).await;
    let pods = ["p0", "p1", "p2"];
    world.serve_for(120, &pods).await;
    for pod in pods {
        assert_eq!(world.works(pod), image(1));
    }
    let told: Vec<_> = pods.iter().flat_map(|pod| world.notes(pod)).collect();
    let told: Vec<_> = told
        .iter()
        .filter(|(reason, _)| reason == "HotUpgradeFailed")
        .collect();
    assert!(
        told.len() == 1 && told[0].1.contains("mesh:404"),
        "{told:?}"
    );
    assert_eq!(world.counts(), [3, 0, 3, 0]);
    let message = world.status()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("reverted in 1 pods"), "{message}");
    assert_eq!(world.writes().len(), 2, "out and back, in one pod");
    world.assert_no_writes().await;
    // The next image is tried, and works.
    world.upgrade_to(2).await;
    world.serve_for(60, &pods).await;
    assert_eq!(
        (world.works("p2"), world.counts()),
        (image(2), [3, 3, 3, 3])
    );
    assert_eq!(world.status()["message"], "");
}

#[tokio::test(start_paused = true)]
async fn killed_around_each_write() {
    for arrives in [false, true] {
        for passing in 0..5 {
            let world = Upgrades::with_pods(1).await;
            let life = world.start();
            world.wait(5).await;
            life.line.patches(if arrives {
                Patches::PassBeforeOneArrives(passing)
            } else {
                Patches::PassBeforeAllStay(passing)
            });
            world.upgrade_to(2).await;
            world.serve_for(20, &["p0"]).await;
            life.kill();
            let _next = world.start();
            world.serve_for(30, &["p0"]).await;
            let when = format!("{passing} writes were answered, {arrives}");
            assert_eq!(world.works("p0"), image(2), "{when}");
            assert_eq!(world.counts(), [1, 1, 1, 1], "{when}");
            assert_eq!(world.annotation("p0", RECORD), "", "{when}");
            world.assert_no_writes().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_fail_are_made_again_and_denied_ones_are_told_once() {
    for effect in [
        Effect::Drop,
        Effect::ApplyThenDrop,
        Effect::reply(500).into(),
        Effect::reply(409).into(),
    ] {
        let world = Upgrades::with_pods(1).await;
        let _life = world.start();
        world.wait(5).await;
        let fault = world.fault(effect.clone(), |rule| {
            rule.verb(Verb::Patch).resource("pods")
        });
        world.upgrade_to(2).await;
        world.serve_for(30, &["p0"]).await;
        world.end_fault(fault);
        world.serve_for(120, &["p0"]).await;
        assert_eq!(world.works("p0"), image(2), "{effect:?}");
    }
    let world = Upgrades::with_pods(1).await;
    let _life = world.start();
    world.wait(5).await;
    let fault = world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::Patch).resource("pods")
    });
    world.upgrade_to(2).await;
    world.serve_for(300, &["p0"]).await;
    let denied: BTreeSet<_> = world
        .notes("p0")
        .into_iter()
        .filter(|(reason, _)| reason == "WriteDenied")
        .collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert!(world.writes().len() <= 6, "{}", world.writes().len());
    world.end_fault(fault);
    world.wait(300).await;
    assert_eq!(world.works("p0"), image(2));
}

/// A webhook stores the new image and drops the annotations, so no pod says that its upgrade has
/// begun.
#[tokio::test(start_paused = true)]
async fn u129_where_the_record_of_an_upgrade_is_not_stored_one_pod_is_tried() {
    let world = Upgrades::with_pods(4).await;
    let _life = world.start();
    world.wait(5).await;
    let drops: UpdateWebhook = |resource, old, new| {
        if resource == "pods" {
            new["metadata"]["annotations"] = old["metadata"]["annotations"].clone();
        }
    };
    world.server.set_update_webhook(Some(drops));
    world.upgrade_to(2).await;
    let pods = ["p0", "p1", "p2", "p3"];
    world.serve_for(1500, &pods).await;
    let begun = pods.iter().filter(|pod| {
        let images = world.images(pod);
        images.contains(&image(2))
    });
    let begun: Vec<_> = begun.copied().collect();
    assert_eq!(begun.len(), 1, "{begun:?}");
    let told = world.notes(begun[0]);
    assert!(
        told.iter()
            .any(|(reason, words)| reason == "HotUpgradeRefused"
                && words.contains("annotations were not stored")),
        "{told:?}"
    );
    // The webhook is gone, and somebody does what was told.
    world.server.set_update_webhook(None);
    world.set_second(begun[0], PARK).await;
    world.serve_for(120, &pods).await;
    assert_eq!(world.works_with(&image(2)), 4);
    assert_eq!(world.counts(), [4, 4, 4, 4]);
}
