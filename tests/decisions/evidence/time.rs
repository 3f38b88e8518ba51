//! What is told after some time: of exit images that run on, and of nodes that do not react.

use swaplet_core::report::reason::Reason;

use super::{exit_image_ended, ready, sidecar_is, swapped};
use crate::builder::sidecar;
use crate::expect::{EXIT, Life, moment};

// Time.

/// Row 36: its command comes from a volume, so the real program runs again.
#[test]
fn an_exit_image_that_runs_on_is_told_after_twenty_seconds() {
    let (mut life, after) = swapped(&ready("OnFailure"));
    let runs = sidecar_is(&after, |c| {
        c.running_since("2025-01-01T00:05:00Z")
            .restarted_as(EXIT, 1)
    });
    let decision = life.assert_silent(&runs, Reason::SwapPending);
    assert_eq!(decision.again, Some(moment(20)));
    life.later(19).assert_silent(&runs, Reason::SwapPending);
    let note = life.later(1).tells(&runs, Reason::ExitImageRuns);
    assert!(note.contains("volume"), "{note}");
}

/// The sidecar takes its grace period to stop: until then no exit image runs.
#[test]
fn an_exit_image_has_its_time_from_when_it_was_started() {
    let (mut life, after) = swapped(&ready("OnFailure"));
    life.assert_silent(&after, Reason::SwapPending);
    let runs = sidecar_is(&after, |c| {
        c.running_since("2025-01-01T00:05:00Z")
            .restarted_as(EXIT, 1)
    });
    let decision = life.later(29).assert_silent(&runs, Reason::SwapPending);
    assert_eq!(decision.again, Some(moment(49)));
    life.later(19).assert_silent(&runs, Reason::SwapPending);
    life.later(1).tells(&runs, Reason::ExitImageRuns);

    // A life that finds it running counts from there.
    let mut next = Life::new();
    next.later(100).assert_silent(&runs, Reason::SwapPending);
    next.later(19).assert_silent(&runs, Reason::SwapPending);
    next.later(1).tells(&runs, Reason::ExitImageRuns);
}

/// However late it starts, the wait for it has an end.
#[test]
fn an_exit_image_that_starts_late_has_no_more_time_than_one_that_starts_in_time() {
    let (mut life, after) = swapped(&ready("OnFailure"));
    let runs = sidecar_is(&after, |c| {
        c.running_since("2025-01-01T00:05:00Z")
            .restarted_as(EXIT, 1)
    });
    life.later(100).tells(&runs, Reason::SwapPending);
    life.later(10).tells(&runs, Reason::ExitImageRuns);
}

#[test]
fn a_node_that_does_not_react_is_told_after_the_grace_of_all_sidecars_and_a_minute() {
    let one = ready("Never");
    let three = one
        .clone()
        .grace(4)
        .with(sidecar("b").running())
        .with(sidecar("c").running());
    let odd_grace = one.clone().set("/spec/terminationGracePeriodSeconds", -1);
    for (pod, seconds) in [
        (one.clone(), 90),
        (one.clone().grace(0), 60),
        (three, 72),
        (odd_grace, 90),
    ] {
        let (mut life, after) = swapped(&pod);
        let end = moment(seconds);
        assert_eq!(
            life.assert_silent(&after, Reason::SwapPending).again,
            Some(end)
        );
        life.later(seconds - 1)
            .assert_silent(&after, Reason::SwapPending);
        let note = life.later(1).tells(&after, Reason::SwapWithoutEffect);
        assert!(note.contains("has not reacted"), "{note}");
    }
}

#[test]
fn a10_an_absurd_grace_period_is_one_of_a_year_and_does_not_overflow() {
    for seconds in [i64::from(u32::MAX), i64::MAX] {
        let (mut life, after) = swapped(&ready("Never").grace(seconds));
        life.now = moment(365 * 24 * 3600);
        life.tells(&after, Reason::SwapPending);
        life.now = moment(1 << 32);
        life.tells(&after, Reason::SwapWithoutEffect);
    }
}

/// The node pulls when the sidecar has stopped, so one failure of a registry is no end of the swap.
#[test]
fn u94_the_tries_of_a_pull_count_from_the_first_one() {
    let (mut life, after) = swapped(&ready("OnFailure").grace(60));
    life.allowed.finish = true;
    life.later(40).assert_silent(&after, Reason::SwapPending);
    let troubled = sidecar_is(&after, |c| c.waiting("ErrImagePull", "503"));
    life.tells(&troubled, Reason::ExitImageNotPulled);
    let waits = life.assert_silent(&troubled, Reason::ExitImageNotPulled);
    assert_eq!(waits.again, Some(moment(70)));
}

/// One report of each kind is made, and none hides another.
#[test]
fn trouble_of_one_sidecar_does_not_hide_that_of_another() {
    let (mut life, after) = swapped(&ready("OnFailure").with(sidecar("other").running()));
    let troubled = sidecar_is(&after, |c| c.waiting("ErrImagePull", ""));
    assert!(
        life.tells(&troubled, Reason::ExitImageNotPulled)
            .contains("container sidecar")
    );
    assert_eq!(
        life.assert_silent(&troubled, Reason::ExitImageNotPulled)
            .again,
        Some(moment(120))
    );
    let report = life
        .later(120)
        .sees(&troubled)
        .reports
        .pop()
        .expect("the other one has not reacted");
    assert_eq!(report.reason, Reason::SwapWithoutEffect);
    assert!(report.note.contains("container other"), "{}", report.note);
    assert_eq!(life.sees(&troubled).reports, []);
}

#[test]
fn a_late_reaction_of_the_node_still_ends_in_the_truth() {
    let (mut life, after) = swapped(&ready("Never"));
    life.later(90).tells(&after, Reason::SwapWithoutEffect);
    let note = life.later(500).tells(
        &sidecar_is(&after, |c| exit_image_ended(c, 0)).phase("Succeeded"),
        Reason::SidecarEnded,
    );
    assert!(note.contains("exit code 0"), "{note}");
}
