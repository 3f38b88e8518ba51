//! Restarting containers: rows 17 to 24, 42, and the experiments about them.

use serde_json::{Value, json};
use swaplet_core::image::ImageReference;

use super::super::{KubeletOptions, KubeletVersion};
use super::world::{World, image_options, pod};
use crate::virtual_node::images::{ImageOptions, digest_of};

/// A pod whose main container stays.
fn staying(policy: &str, side: &str) -> Value {
    let mut start = pod(policy, side);
    start["spec"]["containers"][0]["args"] = json!(["run=forever"]);
    start
}

fn running(policy: &str, side: &str) -> World {
    let mut world = World::new(staying(policy, side));
    world.run(5.0);
    world
}

/// `repo:tag@digest` of what the node reported.
fn pinned(world: &World) -> (String, String) {
    let status = world.pod["status"]["containerStatuses"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "side")
        .unwrap()
        .clone();
    let id = status["imageID"].as_str().unwrap().to_owned();
    let digest = id.split_once('@').unwrap().1.to_owned();
    (format!("work:1@{digest}"), format!("work@{digest}"))
}

#[test]
fn rows_17_to_19_an_alias_restarts_under_every_policy_without_a_pull() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut world = running(policy, "term=143");
        let (tagged, bare) = pinned(&world);
        for (restarts, image) in [tagged.as_str(), bare.as_str(), "work:1"]
            .into_iter()
            .enumerate()
        {
            world.events.clear();
            world.swap(1, image);
            world.run(2.5);
            assert_eq!(
                world.state("side"),
                format!("running work:1 rc{}", restarts + 1),
                "{policy} {image}"
            );
            assert!(
                world
                    .events
                    .iter()
                    .any(|event| event.contains("already present on machine"))
            );
        }
        assert_eq!(world.phase(), "Running");
        // The old container is shown until the new one runs.
        let states = world.trace.states("side");
        assert_eq!(
            states[1..],
            [
                "running work:1 rc0",
                "running work:1 rc1",
                "running work:1 rc2",
                "running work:1 rc3"
            ]
        );
    }
}

#[test]
fn row_20_park_and_back() {
    for policy in ["Never", "OnFailure"] {
        let mut world = running(policy, "term=143");
        world.swap(1, "park:1");
        world.run(3.0);
        assert_eq!(world.state("side"), "running park:1 rc1");
        world.swap(1, "work:1");
        world.run(3.0);
        assert_eq!(world.state("side"), "running work:1 rc2");
    }
}

#[test]
fn rows_21_and_22_exit_and_back() {
    for (policy, expected) in [
        ("Never", "terminated(0) exit:1 rc1"),
        ("OnFailure", "terminated(0) exit:1 rc1"),
        ("Always", "running work:1"),
    ] {
        let mut world = running(policy, "term=143");
        world.swap(1, "exit:1");
        world.run(3.0);
        world.swap(1, "work:1");
        world.run(5.0);
        assert!(
            world.state("side").starts_with(expected),
            "{policy}: {}",
            world.state("side")
        );
    }
}

#[test]
fn row_23_native_sidecars_restart_from_1_32_on() {
    for (version, restarts) in [
        (KubeletVersion::V1_30, 0),
        (KubeletVersion::V1_32, 1),
        (KubeletVersion::V1_36, 1),
    ] {
        let mut start = staying("Never", "term=0");
        start["spec"]["initContainers"] = json!([{"name": "native", "image": "work:1", "restartPolicy": "Always", "args": ["term=143"]}]);
        let mut world = World::of(version, start);
        world.run(5.0);
        let digest = digest_of(&ImageReference::parse("work:1").unwrap());
        world.patch(
            "/spec/initContainers/0/image",
            json!(format!("work:1@{digest}")),
        );
        world.run(14.0);
        assert_eq!(
            world.state("native"),
            format!("running work:1 rc{restarts}"),
            "{version:?}"
        );
    }
}

#[test]
fn row_24_an_alias_leaves_crash_loop_back_off() {
    let mut world = World::new(staying("Always", "run=100ms exit=1,1,1,0 term=143"));
    world.run(28.0);
    assert!(
        world.state("side").contains("CrashLoopBackOff"),
        "{}",
        world.state("side")
    );
    let starts = world
        .events
        .iter()
        .filter(|event| event.ends_with("Started container side"))
        .count();
    let digest = digest_of(&ImageReference::parse("work:1").unwrap());
    world.swap(1, &format!("work:1@{digest}"));
    world.run(2.5);
    assert_eq!(
        world
            .events
            .iter()
            .filter(|event| event.ends_with("Started container side"))
            .count(),
        starts + 1
    );
}

#[test]
fn crash_loop_waits_double_from_10_s() {
    let mut world = World::new(staying("Always", "run=100ms exit=1"));
    let mut starts = Vec::new();
    for second in 0..200 {
        let before = world.events.len();
        world.run(1.0);
        if world.events[before..]
            .iter()
            .any(|event| event == "Started Started container side")
        {
            starts.push(second);
        }
    }
    let gaps: Vec<i32> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps[0] <= 2
            && (10..=13).contains(&gaps[1])
            && (20..=31).contains(&gaps[2])
            && (40..=51).contains(&gaps[3]),
        "{gaps:?}"
    );
}

#[test]
fn row_3_a_always_pull_with_the_registry_down_loses_a_never_container() {
    let start = |policy: &str| {
        let mut start = staying(policy, "term=143");
        start["spec"]["containers"][1]["imagePullPolicy"] = json!("Always");
        let mut world = World::new(start);
        world.run(5.0);
        world.images.set_missing(vec![
            "docker.io/library/*".parse().unwrap(),
            "docker.io/library/*@*".parse().unwrap(),
        ]);
        let (tagged, _) = pinned(&world);
        world.swap(1, &tagged);
        world.run(15.0);
        world
    };
    let mut world = start("Never");
    assert_eq!(world.state("side"), "terminated(143) work:1 rc0");
    assert_eq!(
        world
            .events
            .iter()
            .filter(|event| event.starts_with("Failed Failed to pull"))
            .count(),
        1
    );
    world.images.set_missing(Vec::new());
    world.swap(1, "work:1");
    world.run(60.0);
    assert_eq!(
        world.state("side"),
        "terminated(143) work:1 rc0",
        "lost for good"
    );

    let mut world = start("Always");
    assert!(
        world
            .trace
            .states("side")
            .join(", ")
            .contains("waiting(ErrImagePull) work:1 rc0")
    );
    world.images.set_missing(Vec::new());
    world.run(60.0);
    assert!(
        world.state("side").starts_with("running"),
        "{}",
        world.state("side")
    );
}

/// Its end is its last state while it waits, and stays that when the end is its state again
/// (conformance, seed 968806763, sequences 675 and 867).
#[test]
fn a_deleted_pod_shows_the_end_of_a_waiting_container_twice_from_1_36_on() {
    for (version, last) in [
        (KubeletVersion::V1_34, None),
        (KubeletVersion::V1_36, Some(7)),
    ] {
        for (side, restarts) in [("term=7", 0), ("run=3s exit=3 term=7", 1)] {
            let mut world = World::of(version, staying("Always", side));
            world.run(5.5);
            world.swap(1, "nowhere/x:1");
            world.run(5.0);
            let seen = |world: &World| {
                let last = world.trace.last().unwrap();
                (
                    world.state("side"),
                    last.container("side").unwrap().last_exit_code,
                )
            };
            let waits = format!("waiting(ErrImagePull) work:1 rc{restarts}");
            assert_eq!(seen(&world), (waits, Some(7)), "{version:?} {side}");
            world.delete();
            world.run(5.0);
            assert!(world.deleted);
            let ended = format!("terminated(7) work:1 rc{restarts}");
            assert_eq!(seen(&world), (ended, last), "{version:?} {side}");
        }
    }
}

#[test]
fn row_3_b_an_imported_image() {
    let images = ImageOptions {
        imported: vec![ImageReference::parse("work:1").unwrap()],
        ..image_options()
    };
    let mut world = World::with(
        staying("Never", "term=143"),
        KubeletOptions::default(),
        images.clone(),
    );
    world.run(5.0);
    let id = world.pod["status"]["containerStatuses"][1]["imageID"]
        .as_str()
        .unwrap()
        .to_owned();
    for (restarts, image) in [
        "docker.io/library/work:1",
        "index.docker.io/library/work:1",
        &id,
        "work:1",
    ]
    .into_iter()
    .enumerate()
    {
        world.swap(1, image);
        world.run(2.5);
        assert_eq!(
            world.state("side"),
            format!("running work:1 rc{}", restarts + 1),
            "{image}"
        );
    }
    let digest = digest_of(&ImageReference::parse("work:1").unwrap());
    world.swap(1, &format!("work:1@{digest}"));
    world.run(10.0);
    world.swap(1, "work:1");
    world.run(10.0);
    assert_eq!(
        world.state("side"),
        "terminated(143) work:1 rc4",
        "dead for good"
    );

    let mut start = staying("OnFailure", "term=143");
    start["spec"]["containers"][1]["imagePullPolicy"] = json!("Never");
    let mut world = World::with(start, KubeletOptions::default(), images);
    world.run(5.0);
    world.swap(1, &format!("work:1@{digest}"));
    world.run(10.0);
    assert_eq!(world.state("side"), "waiting(ErrImageNeverPull) work:1 rc0");
    world.swap(1, "work:1");
    world.run(2.5);
    assert_eq!(world.state("side"), "running work:1 rc1");
}

#[test]
fn row_3_h_an_alias_restart_and_the_swap_queue_cleanly() {
    let mut start = pod("Never", "term=143 term-after=1s");
    start["spec"]["containers"][0]["args"] = json!(["run=5s"]);
    let mut world = World::new(start);
    world.run(5.2);
    let (tagged, _) = pinned(&world);
    world.swap(1, &tagged);
    world.run(0.5);
    world.swap(1, "exit:1");
    let took = world.seconds_until("Succeeded");
    assert!((3.0..6.5).contains(&took), "{took}");
    assert_eq!(world.state("side"), "terminated(0) exit:1 rc2");
}

#[test]
fn row_3_i_hooks_and_readiness_in_a_restart() {
    let mut start = staying("Never", "term=ignore");
    start["spec"]["containers"][1]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 1}}});
    let mut world = World::new(start);
    world.run(5.0);
    let (tagged, _) = pinned(&world);
    world.swap(1, &tagged);
    world.run(3.9);
    assert_eq!(
        world.state("side"),
        "running work:1 rc0",
        "the grace counts from the hook's begin"
    );
    assert!(
        world.trace.last().unwrap().container("side").unwrap().ready,
        "the old one stays ready while it stops"
    );
    world.run(1.5);
    assert_eq!(world.state("side"), "running work:1 rc1");
}

#[test]
fn row_42_a_warmer_swaps_from_target_to_target() {
    let mut world = running("Always", "term=0");
    for target in 2..6 {
        world.swap(1, &format!("target:{target}"));
        world.run(2.6);
        assert_eq!(
            world.state("side"),
            format!("running target:{target} rc{}", target - 1)
        );
    }
}

#[test]
fn init_containers_run_in_order_and_a_failed_one_fails_the_pod() {
    let init = |args: &str| json!([{"name": "first", "image": "work:1", "args": ["run=2s"]}, {"name": "second", "image": "work:1", "args": args.split(' ').collect::<Vec<_>>()}]);
    let mut start = pod("Never", "term=0");
    start["spec"]["initContainers"] = init("run=1s");
    let mut world = World::new(start.clone());
    world.run(4.0);
    assert_eq!(
        (world.phase(), world.state("main").as_str()),
        ("Pending", "waiting(PodInitializing) work:1 rc0")
    );
    world.run(4.0);
    assert_eq!(
        (world.phase(), world.state("first").as_str()),
        ("Running", "terminated(0) work:1 rc0")
    );
    start["spec"]["initContainers"] = init("run=1s exit=3");
    World::new(start.clone()).seconds_until("Failed");
    start["spec"]["restartPolicy"] = json!("OnFailure");
    start["spec"]["initContainers"] = init("run=1s exit=3,0");
    let mut world = World::new(start);
    world.seconds_until("Running");
    assert_eq!(world.state("second"), "terminated(0) work:1 rc1");
}

/// The node's program is started again: containers have gone on, what has ended stays so.
#[test]
fn containers_of_before_are_taken_over() {
    for (policy, image, expected) in [
        ("Never", "work:1", "running work:1 rc0"),
        ("Never", "exit:1", "terminated(0) exit:1 rc1"),
    ] {
        let mut world = World::after_main(policy, "term=143");
        world.swap(1, image);
        world.kubelet =
            super::super::Kubelet::new(KubeletOptions::default(), &world.pod, world.now);
        world.run(5.0);
        assert_eq!(
            (world.state("main").as_str(), world.state("side").as_str()),
            ("terminated(0) work:1 rc0", expected)
        );
    }
}
