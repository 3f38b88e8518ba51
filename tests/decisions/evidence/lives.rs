//! What a new life tells of a pod that an earlier one has swapped.

use swaplet_core::report::reason::Reason;

use super::{exit_image_ended, ready, sidecar_is, swapped};
use crate::expect::{EXIT, Life, assert_silent};

// Lives.

#[test]
fn a_new_life_adopts_a_swapped_pod_and_still_tells_its_end() {
    let (_, after) = swapped(&ready("Never"));
    let mut life = Life::new();
    life.assert_silent(&after, Reason::SwapPending);
    life.assert_silent(
        &sidecar_is(&after, |c| exit_image_ended(c, 143)),
        Reason::SidecarsEnded,
    );
    let note = life.tells(
        &sidecar_is(&after, |c| c.ended(0).restarted_as(EXIT, 1)).phase("Succeeded"),
        Reason::SidecarEnded,
    );
    assert!(note.contains("exit code 143"), "{note}");
}

#[test]
fn a_new_life_that_first_sees_the_end_still_knows_the_real_exit_code() {
    let (_, after) = swapped(&ready("Never"));
    let mut life = Life::new();
    life.assert_silent(
        &sidecar_is(&after, |c| exit_image_ended(c, 143)),
        Reason::SidecarsEnded,
    );
    let note = life.tells(
        &sidecar_is(&after, |c| c.ended(0).restarted_as(EXIT, 1)).phase("Succeeded"),
        Reason::SidecarEnded,
    );
    assert!(note.contains("exit code 143"), "{note}");
}

#[test]
fn a_new_life_does_not_tell_again_about_a_pod_that_was_finished_before_it() {
    let (_, after) = swapped(&ready("Never"));
    assert_silent(
        &sidecar_is(&after, |c| exit_image_ended(c, 143)).phase("Succeeded"),
        Reason::PodFinished,
    );
}

#[test]
fn a_new_life_sees_a_pull_error_of_the_exit_image() {
    let (_, after) = swapped(&ready("OnFailure"));
    let message = format!("Back-off pulling image \"{EXIT}\"");
    Life::new().tells(
        &sidecar_is(&after, |c| c.waiting("ImagePullBackOff", &message)),
        Reason::ExitImageNotPulled,
    );
}
