//! Exit images that cannot be pulled or started, and what is not to be taken for that.

use swaplet_core::report::reason::Reason;

use super::{OWN, ready, sidecar_is, swapped};
use crate::builder::PodBuilder;
use crate::expect::{EXIT, moment};

// Pulls and starts.

/// Row 14, with the words of containerd.
#[test]
fn an_exit_image_that_cannot_be_pulled_is_told_at_once_and_only_once() {
    let (mut life, after) = swapped(&ready("OnFailure"));
    let message = format!(
        "failed to pull and unpack image \"{EXIT}\": failed to resolve reference: not found"
    );
    let first = sidecar_is(&after, |c| {
        c.waiting("ErrImagePull", &message).last_ended(143)
    });
    let note = life.tells(&first, Reason::ExitImageNotPulled);
    assert!(
        note.contains("container sidecar") && note.contains(EXIT) && note.contains("not found"),
        "{note}"
    );
    let then = sidecar_is(&after, |c| {
        c.waiting(
            "ImagePullBackOff",
            &format!("Back-off pulling image \"{EXIT}\""),
        )
        .last_ended(143)
    });
    life.later(600)
        .assert_silent(&then, Reason::ExitImageNotPulled);
}

#[test]
fn every_pull_error_counts_also_without_a_message() {
    let reasons = [
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "RegistryUnavailable",
    ];
    for reason in reasons
        .into_iter()
        .chain(["ImageInspectError", "SignatureValidationFailed"])
    {
        let (mut life, after) = swapped(&ready("OnFailure"));
        life.tells(
            &sidecar_is(&after, |c| c.waiting(reason, "")),
            Reason::ExitImageNotPulled,
        );
    }
}

/// Row 14 on kubelet 1.36 gives CrashLoopBackOff with the image of the old container, row 8
/// RunContainerError with that of the new.
#[test]
fn an_exit_image_that_cannot_be_started_is_told() {
    let reasons = [
        "RunContainerError",
        "CrashLoopBackOff",
        "CreateContainerError",
        "CreateContainerConfigError",
        "PostStartHookError",
    ];
    for reason in reasons {
        let (mut life, after) = swapped(&ready("OnFailure"));
        life.tells(
            &sidecar_is(&after, |c| c.waiting(reason, "why").last_ended(143)),
            Reason::ExitImageNotStarted,
        );
        let (mut life, after) = swapped(&ready("OnFailure"));
        let waiting = sidecar_is(&after, |c| {
            c.waiting(reason, "why")
                .restarted_as(EXIT, 1)
                .last_ended(128)
        });
        life.tells(&waiting, Reason::ExitImageNotStarted);
    }
}

#[test]
fn a_container_that_is_being_created_is_waited_for() {
    for reason in ["ContainerCreating", "PodInitializing", ""] {
        let (mut life, after) = swapped(&ready("OnFailure"));
        life.assert_silent(
            &sidecar_is(&after, |c| c.waiting(reason, "")),
            Reason::SwapPending,
        );
    }
}

/// Row 25: the old image's pull error alternates between two reasons, and a report of it may come
/// in after the swap.
#[test]
fn a_pull_error_of_the_old_image_is_not_taken_for_one_of_the_exit_image() {
    let pull = |pod: &PodBuilder, reason: &str, image: &str| {
        let message = format!("{reason} of image \"{image}\"");
        sidecar_is(pod, |c| {
            c.waiting(reason, &message).status("containerID", "")
        })
    };
    let (mut life, after) = swapped(&pull(&ready("Never").phase("Pending"), "ErrImagePull", OWN));
    life.assert_silent(&pull(&after, "ErrImagePull", OWN), Reason::SwapPending);
    life.assert_silent(&pull(&after, "ImagePullBackOff", OWN), Reason::SwapPending);
    life.tells(
        &pull(&after, "ImagePullBackOff", EXIT),
        Reason::ExitImageNotPulled,
    );
}

/// Row 24: the old container crashes on until the node has acted.
#[test]
fn a_crash_of_the_old_container_is_not_taken_for_one_of_the_exit_image() {
    let crash = |pod: &PodBuilder, nth: u32| {
        let message = format!("back-off {nth}0s restarting failed container=sidecar pod=job");
        sidecar_is(pod, |c| {
            c.waiting("CrashLoopBackOff", &message)
                .restarted_as(OWN, nth)
                .last_ended(1)
        })
    };
    let (mut life, after) = swapped(&crash(&ready("OnFailure"), 1));
    life.assert_silent(&crash(&after, 1), Reason::SwapPending);
    life.assert_silent(
        &sidecar_is(&after, |c| {
            c.running_since("2025-01-01T00:03:00Z").restarted_as(OWN, 2)
        }),
        Reason::SwapPending,
    );
    life.assert_silent(&crash(&after, 2), Reason::SwapPending);
    let decision = life.later(30).assert_silent(
        &sidecar_is(&after, |c| c.running().restarted_as(OWN, 3)),
        Reason::SwapPending,
    );
    assert_eq!(decision.again, Some(moment(90)));
    life.tells(
        &sidecar_is(&after, |c| {
            c.waiting("CrashLoopBackOff", "").restarted_as(EXIT, 4)
        }),
        Reason::ExitImageNotStarted,
    );
}
