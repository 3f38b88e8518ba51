//! The method `recreate`: when OpenKruise's daemon is asked, when that would do harm, and what
//! becomes of a request.

mod exit_codes;
mod failures;

use serde_json::{Value, json};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::recreate_request::{RecreateRequest, RecreateRequestWire};
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_core::report::decision::{Action, Decision, Method};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::methods::AllowedMethods;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{Life, rules};

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
    let decision = life.sees(pod);
    assert_eq!(
        (decision.reason, asked_for(&decision)),
        (Reason::RecreateRequested, vec!["log"]),
        "{decision:?}"
    );
    assert!(decision.reports.is_empty(), "{decision:?}");
    life.memory.asked_for(None, false, life.now);
    let note = decision.done.unwrap().note;
    assert!(note.contains(&RecreateRequest::name_for("uid-1")), "{note}");
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

/// Whatever ends the last container, the pod is judged by the one that has failed.
#[test]
fn u145_the_daemon_is_not_asked_where_an_ignored_code_would_then_count() {
    let with = |is_ignored: bool| {
        let metrics = sidecar("metrics").ended(1);
        let metrics = if is_ignored {
            metrics.env(IGNORE_EXIT_CODE, "true")
        } else {
            metrics
        };
        done("Never", running()).with(metrics)
    };
    assert_eq!(asked_for(&life().sees(&with(false))), ["log"]);
    let decision = life().sees(&with(true));
    assert_eq!(decision.action, None, "{decision:?}");
}

#[test]
fn a_sidecar_that_cannot_be_swapped_is_asked_for_once() {
    for policy in ["Never", "OnFailure"] {
        let mut life = life();
        let pod = done(policy, running());
        let note = asks(&mut life, &pod);
        assert!(
            note.contains("is not known") && note.contains("ExitImageMissing"),
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
