//! OpenKruise's cases of its event filter, by name: which created or updated pods wake the
//! terminator.
//!
//! swaplet has no filter in front of the decision: every event is decided about, by the new object
//! alone. An update case lets one life see the old object and then the new one; exactly the cases
//! that OpenKruise enqueues are swapped.

use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::report::reason::Reason;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{LISTED, Life, assert_silent, swaps_to};

fn demo(main: ContainerBuilder, sidecar: ContainerBuilder) -> PodBuilder {
    pod("Never").with(main).with(sidecar)
}

fn main_c() -> ContainerBuilder {
    main_container("main")
}

fn sidecar_c() -> ContainerBuilder {
    sidecar("sidecar").env(WITH_IMAGE, LISTED)
}

/// OpenKruise's `podDemo`: the main succeeded, the sidecar is uncompleted.
fn demo_pod() -> PodBuilder {
    demo(main_c().ended(0), sidecar_c().uncompleted())
}

/// The old object was seen while the main containers ran; the new one leaves nothing to do.
#[track_caller]
fn not_enqueued(old: &PodBuilder, new: &PodBuilder, reason: Reason) {
    let mut life = Life::new();
    life.assert_silent(old, Reason::MainsRunning);
    life.assert_silent(new, reason);
    assert_silent(new, reason);
}

/// The old object was swapped already; the new one leaves nothing to do.
#[track_caller]
fn not_enqueued_again(old: &PodBuilder, new: &PodBuilder, reason: Reason) {
    let mut life = Life::new();
    let swapped = life.swaps(old);
    life.assert_silent(
        &new.clone()
            .but("sidecar", |c| c.image(swapped.image_of("sidecar"))),
        reason,
    );
    assert_silent(new, reason);
}

// Pending acts: a sidecar that cannot be pulled keeps a finished pod Pending, and the swap releases
// it (OpenKruise: 0).
#[test]
fn update_pod_not_running() {
    swaps_to(&demo_pod().phase("Pending"), &[("sidecar", LISTED)]);
}

#[test]
fn update_pod_pending_with_its_mains_not_done_is_left_alone() {
    let waiting = demo(
        main_c().waiting("ContainerCreating", ""),
        sidecar_c().waiting("ContainerCreating", ""),
    );
    assert_silent(&waiting.phase("Pending"), Reason::MainsRunning);
}

#[test]
fn update_restart_policy_always() {
    assert_silent(
        &demo_pod().set("/spec/restartPolicy", "Always"),
        Reason::RestartPolicyAlways,
    );
}

#[test]
fn update_main_uncompleted_to_completed_sidecar_uncompleted() {
    let new = demo(main_c().ended(137), sidecar_c().uncompleted());
    let mut life = Life::new();
    life.assert_silent(
        &demo(main_c().uncompleted(), sidecar_c().uncompleted()),
        Reason::MainsRunning,
    );
    let after = life.swaps(&new);
    life.assert_silent(&after, Reason::SwapPending);
}

// Level-triggered: it does not matter that nothing changed between the two. Here the first look
// swaps, and the second writes nothing.
#[test]
fn update_main_completed_to_completed_sidecar_uncompleted() {
    swaps_to(&demo_pod(), &[("sidecar", LISTED)]);
}

#[test]
fn update_main_uncompleted_to_completed_sidecar_completed() {
    let old = demo(main_c().uncompleted(), sidecar_c().ended(0));
    not_enqueued(
        &old,
        &demo(main_c().ended(0), sidecar_c().ended(0)),
        Reason::SidecarsEnded,
    );
}

#[test]
fn update_main_completed_to_completed_sidecar_completed() {
    let ended = demo(main_c().ended(0), sidecar_c().ended(0));
    let mut life = Life::new();
    life.assert_silent(&ended, Reason::SidecarsEnded);
    life.assert_silent(&ended, Reason::SidecarsEnded);
}

#[test]
fn update_main_completed_to_completed_sidecar_completed_phase_succeeded() {
    let ended = demo(main_c().ended(0), sidecar_c().ended(0));
    let mut life = Life::new();
    life.assert_silent(&ended, Reason::SidecarsEnded);
    life.assert_silent(&ended.phase("Succeeded"), Reason::PodFinished);
}

#[test]
fn update_main_completed_to_completed_sidecar_failed_phase_succeeded() {
    let mut life = Life::new();
    life.assert_silent(
        &demo(main_c().ended(0), sidecar_c().ended(0)),
        Reason::SidecarsEnded,
    );
    life.assert_silent(
        &demo(main_c().ended(0), sidecar_c().ended(137)).phase("Succeeded"),
        Reason::PodFinished,
    );
}

#[test]
fn update_main_completed_to_uncompleted_sidecar_completed() {
    let old = demo(main_c().ended(0), sidecar_c().uncompleted());
    not_enqueued_again(
        &old,
        &demo(main_c().uncompleted(), sidecar_c().ended(0)),
        Reason::MainsRunning,
    );
}

#[test]
fn update_main_completed_to_uncompleted_sidecar_uncompleted() {
    let old = demo(main_c().ended(0), sidecar_c().uncompleted());
    not_enqueued_again(
        &old,
        &demo(main_c().uncompleted(), sidecar_c().uncompleted()),
        Reason::MainsRunning,
    );
}

#[test]
fn update_main_uncompleted_sidecar_uncompleted_to_completed() {
    let old = demo(main_c().uncompleted(), sidecar_c().uncompleted());
    not_enqueued(
        &old,
        &demo(main_c().uncompleted(), sidecar_c().ended(0)),
        Reason::MainsRunning,
    );
}

// Pending acts, as in the update case (OpenKruise: 0).
#[test]
fn create_pod_not_running() {
    swaps_to(&demo_pod().phase("Pending"), &[("sidecar", LISTED)]);
}

#[test]
fn create_restart_policy_always() {
    assert_silent(
        &demo_pod().set("/spec/restartPolicy", "Always"),
        Reason::RestartPolicyAlways,
    );
}

#[test]
fn create_main_completed_sidecar_uncompleted() {
    swaps_to(
        &demo(main_c().ended(137), sidecar_c().uncompleted()),
        &[("sidecar", LISTED)],
    );
}

#[test]
fn create_main_completed_sidecar_completed_phase_succeeded() {
    assert_silent(
        &demo(main_c().ended(0), sidecar_c().ended(0)).phase("Succeeded"),
        Reason::PodFinished,
    );
}

#[test]
fn create_main_completed_sidecar_failed_phase_succeeded() {
    assert_silent(
        &demo(main_c().ended(0), sidecar_c().ended(137)).phase("Succeeded"),
        Reason::PodFinished,
    );
}

#[test]
fn create_main_uncompleted_sidecar_completed() {
    assert_silent(
        &demo(main_c().uncompleted(), sidecar_c().ended(0)),
        Reason::MainsRunning,
    );
}

#[test]
fn create_main_uncompleted_sidecar_uncompleted() {
    assert_silent(
        &demo(main_c().uncompleted(), sidecar_c().uncompleted()),
        Reason::MainsRunning,
    );
}
