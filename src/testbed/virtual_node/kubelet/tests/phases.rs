//! A phase that somebody else writes: rows 31 to 35.

use serde_json::json;

use super::world::{World, pod};

#[test]
fn row_31_a_phase_alone_is_taken_back() {
    let mut world = World::after_main("Never", "term=143");
    world.write_phase("Succeeded");
    let took = world.seconds_until("Running");
    assert!(took <= 10.1, "{took}");
    assert_eq!(world.state("side"), "running work:1 rc0");
}

#[test]
fn rows_32_to_34_a_phase_and_a_nudge_end_the_pod() {
    for (policy, side, code, longest) in [
        ("Never", "term=143", 143, 1.5),
        ("OnFailure", "term=ignore", 137, 5.5),
    ] {
        let mut world = World::after_main(policy, side);
        world.write_phase("Succeeded");
        world.nudge();
        world.run(longest);
        assert_eq!(
            (world.phase(), world.state("side")),
            ("Succeeded", format!("terminated({code}) work:1 rc0"))
        );
        world.run(30.0);
        assert_eq!(world.trace.phases(), ["Pending", "Running", "Succeeded"]);
    }
}

#[test]
fn row_35_the_nudge_may_be_the_swap_and_starts_no_exit_container() {
    let mut world = World::after_main("OnFailure", "term=143");
    world.write_phase("Succeeded");
    world.swap(1, "exit:1");
    world.run(30.0);
    assert_eq!(
        (world.phase(), world.state("side").as_str()),
        ("Succeeded", "terminated(143) work:1 rc0")
    );
}

#[test]
fn row_3_n_the_phase_stops_containers_in_parallel() {
    let mut start = pod("Never", "term=ignore");
    let mut other = start["spec"]["containers"][1].clone();
    other["name"] = json!("side2");
    start["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(other);
    let mut world = World::new(start);
    world.run(5.0);
    world.write_phase("Succeeded");
    world.nudge();
    world.run(4.5);
    assert!(
        world.state("side").starts_with("terminated(137)")
            && world.state("side2").starts_with("terminated(137)")
    );
}

#[test]
fn row_3_o_a_status_of_the_kubelet_on_its_way_takes_the_phase_back_and_may_fail_the_pod() {
    let mut world = World::after_main("OnFailure", "term=143");
    world.write_phase("Succeeded");
    world.nudge();
    world.run(0.15);
    // The kubelet is ending the pod when a status from before arrives.
    world.write_phase("Running");
    world.run(10.0);
    assert_eq!(world.phase(), "Failed");
}
