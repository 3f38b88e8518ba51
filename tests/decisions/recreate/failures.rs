//! Requests that come to nothing: what is told, and that the next method leads on.

use serde_json::json;
use swaplet_core::report::decision::Method;
use swaplet_core::report::reason::Reason;

use super::{asked_for, asks, done, life, request, running, state};
use crate::builder::{PodBuilder, sidecar};
use crate::expect::{Life, rules};

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
    assert!(note.contains("check that it runs on the node"), "{note}");
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
