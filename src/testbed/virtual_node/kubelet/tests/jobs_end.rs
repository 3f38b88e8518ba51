//! Ending sidecars: rows 1 to 16, 25, 26, 36 to 40, and the experiments about them.

use serde_json::json;

use super::super::{KubeletOptions, KubeletVersion};
use super::world::{World, image_options, pod};

fn swapped(policy: &str, side: &str, image: &str) -> World {
    let mut world = World::after_main(policy, side);
    assert_eq!(
        (world.phase(), world.state("main").as_str()),
        ("Running", "terminated(0) work:1 rc0")
    );
    assert_eq!(world.state("side"), "running work:1 rc0");
    world.swap(1, image);
    world
}

#[test]
fn rows_1_to_6_and_9_the_swap_ends_the_pod_well() {
    for policy in ["Never", "OnFailure"] {
        for (side, stop) in [("term=0", 0.0), ("term=143", 0.0), ("term=ignore", 4.0)] {
            let mut world = swapped(policy, side, "exit:1");
            let took = world.seconds_until("Succeeded") - stop;
            assert!((1.0..2.6).contains(&took), "{policy} {side}: {took}");
            assert_eq!(
                world.trace.phases(),
                ["Pending", "Running", "Succeeded"],
                "{policy} {side}"
            );
            let states = world.trace.states("side");
            assert_eq!(
                states,
                [
                    "waiting(ContainerCreating) work:1 rc0",
                    "running work:1 rc0",
                    "terminated(0) exit:1 rc1"
                ],
                "{policy} {side}"
            );
        }
    }
}

#[test]
fn row_3_g_the_restart_count_is_seen_for_about_a_second_before_the_phase() {
    let mut world = swapped("OnFailure", "term=143", "exit:1");
    world.seconds_until("Succeeded");
    let seen = world.trace.all();
    let before = &seen[seen.len() - 2];
    assert_eq!(
        (
            before.phase.as_str(),
            before.container("side").unwrap().restarts
        ),
        ("Running", 1)
    );
}

fn without_the_command(policy: &str, side: &str) -> World {
    let mut world = World::new(pod(policy, side));
    world.pod["spec"]["containers"][1]["command"] = json!(["/missing"]);
    world.nudge();
    world.run(5.0);
    world.swap(1, "exit:1");
    world
}

#[test]
fn row_7_never_and_the_command_is_missing_in_the_exit_image() {
    for side in ["term=0", "term=143"] {
        let mut world = without_the_command("Never", side);
        world.seconds_until("Failed");
        assert_eq!(world.state("side"), "terminated(128) exit:1 rc1");
        let reason = &world
            .trace
            .last()
            .unwrap()
            .container("side")
            .unwrap()
            .reason;
        assert_eq!(reason, "StartError");
    }
}

#[test]
fn row_8_on_failure_and_the_command_is_missing_never_ends() {
    let mut world = without_the_command("OnFailure", "term=0");
    world.run(60.0);
    assert_eq!(world.phase(), "Running");
    let states = world.trace.states("side").join(", ");
    assert!(
        states.contains("waiting(RunContainerError) exit:1 rc1")
            && states.contains("waiting(CrashLoopBackOff)"),
        "{states}"
    );
}

#[test]
fn row_10_a_second_swap_leaves_the_loop_at_once() {
    let mut world = without_the_command("OnFailure", "term=0");
    world.run(60.0);
    world.patch("/spec/containers/1/command", json!(["/work"]));
    world.swap(1, "exit:2");
    let took = world.seconds_until("Succeeded");
    assert!((1.0..3.0).contains(&took), "{took}");
}

#[test]
fn rows_11_and_13_not_pullable_but_the_sidecar_exits_0() {
    for policy in ["Never", "OnFailure"] {
        let mut world = swapped(policy, "term=0", "nowhere/exit:1");
        world.seconds_until("Succeeded");
        assert_eq!(world.state("side"), "terminated(0) work:1 rc0");
        assert_eq!(
            world
                .events
                .iter()
                .filter(|event| event.starts_with("Failed Failed to pull"))
                .count(),
            1,
            "one attempt"
        );
    }
}

#[test]
fn row_12_not_pullable_never_143() {
    let mut world = swapped("Never", "term=143", "nowhere/exit:1");
    world.seconds_until("Failed");
    assert_eq!(world.state("side"), "terminated(143) work:1 rc0");
}

#[test]
fn row_14_not_pullable_on_failure_143_is_stuck_and_another_image_repairs_it() {
    let mut world = swapped("OnFailure", "term=143", "nowhere/exit:1");
    world.run(120.0);
    assert_eq!(world.phase(), "Running");
    let states = world.trace.states("side").join(", ");
    assert!(
        states.contains("waiting(ErrImagePull) work:1 rc0")
            && states.contains("waiting(ImagePullBackOff) work:1 rc0"),
        "{states}"
    );
    world.swap(1, "exit:1");
    world.seconds_until("Succeeded");
}

#[test]
fn row_15_pull_policy_always() {
    let mut world = World::new(pod("OnFailure", "term=143"));
    world.pod["spec"]["containers"][1]["imagePullPolicy"] = json!("Always");
    world.run(5.0);
    world.swap(1, "exit:1");
    world.seconds_until("Succeeded");
}

#[test]
fn row_25_a_sidecar_that_never_started_is_released_by_the_swap() {
    for policy in ["Never", "OnFailure"] {
        let mut world = World::new(pod(policy, "term=143"));
        world.pod["spec"]["containers"][1]["image"] = json!("nowhere/side:1");
        world.nudge();
        world.run(30.0);
        assert_eq!(world.phase(), "Pending");
        let states = world.trace.states("side").join(", ");
        assert!(
            states
                .contains("waiting(ErrImagePull) side:1 rc0, waiting(ImagePullBackOff) side:1 rc0"),
            "{states}"
        );
        world.swap(1, "exit:1");
        world.seconds_until("Succeeded");
        assert_eq!(world.state("side"), "terminated(0) exit:1 rc0");
    }
}

#[test]
fn row_26_sidecars_are_stopped_one_after_another() {
    let mut start = pod("Never", "term=ignore");
    let side = start["spec"]["containers"][1].clone();
    for name in ["side2", "side3"] {
        let mut other = side.clone();
        other["name"] = json!(name);
        start["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(other);
    }
    let mut world = World::new(start);
    world.run(5.0);
    (1..4).for_each(|index| world.pod["spec"]["containers"][index]["image"] = json!("exit:1"));
    world.nudge();
    let took = world.seconds_until("Succeeded");
    assert!((13.0..16.5).contains(&took), "{took}");
}

#[test]
fn row_36_a_command_on_a_volume_runs_again() {
    let mut world = World::new(pod("Never", "term=143"));
    world.pod["spec"]["containers"][1]["command"] = json!(["/v/work"]);
    world.pod["spec"]["containers"][1]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    world.nudge();
    world.run(5.0);
    world.swap(1, "exit:1");
    world.run(60.0);
    assert_eq!(
        (world.phase(), world.state("side").as_str()),
        ("Running", "running exit:1 rc1")
    );
}

#[test]
fn a10_a_script_of_a_config_map_is_run_by_the_exit_image() {
    let mut world = World::new(pod("Never", "term=143"));
    let spec = &mut world.pod["spec"];
    spec["containers"][1]["command"] = json!(["/v/run.sh"]);
    spec["containers"][1]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    spec["volumes"] = json!([{"name": "v", "configMap": {"name": "scripts"}}]);
    world.nudge();
    world.run(5.0);
    world.swap(1, "exit:1");
    world.run(60.0);
    assert_eq!(world.phase(), "Succeeded");
}

#[test]
fn rows_37_and_38_a_kubelet_that_dies_while_the_sidecar_stops() {
    for (policy, side, phase) in [
        ("Never", "term=143", "Failed"),
        ("OnFailure", "term=143", "Succeeded"),
        ("Never", "term=0", "Succeeded"),
    ] {
        let mut world = swapped(policy, &format!("{side} term-after=1s"), "exit:1");
        world.run(0.5);
        world
            .kubelet
            .restart(world.now, std::time::Duration::from_secs(3));
        world.seconds_until(phase);
    }
}

#[test]
fn row_39_last_state_is_dropped_before_1_36() {
    for (version, kept) in [
        (KubeletVersion::V1_30, None),
        (KubeletVersion::V1_34, None),
        (KubeletVersion::V1_36, Some(143)),
    ] {
        let mut world = World::of(version, pod("Never", "term=143"));
        world.run(5.0);
        world.swap(1, "exit:1");
        world.seconds_until("Succeeded");
        let seen = world.trace.all();
        let exit_code = |seen: &crate::virtual_node::trace::Seen| {
            seen.container("side").unwrap().last_exit_code
        };
        let with_phase: Vec<_> = seen
            .iter()
            .filter(|seen| seen.container("side").unwrap().restarts == 1)
            .collect();
        assert_eq!(
            (
                exit_code(with_phase[0]),
                exit_code(with_phase[with_phase.len() - 1])
            ),
            (Some(143), kept),
            "{version:?}"
        );
    }
}

#[test]
fn row_40_observed_generation() {
    for (version, expected) in [
        (KubeletVersion::V1_32, json!(null)),
        (KubeletVersion::V1_34, json!(2)),
    ] {
        let mut world = World::of(version, pod("Never", "term=143"));
        world.run(5.0);
        world.swap(1, "exit:1");
        world.run(0.3);
        assert_eq!(world.pod["status"]["observedGeneration"], expected);
        world.seconds_until("Succeeded");
        world.swap(1, "exit:2");
        world.run(10.0);
        assert_eq!(
            world.pod["status"]["observedGeneration"], expected,
            "a pod that has ended is not looked at"
        );
    }
}

#[test]
fn row_3_j_a_swap_while_main_runs() {
    let early = |policy: &str, main: &str| {
        let mut start = pod(policy, "term=143");
        start["spec"]["containers"][0]["args"] = json!(main.split(' ').collect::<Vec<_>>());
        let mut world = World::new(start);
        world.run(3.0);
        world.swap(1, "exit:1");
        world
    };
    let mut world = early("Never", "run=10s");
    world.run(3.0);
    assert_eq!(
        (world.phase(), world.state("side").as_str()),
        ("Running", "terminated(0) exit:1 rc1")
    );
    world.seconds_until("Succeeded");
    early("Never", "run=10s exit=1").seconds_until("Failed");
    let mut world = early("OnFailure", "run=10s exit=1");
    world.run(15.0);
    assert_eq!(
        (world.state("main").as_str(), world.state("side").as_str()),
        ("running work:1 rc1", "terminated(0) exit:1 rc1")
    );
}

#[test]
fn row_3_k_patches_on_ending_and_ended_pods_do_nothing() {
    let mut world = World::after_main("Never", "term=143 term-after=3s");
    world.delete();
    world.run(0.5);
    world.swap(1, "exit:1");
    world.run(2.0);
    assert!(!world.deleted);
    world.run(3.0);
    assert!(
        world.deleted && world.state("side") == "terminated(143) work:1 rc0",
        "{}",
        world.state("side")
    );
}

#[test]
fn row_3_m_a_container_that_always_restarts_makes_the_exit_image_loop() {
    let with = |own: &str, policy: &str| {
        let mut start = pod(policy, "term=143");
        start["spec"]["containers"][1]["restartPolicy"] = json!(own);
        let mut world = World::with(
            start,
            KubeletOptions::of(KubeletVersion::V1_36),
            image_options(),
        );
        world.run(5.0);
        world.swap(1, "exit:1");
        world
    };
    let mut world = with("Always", "Never");
    world.run(40.0);
    assert_eq!(world.phase(), "Running");
    let states = world.trace.states("side").join(", ");
    assert!(states.contains("terminated(0) exit:1 rc1, terminated(0) exit:1 rc2, waiting(CrashLoopBackOff) exit:1 rc2, "), "{states}");
    assert!(states.contains("terminated(0) exit:1 rc3"), "{states}");
    world.swap(1, "park:1");
    world.run(5.0);
    assert!(
        world.state("side").starts_with("running park:1"),
        "{}",
        world.state("side")
    );
    with("OnFailure", "Never").seconds_until("Succeeded");
    with("Never", "OnFailure").seconds_until("Succeeded");
}

#[test]
fn section_10_native_sidecars_are_ended_by_the_kubelet_last_one_first() {
    let mut start = pod("Never", "run=1s");
    let native = |name: &str| json!({"name": name, "image": "work:1", "args": ["term-after=1s"], "restartPolicy": "Always"});
    start["spec"]["initContainers"] = json!([native("one"), native("two")]);
    let mut world = World::new(start);
    world.seconds_until("Succeeded");
    let stopped: Vec<_> = world
        .events
        .iter()
        .filter(|event| event.starts_with("Killing"))
        .collect();
    assert_eq!(
        stopped,
        [
            "Killing Stopping container two",
            "Killing Stopping container one"
        ]
    );
    assert_eq!(world.state("one"), "terminated(143) work:1 rc0");
}

#[test]
fn deadline() {
    let mut start = pod("Never", "term=0");
    start["spec"]["activeDeadlineSeconds"] = json!(20);
    let mut world = World::new(start);
    world.seconds_until("Failed");
    assert_eq!(world.pod["status"]["reason"], "DeadlineExceeded");
}
