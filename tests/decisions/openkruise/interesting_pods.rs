//! OpenKruise's interesting pods, and which of their containers are sidecars.

use swaplet_core::objects::pod::{Phase, roles};
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, WITH_IMAGE};

use super::{eci, finishes, swaps};
use crate::builder::{PodBuilder, main_container, pod, sidecar, sidecar_with_image};
use crate::expect::{EXIT, swaps_in};

#[test]
fn interesting_pod_1_never_main_exit_127_sidecar_running() {
    swaps(
        &pod("Never")
            .with(main_container("main").ended(127))
            .with(sidecar("normal-sidecar1").running()),
        &["normal-sidecar1"],
    );
}

// The phase is empty in OpenKruise's cases 2 and 3.
#[test]
fn interesting_pod_2_on_failure_main_ok_normal_ended_ignoring_one_running() {
    let pod = pod("OnFailure")
        .phase("")
        .with(main_container("main").ended(0))
        .with(sidecar("normal-sidecar1").ended(0))
        .with(
            sidecar("ignore-sidecar1")
                .env(IGNORE_EXIT_CODE, "true")
                .running(),
        );
    finishes(&pod, Phase::Succeeded);
}

// The image of OpenKruise's case is not on the list, so the default is used, and the event says so.
#[test]
fn interesting_pod_3_on_failure_main_ok_normal_ended_image_sidecar_running() {
    let pod = pod("OnFailure")
        .phase("")
        .with(main_container("main").ended(0))
        .with(sidecar("normal-sidecar1").ended(0))
        .with(sidecar_with_image("inplace-update-sidecar1", "inplace-update/image").running());
    swaps(&pod, &["inplace-update-sidecar1"]);
    let report = crate::expect::ask(&pod).done.unwrap();
    assert!(
        report
            .note
            .contains("inplace-update/image, which is not on the list of --exit-images"),
        "{}",
        report.note
    );
}

/// OpenKruise's two cases differ in the node and use `true` as the image.
fn names_case(first: &str) -> PodBuilder {
    pod("Never")
        .with(main_container("main").running())
        .with(sidecar(first).env(WITH_IMAGE, "true").running())
        .with(
            sidecar("ignore-sidecar1")
                .env(IGNORE_EXIT_CODE, "true")
                .running(),
        )
}

// One group instead of three: a sidecar is a sidecar on every node.
#[test]
fn get_sidecar_container_names_1_ordinary_node() {
    let pod = names_case("normal-sidecar1").read();
    let names: Vec<_> = roles::sidecars(&pod)
        .map(|container| &*container.name)
        .collect();
    assert_eq!(names, ["normal-sidecar1", "ignore-sidecar1"]);
    assert!(pod.containers[2].mark.ignore_exit_code);
    assert_eq!(
        roles::mains(&pod)
            .map(|container| &*container.name)
            .collect::<Vec<_>>(),
        ["main"]
    );
}

// On virtual nodes OpenKruise drops the plain and ignoring ones from every group; here they are
// ended too.
#[test]
fn get_sidecar_container_names_2_virtual_node() {
    let pod = names_case("vk-sidecar1")
        .set("/spec/nodeName", "virtual-node")
        .but("main", |main| main.ended(0));
    swaps_in(
        eci,
        &pod,
        &[("vk-sidecar1", EXIT), ("ignore-sidecar1", EXIT)],
    );
}
