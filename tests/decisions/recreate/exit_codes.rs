//! How a sidecar is known to end, and when its exit code would do harm.

use serde_json::json;
use swaplet_core::objects::job::JobWire;
use swaplet_core::report::reason::Reason;

use super::{asked_for, asks, done, life, refuses, running};
use crate::builder::{main_container, pod};
use crate::expect::{EXIT, rules};

#[test]
fn an_exit_code_that_would_do_harm_is_known_from_the_container_itself() {
    for (policy, harm) in [("Never", "fails the pod"), ("OnFailure", "brings it back")] {
        let told = refuses(
            &mut life(),
            &done(policy, running().last_ended(143)),
            &[Reason::ExitImageMissing, Reason::RecreateExitCode],
        );
        assert!(
            told.contains("exit code 143") && told.contains(harm),
            "{told}"
        );
    }
    let note = asks(&mut life(), &done("OnFailure", running().last_ended(0)));
    assert!(note.contains("exit code 0 before"), "{note}");
}

#[test]
fn under_never_a_pod_that_is_failed_anyway_has_nothing_to_lose() {
    let pod = pod("Never")
        .with(main_container("main").ended(7))
        .with(running().last_ended(143));
    let note = asks(&mut life(), &pod);
    assert!(note.contains("exit code 143 before"), "{note}");
}

#[test]
fn a_container_that_always_restarts_is_not_asked_for() {
    let pod = done("OnFailure", running().spec("restartPolicy", "Always"));
    let note = refuses(
        &mut life(),
        &pod,
        &[Reason::SidecarRestartsAlways, Reason::RecreateExitCode],
    );
    assert!(note.contains("any brings it back"), "{note}");
}

#[test]
fn a_container_whose_end_may_restart_all_is_not_asked_for() {
    let rule = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [143]}}]);
    let note = refuses(
        &mut life(),
        &done("Never", running().spec("restartPolicyRules", rule)),
        &[Reason::NotSwappable, Reason::RecreateExitCode],
    );
    assert!(note.contains("may restart all containers"), "{note}");
}

/// How it ends is not learned from other pods: the note says what an error would do.
#[test]
fn a_sidecar_that_has_not_ended_before_is_asked_for_and_the_note_says_what_an_error_does() {
    for (policy, harm) in [("Never", "fails the pod"), ("OnFailure", "brings it back")] {
        let note = asks(&mut life(), &done(policy, running()));
        assert!(
            note.contains("is not known") && note.contains(harm),
            "{note}"
        );
    }
}

#[test]
fn a_restart_that_may_come_has_to_fit_into_the_job() {
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job-1", "controller": true}]);
    let of_job =
        |policy: &str| done(policy, running()).set("/metadata/ownerReferences", owner.clone());
    let job = json!({"metadata": {"uid": "job-1", "name": "job", "namespace": "batch"}, "spec": {"backoffLimit": 0}});
    let limited = || {
        let mut life = life();
        life.headroom.pod_list_starts();
        life.headroom.pod_list_ends(0);
        life.headroom.job(
            &serde_json::from_value::<JobWire>(job.clone())
                .unwrap()
                .read()
                .unwrap(),
        );
        life
    };
    let decision = limited().sees(&of_job("OnFailure"));
    let told: Vec<_> = decision
        .reports
        .iter()
        .map(|report| report.reason)
        .collect();
    assert_eq!(
        (&decision.action, &*told),
        (&None, &[Reason::ExitImageMissing, Reason::NoHeadroom][..]),
        "{decision:?}"
    );
    asks(&mut limited(), &of_job("Never"));
    asks(
        &mut limited(),
        &of_job("OnFailure").but("log", |log| log.last_ended(0)),
    );
}

#[test]
fn the_end_of_the_real_sidecar_after_a_swap_counts() {
    // Its command is on a volume: the exit image runs the real program again, which has just told
    // how it ends.
    for (code, expected) in [
        (0, Reason::RecreateRequested),
        (143, Reason::RecreateExitCode),
    ] {
        let mut life = life();
        life.rules = rules();
        let swapped = life.swaps(&done("OnFailure", running()));
        let again = swapped.but("log", |log| {
            log.restarted_as(EXIT, 1)
                .running_since("2025-01-01T00:02:00Z")
                .last_ended(code)
        });
        life.later(1).assert_silent(&again, Reason::SwapPending);
        let decision = life.later(30).sees(&again);
        let reports: Vec<_> = decision
            .reports
            .iter()
            .map(|report| report.reason)
            .collect();
        if code == 0 {
            assert_eq!(
                (decision.reason, asked_for(&decision)),
                (expected, vec!["log"]),
                "{decision:?}"
            );
        } else {
            assert_eq!(
                (&decision.action, reports),
                (&None, vec![Reason::ExitImageRuns, expected]),
                "{decision:?}"
            );
        }
    }
}
