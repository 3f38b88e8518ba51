//! The method `recreate`: when OpenKruise's daemon is asked, when that would do harm, and what
//! becomes of a request.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::recreate_request::{RecreateRequest, RecreateRequestWire};
use swaplet_core::report::decision::{Action, Decision, Method};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::past_exits::PastExits;
use swaplet_core::terminate::methods::AllowedMethods;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life, rules};

/// A controller whose pods are on a node with the daemon, and that has no exit image: nothing can
/// be swapped.
fn life() -> Life {
    let mut life = Life::under(ExitImages::default());
    life.node = NodeClass::Daemon;
    life.allowed = AllowedMethods {
        recreate: true,
        ..AllowedMethods::default()
    };
    life
}

/// The main is done, the sidecar `log` as given.
fn done(policy: &str, log: ContainerBuilder) -> PodBuilder {
    pod(policy).with(main_container("main").ended(0)).with(log)
}

fn running() -> ContainerBuilder {
    sidecar("log").running()
}

/// The request as OpenKruise's webhook completes it: it remembers the container that is to be
/// stopped.
fn request(status: Value) -> RecreateRequest {
    let request = json!({
        "metadata": {"name": "sidecar-termination-uid-1"},
        "spec": {"podName": "job-x7k2p", "containers": [{"name": "log", "statusContext": {"containerID": "containerd://log-1", "restartCount": 0}}]},
        "status": status,
    });
    serde_json::from_value::<RecreateRequestWire>(request)
        .unwrap()
        .read()
        .unwrap()
}

fn state(phase: &str, killed: bool, message: &str) -> Value {
    json!({"phase": "Recreating", "containerRecreateStates": [{"name": "log", "phase": phase, "isKilled": killed, "message": message}]})
}

fn asked_for(decision: &Decision) -> Vec<&str> {
    match &decision.action {
        Some(Action::Recreate(names)) => names.iter().map(|name| &**name).collect(),
        _ => Vec::new(),
    }
}

/// Asks, and the request is made: what was told.
#[track_caller]
fn asks(life: &mut Life, pod: &PodBuilder) -> String {
    asks_as(life, pod, "uid-1")
}

#[track_caller]
fn asks_as(life: &mut Life, pod: &PodBuilder, uid: &str) -> String {
    let decision = life.sees(pod);
    assert_eq!(
        (decision.reason, asked_for(&decision)),
        (Reason::RecreateRequested, vec!["log"]),
        "{decision:?}"
    );
    assert!(decision.reports.is_empty(), "{decision:?}");
    life.memory.asked_for(None, false, life.now);
    let note = decision.done.unwrap().note;
    assert!(note.contains(&RecreateRequest::name_for(uid)), "{note}");
    note
}

/// Neither a swap nor a request leads on, for exactly these reasons: what was told of the last.
#[track_caller]
fn refuses(life: &mut Life, pod: &PodBuilder, reasons: &[Reason]) -> String {
    let decision = life.sees(pod);
    let told: Vec<_> = decision
        .reports
        .iter()
        .map(|report| report.reason)
        .collect();
    assert_eq!((&decision.action, &*told), (&None, reasons), "{decision:?}");
    life.assert_silent(pod, decision.reason);
    decision.reports.last().unwrap().note.clone()
}

#[test]
fn a_sidecar_that_cannot_be_swapped_is_asked_for_once() {
    for policy in ["Never", "OnFailure"] {
        let mut life = life();
        let pod = done(policy, running());
        let note = asks(&mut life, &pod);
        assert!(
            note.contains("not known yet") && note.contains("ExitImageMissing"),
            "{note}"
        );
        life.assert_silent(&pod, Reason::RecreatePending);
        life.openkruise.request = Some(request(json!({})));
        life.assert_silent(&pod, Reason::RecreatePending);
        life.openkruise.request = Some(request(state("Recreating", true, "")));
        life.later(30).assert_silent(&pod, Reason::RecreatePending);
    }
}

#[test]
fn only_a_node_with_the_daemon_has_this_method() {
    let mut life = life();
    life.node = NodeClass::Kubelet;
    life.tells(&done("Never", running()), Reason::ExitImageMissing);
}

#[test]
fn it_comes_last_or_first_as_the_administrator_wants() {
    let mut last = life();
    last.rules = rules();
    let pod = done("OnFailure", running());
    assert_eq!(last.sees(&pod).reason, Reason::SidecarSwapped);
    let mut first = life();
    first.rules = rules();
    first.allowed.prefer = Some(Method::Recreate);
    assert!(asks(&mut first, &pod).contains("--prefer=crr"));
}

#[test]
fn a_new_life_goes_on_with_the_request_that_is_there() {
    let mut life = life();
    let pod = done("OnFailure", running());
    life.openkruise.request = Some(request(state("Recreating", true, "")));
    life.assert_silent(&pod, Reason::RecreatePending);
    life.assert_silent(
        &done("OnFailure", sidecar("log").ended(0)),
        Reason::SidecarsEnded,
    );
    let end = life.tells(
        &done("OnFailure", sidecar("log").ended(0)).phase("Succeeded"),
        Reason::SidecarEnded,
    );
    assert!(end.contains("log ended (exit code 0, method crr)"), "{end}");
}

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
    exits.try_starts(
        &another("Never").read(),
        &["log".into()],
        Duration::from_secs(100),
    );
    let mut life = life();
    life.openkruise.past_exits = exits.clone();
    let pod = done("Never", running());
    let waits = life.assert_silent(&pod, Reason::ExitCodeProbed);
    assert_eq!(waits.again, Some(Duration::from_secs(40)));
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
    assert_eq!(life.sees(&pod).again, Some(Duration::from_secs(100)));

    // It has found out, or never will.
    exits.try_ends("uid-2");
    asks(&mut exits_of(&exits), &pod);
    exits.try_starts(
        &another("Never").read(),
        &["log".into()],
        Duration::from_secs(100),
    );
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

#[test]
fn a_container_that_does_not_run_cannot_be_stopped() {
    for log in [
        sidecar("log").waiting("CrashLoopBackOff", "back-off"),
        sidecar("log").no_status(),
        running().status("containerID", ""),
    ] {
        refuses(
            &mut life(),
            &done("OnFailure", log),
            &[Reason::ExitImageMissing, Reason::RecreateImpossible],
        );
    }
}

/// With `--prefer=crr`, what the method says once it does not lead on, together with the swap that
/// comes next.
fn leads_on(life: &mut Life, pod: &PodBuilder) -> (Reason, String) {
    let decision = life.sees(pod);
    assert_eq!(decision.swaps().len(), 1, "{decision:?}");
    assert_eq!(decision.reports.len(), 1, "{decision:?}");
    (decision.reports[0].reason, decision.reports[0].note.clone())
}

fn preferring() -> Life {
    let mut life = life();
    life.rules = rules();
    life.allowed.prefer = Some(Method::Recreate);
    life
}

#[test]
fn nobody_answers() {
    let mut life = preferring();
    let pod = done("Never", running());
    asks(&mut life, &pod);
    life.openkruise.request = Some(request(json!({})));
    life.later(39).assert_silent(&pod, Reason::RecreatePending);
    let (reason, note) = leads_on(life.later(2), &pod);
    assert_eq!(reason, Reason::RecreateUnanswered);
    assert!(note.contains("does it run on the node"), "{note}");
    // It is told once, and OpenKruise's manager giving up changes nothing.
    let swapped = life.swaps(&pod);
    life.openkruise.request = Some(request(
        json!({"phase": "Completed", "message": "daemon has not responded for a long time"}),
    ));
    life.later(20).assert_silent(&swapped, Reason::SwapPending);
}

#[test]
fn the_managers_word_is_enough() {
    let mut life = preferring();
    let pod = done("Never", running());
    asks(&mut life, &pod);
    life.openkruise.request = Some(request(
        json!({"phase": "Completed", "message": "failed to find runtime service: x"}),
    ));
    let (reason, note) = leads_on(&mut life, &pod);
    assert_eq!(reason, Reason::RecreateUnanswered);
    assert!(note.contains("failed to find runtime service: x"), "{note}");
}

#[test]
fn the_daemon_cannot_stop_it() {
    let mut life = preferring();
    let pod = done("Never", running());
    asks(&mut life, &pod);
    life.openkruise.request = Some(request(state("Failed", false, "kill container error: x")));
    let (reason, note) = leads_on(&mut life, &pod);
    assert_eq!(reason, Reason::RecreateFailed);
    assert!(note.contains("kill container error: x"), "{note}");
}

#[test]
fn the_node_starts_it_again() {
    let running_again = done("OnFailure", running().restarted_as("x", 1).last_ended(143));
    let backing_off = done(
        "OnFailure",
        sidecar("log")
            .waiting("CrashLoopBackOff", "back-off 10s")
            .last_ended(143),
    );
    for back in [running_again, backing_off] {
        let mut life = preferring();
        asks(&mut life, &done("OnFailure", running()));
        life.openkruise.request = Some(request(state("Recreating", true, "")));
        let (reason, note) = leads_on(&mut life, &back);
        assert_eq!(reason, Reason::RecreateFailed);
        assert!(note.contains("exit code 143"), "{note}");
    }
}

#[test]
fn it_takes_longer_than_its_grace_period() {
    let mut life = preferring();
    let pod = done("Never", running()).grace(10);
    asks(&mut life, &pod);
    life.openkruise.request = Some(request(state("Pending", false, "")));
    life.later(69).assert_silent(&pod, Reason::RecreatePending);
    assert_eq!(leads_on(life.later(2), &pod).0, Reason::RecreateFailed);
}

#[test]
fn a_request_for_other_containers_does_not_help() {
    let mut life = preferring();
    let pod = done("Never", running()).with(sidecar("proxy").running());
    life.openkruise.request = Some(request(json!({})));
    let decision = life.sees(&pod);
    assert_eq!(decision.swaps().len(), 2, "{decision:?}");
    assert_eq!(
        decision
            .reports
            .iter()
            .map(|report| report.reason)
            .collect::<Vec<_>>(),
        [Reason::RecreateFailed]
    );
}

#[test]
fn a_request_that_is_refused_or_cannot_be_sent_leads_on() {
    let mut life = preferring();
    let pod = done("Never", running());
    life.memory
        .asked_for(Some("no rights".to_owned()), true, life.now);
    let (reason, note) = leads_on(&mut life, &pod);
    assert!(
        reason == Reason::RecreateFailed && note.contains("no rights"),
        "{note}"
    );

    let mut life = preferring();
    life.memory
        .asked_for(Some("webhook is down".to_owned()), false, life.now);
    let again = life.later(30).sees(&pod);
    assert_eq!(asked_for(&again), ["log"]);
    life.memory
        .asked_for(Some("webhook is down".to_owned()), false, life.now);
    let (reason, note) = leads_on(life.later(11), &pod);
    assert!(
        reason == Reason::RecreateFailed && note.contains("webhook is down"),
        "{note}"
    );
}

#[test]
fn a_request_that_vanishes_leads_on() {
    let mut life = preferring();
    let pod = done("Never", running());
    asks(&mut life, &pod);
    life.later(39).assert_silent(&pod, Reason::RecreatePending);
    assert_eq!(leads_on(life.later(2), &pod).0, Reason::RecreateUnanswered);
}

#[test]
fn some_are_swapped_and_the_others_are_asked_for() {
    let mut life = life();
    life.rules = rules();
    let blocked = sidecar("log")
        .running()
        .spec("restartPolicy", "OnFailure")
        .env("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE", "::");
    let pod = done("Never", blocked).with(sidecar("proxy").running());
    let swapped = life.swaps(&pod);
    let decision = life.sees(&swapped);
    assert_eq!(asked_for(&decision), ["log"], "{decision:?}");
}

#[test]
fn the_truth_about_the_end_is_told() {
    let failed = done("Never", sidecar("log").ended(143)).phase("Failed");
    for memory in [true, false] {
        let mut life = life();
        if memory {
            life.memory.asked_for(None, false, life.now);
            let told = life.tells(&failed, Reason::PodFailedAfterRecreate);
            assert!(
                told.contains("log ended (exit code 143, method crr)"),
                "{told}"
            );
        } else {
            life.assert_silent(&failed, Reason::PodFinished);
        }
    }
}
