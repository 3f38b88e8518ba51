//! Pods that are stuck on a wrong exit image.

use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::report::reason::Reason;

use super::{DERIVED, OWN, calls, deriving, own_path, ready};
use crate::builder::{ContainerBuilder, PodBuilder, sidecar, sidecar_with_image};
use crate::expect::{DIGEST, EXIT, LISTED, Life, rules_with};

// Pods that are stuck on a wrong exit image.

/// An earlier life, or another version, wrote the default, which cannot run.
fn stuck(policy: &str, change: impl FnOnce(ContainerBuilder) -> ContainerBuilder) -> PodBuilder {
    ready(policy, calls(sidecar("side"), OWN)).but("side", |side| change(side.image(EXIT)))
}

fn ready_to_derive() -> Life {
    let mut life = Life::under(deriving());
    assert!(
        life.rules
            .derived_mut()
            .unwrap()
            .ask("batch", &own_path(), life.now)
    );
    life.rules
        .derived_mut()
        .unwrap()
        .came(&own_path(), Ok(DERIVED.into()), life.now);
    life
}

/// containerd, then CRI-O, then what both show when the image is gone.
#[test]
fn a_pod_that_is_stuck_on_a_wrong_exit_image_is_swapped_once_to_the_right_one() {
    let old = "registry.example/app/side:v1";
    let pull = format!("Back-off pulling image \"{EXIT}\"");
    for waiting in [
        stuck("OnFailure", |side| {
            side.waiting("RunContainerError", "exec: no such file")
                .restarted_as(EXIT, 1)
                .last_ended(128)
        }),
        stuck("OnFailure", |side| {
            side.waiting("CrashLoopBackOff", "back-off")
                .restarted_as(EXIT, 3)
                .last_ended(128)
        }),
        stuck("OnFailure", |side| {
            side.waiting("CrashLoopBackOff", "back-off")
                .restarted_as(EXIT, 3)
                .last_ended(127)
        }),
        stuck("OnFailure", |side| {
            side.waiting("CreateContainerError", "container create failed")
                .restarted_as(old, 0)
                .last_ended(143)
        }),
        stuck("OnFailure", |side| {
            side.waiting("ErrImagePull", &pull).last_ended(143)
        }),
        stuck("OnFailure", |side| {
            side.waiting("ImagePullBackOff", &pull).last_ended(143)
        }),
    ] {
        let mut life = ready_to_derive();
        let repaired = life.swaps(&waiting);
        assert_eq!(repaired.image_of("side"), DERIVED);
        let still = repaired.clone().but("side", |side| {
            side.waiting("RunContainerError", "exec")
                .restarted_as(DERIVED, 4)
                .last_ended(128)
        });
        life.tells(&still, Reason::ExitImageNotStarted);
        ready_to_derive().assert_silent(
            &repaired.but("side", ContainerBuilder::running),
            Reason::SwapPending,
        );
    }
}

/// The node goes on about the wrong one until it reacts; what it says then is about the right one.
#[test]
fn the_trouble_of_the_wrong_exit_image_is_not_taken_for_one_of_the_right_one() {
    let mut life = ready_to_derive();
    let wrong = |pod: &PodBuilder, reason: &str, nth| {
        pod.clone().but("side", |side| {
            side.waiting(reason, "exec: no such file")
                .restarted_as(EXIT, nth)
                .last_ended(128)
        })
    };
    let repaired = life.swaps(&wrong(
        &stuck("OnFailure", |side| side),
        "RunContainerError",
        1,
    ));
    life.assert_silent(
        &wrong(&repaired, "CrashLoopBackOff", 1),
        Reason::SwapPending,
    );
    life.assert_silent(
        &wrong(&repaired, "RunContainerError", 2),
        Reason::SwapPending,
    );
    life.tells(
        &repaired.but("side", |side| {
            side.waiting("RunContainerError", "exec")
                .restarted_as(DERIVED, 3)
        }),
        Reason::ExitImageNotStarted,
    );
}

#[test]
fn a_stuck_pod_waits_for_the_right_image() {
    let mut life = Life::under(deriving());
    let pod = stuck("OnFailure", |side| {
        side.waiting("RunContainerError", "exec")
            .restarted_as(EXIT, 1)
            .last_ended(128)
    });
    assert_eq!(
        life.assert_silent(&pod, Reason::ExitImageAwaited).wants,
        vec![own_path()]
    );
    let note = Life::new().tells(&pod, Reason::NeedsImage);
    assert!(note.contains("--path /opt/own/server"), "{note}");
}

/// No image is started after one that failed.
#[test]
fn under_never_a_stuck_pod_is_told_only() {
    let pull = format!("Back-off pulling image \"{EXIT}\"");
    ready_to_derive().tells(
        &stuck("Never", |side| side.waiting("ImagePullBackOff", &pull)),
        Reason::ExitImageNotPulled,
    );
    let waits = stuck("Never", |side| {
        side.waiting("RunContainerError", "exec")
            .restarted_as(EXIT, 1)
            .last_ended(128)
    });
    ready_to_derive().tells(&waits, Reason::ExitImageNotStarted);
}

#[test]
fn a_pod_that_is_stuck_on_the_right_image_is_not_swapped_again() {
    let waits = |image: &str| {
        ready("OnFailure", sidecar("side")).but("side", |side| {
            side.image(image)
                .waiting("CreateContainerError", "no space left")
                .restarted_as(image, 1)
                .last_ended(128)
        })
    };
    ready_to_derive().tells(&waits(EXIT), Reason::ExitImageNotStarted);
    ready_to_derive().tells(
        &waits(&format!("{EXIT}@{DIGEST}")),
        Reason::ExitImageNotStarted,
    );
}

#[test]
fn an_exit_image_that_only_takes_its_time_is_left_alone() {
    for change in [
        |side: ContainerBuilder| side.waiting("ContainerCreating", ""),
        |side: ContainerBuilder| side.running(),
        |side: ContainerBuilder| side.waiting("CrashLoopBackOff", "").last_ended(1),
        |side: ContainerBuilder| side.no_status(),
    ] {
        let decision = ready_to_derive().sees(&stuck("OnFailure", change));
        assert_eq!(decision.action, None, "{decision:?}");
    }
}

/// This life looked first, so what it wrote was right by then; somebody else has to find out what
/// is wrong.
#[test]
fn what_this_life_has_written_is_not_repaired() {
    let mut life = ready_to_derive();
    life.node = swaplet_core::cluster::node_class::NodeClass::VirtualUpdates;
    let listed = ready("OnFailure", calls(sidecar_with_image("side", LISTED), OWN));
    let after = life.swaps(&listed);
    life.rules = rules_with(Some(EXIT), &[]).with_derived(DerivedImages::new(
        "registry.example/swaplet/derived".parse().unwrap(),
    ));
    let stuck = after.but("side", |side| {
        side.waiting("RunContainerError", "exec")
            .restarted_as(LISTED, 1)
            .last_ended(128)
    });
    assert_eq!(life.sees(&stuck).action, None);
}
