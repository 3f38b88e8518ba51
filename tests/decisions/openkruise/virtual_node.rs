//! ST-v: the cases on a virtual node.

use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::report::reason::Reason;

use super::{assert_silent, eci, mains_ok, two_and_two};
use crate::builder::{ContainerBuilder, main_container, pod, sidecar, sidecar_with_image};
use crate::expect::{EXIT, LISTED, swaps_in};

/// OpenKruise's sidecar of both groups of cases: marked by both variables.
fn both_marks(name: &str) -> ContainerBuilder {
    sidecar(name).env(WITH_IMAGE, LISTED)
}

#[test]
fn st_v1_never_mains_uncompleted() {
    let pod = pod("Never")
        .with(main_container("main").uncompleted())
        .with(both_marks("sidecar").uncompleted());
    assert_silent(&pod, Reason::MainsRunning);
}

#[test]
fn st_v2_never_main_failed_marked_by_image_only() {
    let pod = pod("Never")
        .with(main_container("main").ended(137))
        .with(sidecar_with_image("sidecar", LISTED).uncompleted());
    swaps_in(eci, &pod, &[("sidecar", LISTED)]);
}

#[test]
fn st_v3_never_main_ok() {
    let pod = pod("Never")
        .with(main_container("main").ended(0))
        .with(both_marks("sidecar").uncompleted());
    swaps_in(eci, &pod, &[("sidecar", LISTED)]);
}

#[test]
fn st_v4_on_failure_mains_uncompleted() {
    let pod = pod("OnFailure")
        .with(main_container("main").uncompleted())
        .with(both_marks("sidecar").uncompleted());
    assert_silent(&pod, Reason::MainsRunning);
}

#[test]
fn st_v5_on_failure_main_failed() {
    let pod = pod("OnFailure")
        .with(main_container("main").ended(137))
        .with(both_marks("sidecar").uncompleted());
    assert_silent(&pod, Reason::MainsRunning);
}

#[test]
fn st_v6_on_failure_main_ok() {
    let pod = pod("OnFailure")
        .with(main_container("main").ended(0))
        .with(both_marks("sidecar").uncompleted());
    swaps_in(eci, &pod, &[("sidecar", LISTED)]);
}

#[test]
fn st_v7_on_failure_two_mains_ok_two_sidecars() {
    let sidecars = [
        both_marks("sidecar-1").uncompleted(),
        both_marks("sidecar-2").uncompleted(),
    ];
    swaps_in(
        eci,
        &two_and_two(mains_ok(), sidecars),
        &[("sidecar-1", LISTED), ("sidecar-2", LISTED)],
    );
}

#[test]
fn st_v8_on_failure_two_mains_ok_one_sidecar_completed() {
    let sidecars = [
        both_marks("sidecar-1").ended(0),
        both_marks("sidecar-2").uncompleted(),
    ];
    swaps_in(
        eci,
        &two_and_two(mains_ok(), sidecars),
        &[("sidecar-2", LISTED)],
    );
}

#[test]
fn st_v9_on_failure_one_of_two_mains_uncompleted() {
    let mains = [
        main_container("main-1").ended(0),
        main_container("main-2").uncompleted(),
    ];
    let sidecars = [
        both_marks("sidecar-1").ended(0),
        both_marks("sidecar-2").uncompleted(),
    ];
    assert_silent(&two_and_two(mains, sidecars), Reason::MainsRunning);
}

// OpenKruise does nothing, silently (B-8); swaplet has a default exit image for the plain mark.
#[test]
fn the_plain_mark_on_a_virtual_node_gets_the_default_exit_image() {
    let pod = pod("Never")
        .with(main_container("main").ended(0))
        .with(sidecar("sidecar").running())
        .set("/spec/nodeName", "virtual-node");
    swaps_in(eci, &pod, &[("sidecar", EXIT)]);
}
