//! Limits that leave no room for swaps, and pods that are finished instead.

use serde_json::json;
use swaplet_testbed::apiserver::Verb;

use super::{cluster, job, twenty};
use crate::harness::{Life, World};
use crate::objects::{EXIT, pod};

/// The same, where the phase of pods may be written.
async fn with_job_that_may_be_finished(pods: u32, backoff_limit: u32) -> (World, Life) {
    let world = cluster();
    let life = world.start_controller_that_may_finish();
    world.runs_job(pods, backoff_limit, "OnFailure").await;
    (world, life)
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_no_swap_fits_into_is_told_once_and_nothing_is_harmed() {
    let (world, _life) = twenty(0, "OnFailure").await;
    world.wait(60).await;
    let notes = world.notes_of_job();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].0 == "NoHeadroom" && notes[0].1.contains("Raise spec.backoffLimit to at least 2"),
        "{notes:?}"
    );
    assert_eq!(
        (
            world.swapped_of_job(),
            world.count(Verb::Patch),
            world.count(Verb::Create)
        ),
        (0, 0, 1)
    );
    world.assert_quiet().await;

    world.set_limit(1).await;
    world.wait(10).await;
    assert_eq!(
        (world.swapped_of_job(), world.notes_of_job().len()),
        (0, 2),
        "the first limit still holds no swap, and that is told"
    );
    world.set_limit(2).await;
    world.job_completes(20).await;
    world.each_pod_took_one_patch();
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_no_swap_fits_into_is_no_matter_where_the_phase_may_be_written() {
    let (world, _life) = with_job_that_may_be_finished(20, 0).await;
    world.job_completes(20).await;
    assert_eq!((world.swapped_of_job(), world.notes_of_job()), (0, vec![]));
    world.wait(120).await;
    world.assert_quiet().await;
}

/// Who has to wait for other swaps only is not finished: a swap is the better end.
#[tokio::test(start_paused = true)]
async fn who_waits_for_swaps_is_swapped() {
    let (world, _life) = with_job_that_may_be_finished(12, 3).await;
    world.job_completes(12).await;
    world.each_pod_took_one_patch();
    world.assert_quiet().await;
}

/// A pod that has restarted as often as the Job allows, and runs on, leaves the others no room:
/// they are finished.
#[tokio::test(start_paused = true)]
async fn who_would_wait_for_a_main_that_has_used_up_the_limit_is_finished() {
    let world = cluster();
    let _life = world.start_controller_that_may_finish();
    let mut job = job(4, 3, "OnFailure");
    job["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["run=20s"]);
    world.create_job(job).await;
    for image in ["main:2", "main:3"] {
        world.wait(5).await;
        world.restart_main(&world.job_pods()[0], image).await;
    }
    world.job_completes(4).await;
    assert_eq!((world.swapped_of_job(), world.notes_of_job()), (0, vec![]));
    world.wait(120).await;
    world.assert_quiet().await;
}

/// A kubelet may take a phase back, and then the restarts of that pod count again: so it makes no
/// room until it has settled.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_phase_may_be_taken_back_makes_no_room() {
    let world = World::new();
    world.create_job(job(2, 2, "OnFailure")).await;
    let uid = world.server.peek("jobs.batch", "default", "job").unwrap()["metadata"]["uid"].clone();
    for name in ["restarted", "other"] {
        let mut pod = pod(name, "OnFailure");
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": uid, "controller": true}]);
        world.run_pod(&pod).await;
    }
    world.restarts("restarted", 1).await;
    let _life = world.start_controller_that_may_finish();
    world.ends("restarted", "main", 0).await;
    world.wait(12).await;
    assert_eq!(
        (world.phase("restarted"), world.image("restarted")),
        ("Succeeded".to_owned(), "side:1".to_owned())
    );

    world.ends("other", "main", 0).await;
    world.wait(5).await;
    assert_eq!(world.patches("other"), 0);
    world.ends("restarted", "side", 143).await;
    world
        .set_status("restarted", json!({"phase": "Succeeded"}))
        .await;
    world.wait(15).await;
    assert_eq!(world.patches("other"), 0);
    world.wait(10).await;
    assert_eq!(world.image("other"), EXIT);
    assert_eq!(world.notes_of_job(), []);
}

/// Sidecars that end by themselves let the Job complete without anybody.
#[tokio::test(start_paused = true)]
async fn a_limit_that_no_swap_fits_into_is_no_matter_when_the_sidecars_end() {
    let world = cluster();
    let _life = world.start_controller();
    let mut job = job(3, 0, "OnFailure");
    job["spec"]["template"]["spec"]["containers"][1]["args"] = json!(["run=40s"]);
    world.create_job(job).await;
    world.wait(30).await;
    assert_eq!(world.notes_of_job().len(), 1);
    world.job_completes(3).await;
    assert_eq!(world.count(Verb::Patch), 0);
    world.assert_quiet().await;
}
