//! How a sidecar is known to end, and when its exit code would do harm.

use serde_json::json;
use swaplet_core::objects::job::JobWire;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::past_exits::PastExits;

use super::{asked_for, asks, asks_as, done, life, refuses, request, running, state};
use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life, moment, rules};

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

#[test]
fn another_pod_tells_how_a_sidecar_ends() {
    let mut exits = PastExits::new();
    exits.learn(
        &done("Never", sidecar("log").ended(143))
            .phase("Failed")
            .read(),
        None,
        &rules(),
    );
    let mut life = life();
    life.openkruise.past_exits = exits.clone();
    refuses(
        &mut life,
        &done("Never", running()),
        &[Reason::ExitImageMissing, Reason::RecreateExitCode],
    );

    // Another image is another program, and the latest end counts.
    asks(
        &mut self::life(),
        &done("Never", running().image("registry.example/log:v2")),
    );
    exits.learn(
        &done("Never", sidecar("log").ended(0))
            .phase("Succeeded")
            .read(),
        None,
        &rules(),
    );
    let mut life = self::life();
    life.openkruise.past_exits = exits;
    assert!(asks(&mut life, &done("Never", running())).contains("exit code 0 before"));
}

#[test]
fn a_sidecar_that_comes_back_tells_how_it_ended() {
    let request = request(state("Recreating", true, ""));
    let mut exits = PastExits::new();
    let back = done("OnFailure", running().restarted_as("x", 1).last_ended(143)).read();
    assert!(
        !exits.learn(&back, None, &rules()),
        "it may have crashed by itself"
    );
    assert!(exits.learn(&back, Some(&request), &rules()));
    assert!(!exits.learn(&back, Some(&request), &rules()));
    assert_eq!(exits.of(&back, &back.containers[1]), Some(143));
}

/// Another pod with the same sidecar.
fn another(policy: &str) -> PodBuilder {
    done(policy, running())
        .set("/metadata/uid", "uid-2")
        .set("/metadata/name", "job-other")
}

#[test]
fn one_pod_at_a_time_finds_out_how_a_sidecar_ends() {
    let mut exits = PastExits::new();
    exits.try_starts(&another("Never").read(), &["log".into()], moment(100));
    let mut life = life();
    life.openkruise.past_exits = exits.clone();
    let pod = done("Never", running());
    let waits = life.assert_silent(&pod, Reason::ExitCodeProbed);
    assert_eq!(waits.again, Some(moment(40)));
    // The one that finds out does not wait for itself, and another sidecar has nothing to do with
    // it.
    asks_as(&mut exits_of(&exits), &another("Never"), "uid-2");
    asks(
        &mut exits_of(&exits),
        &done("Never", running().image("registry.example/log:v2")),
    );

    // Nobody waits longer than for a daemon that does not answer.
    let told = refuses(
        life.later(40),
        &pod,
        &[Reason::ExitImageMissing, Reason::RecreateUnanswered],
    );
    assert!(told.contains("another pod"), "{told}");
    assert_eq!(life.sees(&pod).again, Some(moment(100)));

    // It has found out, or never will.
    exits.try_ends("uid-2");
    asks(&mut exits_of(&exits), &pod);
    exits.try_starts(&another("Never").read(), &["log".into()], moment(100));
    assert!(exits.learn(
        &another("Never").but("log", |log| log.ended(0)).read(),
        None,
        &rules()
    ));
    asks(&mut exits_of(&exits), &pod);
}

fn exits_of(exits: &PastExits) -> Life {
    let mut life = life();
    life.openkruise.past_exits = exits.clone();
    life
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
fn what_ended_while_the_main_ran_or_was_an_exit_image_tells_nothing() {
    let mut exits = PastExits::new();
    exits.learn(
        &pod("Never")
            .with(main_container("main").running())
            .with(sidecar("log").ended(1))
            .read(),
        None,
        &rules(),
    );
    exits.learn(
        &done("Never", sidecar("log").image(EXIT).ended(1)).read(),
        None,
        &rules(),
    );
    for image in [sidecar("log"), sidecar("log").image(EXIT)] {
        let read = done("Never", image).read();
        assert_eq!(exits.of(&read, &read.containers[1]), None);
    }
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
