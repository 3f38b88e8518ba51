//! Exit images that the administrator lists and that cannot be started.

use serde_json::json;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::objects::values::env::WITH_IMAGE;

use super::{cluster, job};
use crate::harness::{CONCURRENCY, SWAPLET};
use crate::objects::{EXIT, LISTED};

/// It does not have the program. Each start would be a restart: two pods that are started again and
/// again would fail the Job within seconds.
#[tokio::test(start_paused = true)]
async fn t2_a_listed_exit_image_that_may_not_start_is_not_tried_and_fails_no_job() {
    let world = cluster();
    let _life = world.start(SWAPLET, CONCURRENCY, |settings| {
        let listed = vec!["registry.example/other/*".parse().unwrap()];
        settings.rules.exit_images =
            ExitImages::new(Some(EXIT.parse().unwrap()), listed).said_public(Public::Yes);
        settings.rules.allowed.finish = true;
    });
    let mut job = job(2, 6, "OnFailure");
    let side = &mut job["spec"]["template"]["spec"]["containers"][1];
    side["command"] = json!(["/opt/own/server"]);
    side["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": WITH_IMAGE, "value": LISTED}));
    world.create_job(job).await;
    world.job_completes(2).await;
    for name in world.job_pods() {
        assert_ne!(world.image(&name), LISTED);
    }
    world.wait(120).await;
    for name in world.job_pods() {
        let events = world.events(&name);
        let has = |reason: &str| events.iter().any(|event| event == reason);
        assert!(has("PhaseWritten") && has("SidecarEnded"), "{events:?}");
        assert!(!has("ExitImageNotStarted"), "{events:?}");
    }
    world.assert_quiet().await;
}
