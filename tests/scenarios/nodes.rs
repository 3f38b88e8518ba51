//! Nodes that cannot or will not run the exit image.

use serde_json::json;

use super::harness::World;
use super::node::{Kubelet, terminated};
use super::objects::EXIT;

#[tokio::test(start_paused = true)]
async fn t17_a_sidecar_in_a_crash_loop() {
    for policy in ["OnFailure", "Never"] {
        let (world, _life) = World::with_pod(policy).await;
        world
            .waits(
                "p",
                "side",
                "CrashLoopBackOff",
                "back-off 5m0s restarting failed container",
            )
            .await;
        world.start_kubelet(Kubelet::default());
        world.ends("p", "main", 0).await;
        world.wait(5).await;
        world.assert_ended_by_one_patch("p");
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn t17_a_sidecar_whose_own_image_cannot_be_pulled_keeps_the_pod_pending() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world
        .waits(
            "p",
            "side",
            "ImagePullBackOff",
            "Back-off pulling image \"side:1\"",
        )
        .await;
    world.ends("p", "main", 0).await;
    assert_eq!(world.phase("p"), "Pending");
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t17_a_sidecar_that_has_just_crashed_is_swapped_when_it_is_up_again() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.ends("p", "side", 1).await;
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(world.patches("p"), 0);
    world.runs("p", "side").await;
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t17_a_sidecar_that_has_ended_already_is_left_alone() {
    let (world, _life) = World::with_pod("Never").await;
    world.ends("p", "side", 0).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (
            world.phase("p").as_str(),
            world.patches("p"),
            world.events("p").len()
        ),
        ("Succeeded", 0, 0)
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t18_an_exit_image_that_cannot_be_pulled_is_told_once_until_it_can() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    world.ends("p", "side", 143).await;
    let missing = format!("failed to pull and unpack image \"{EXIT}\": not found");
    world.waits("p", "side", "ErrImagePull", &missing).await;
    world.wait(30).await;
    let notes = world.notes("p");
    assert_eq!(notes[0].0, "ExitImageNotPulled");
    assert!(notes[0].1.contains(&missing), "{notes:?}");
    for _ in 0..10 {
        world
            .waits(
                "p",
                "side",
                "ImagePullBackOff",
                &format!("Back-off pulling image \"{EXIT}\""),
            )
            .await;
        world.wait(20).await;
        world.waits("p", "side", "ErrImagePull", &missing).await;
        world.wait(20).await;
    }
    world.assert_quiet().await;
    assert_eq!(world.events("p"), ["ExitImageNotPulled"]);

    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["ExitImageNotPulled", "SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t18_without_the_exit_image_a_clean_end_of_the_sidecar_is_enough() {
    for policy in ["OnFailure", "Never"] {
        let (world, _life) = World::with_pod(policy).await;
        world.start_kubelet(Kubelet {
            pulls: false,
            ..Kubelet::default()
        });
        world.ends("p", "main", 0).await;
        world.wait(5).await;
        world.assert_ended_by_one_patch("p");
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn t19_an_exit_code_of_143_under_never_is_told_and_does_not_count() {
    let (world, _life) = World::with_pod("Never").await;
    world.start_kubelet(Kubelet {
        stop_code: 143,
        ..Kubelet::default()
    });
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(world.phase("p"), "Succeeded");
    let notes = world.notes("p");
    assert!(
        notes.len() == 1 && notes[0].0 == "SidecarEnded" && notes[0].1.contains("143"),
        "{notes:?}"
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t19_a_node_that_judges_the_pod_by_the_stopped_sidecar_is_told_of() {
    let (world, _life) = World::with_pod("Never").await;
    world.start_kubelet(Kubelet {
        stop_code: 143,
        shows_stop: true,
        ..Kubelet::default()
    });
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Failed", 1)
    );
    assert_eq!(world.events("p"), ["PodFailedAfterSwap"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t20_a_provider_that_fails_the_pod_is_told_of() {
    let (world, _life) = World::with_pod("Never").await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    world.set_status("p", json!({"phase": "Failed", "reason": "ProviderFailed", "message": "update is not supported"})).await;
    world.wait(5).await;
    assert_eq!(world.patches("p"), 1);
    assert_eq!(world.events("p"), ["PodFailedAfterSwap"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t20_a_provider_that_makes_the_pod_pending_gets_one_patch_and_a_warning() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    world.set_status("p", json!({"phase": "Pending", "reason": "ProviderFailed", "message": "update is not supported"})).await;
    world.wait(120).await;
    assert_eq!(world.patches("p"), 1);
    assert_eq!(world.events("p"), ["SwapRejected"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t21_a_provider_that_ignores_the_update_gets_one_patch_and_a_warning() {
    let (world, _life) = World::with_pod("Never").await;
    world.ends("p", "main", 0).await;
    for nth in 0..24 {
        // It polls, and reports the same again and again.
        world.set_status("p", json!({"conditions": [{"type": "Ready", "status": "False", "reason": format!("poll{nth}")}]})).await;
        world.wait(5).await;
    }
    assert_eq!(world.patches("p"), 1);
    assert_eq!(world.events("p"), ["SwapWithoutEffect"]);
    world.assert_quiet().await;
    assert_eq!(world.events("p").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn t28_the_clock_of_the_node_does_not_matter() {
    for clock_ahead in [-3600, -600, 600, 3600] {
        let (world, _life) = World::with_pod("OnFailure").await;
        let state = terminated(0, -clock_ahead);
        let mut statuses = world.get("p")["status"]["containerStatuses"].clone();
        statuses[0]["state"] = state;
        world
            .set_status("p", json!({"containerStatuses": statuses}))
            .await;
        world.start_kubelet(Kubelet {
            clock_ahead,
            ..Kubelet::default()
        });
        world.wait(5).await;
        world.assert_ended_by_one_patch("p");
        assert_eq!(world.lists(), 1);
        world.assert_quiet().await;
    }
}
