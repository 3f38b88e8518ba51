//! After the phase was written: when it is written again, and what is said about it.

use std::time::Duration;

use serde_json::json;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::annotations::FINISHED;
use swaplet_core::objects::pod::{PHASE_WRITTEN, Phase};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::methods::AllowedMethods;

use super::{FIRST, QUIET_SECONDS, finish_of, finishing, on, ready, version, writes};
use crate::builder::{PodBuilder, sidecar};

#[test]
fn the_phase_is_written_again_at_once_when_it_is_seen_taken_back_and_told_once() {
    let mut life = finishing();
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    assert!(
        writes(life.later(QUIET_SECONDS), &ready("Never"), Phase::Succeeded)
            .done
            .is_some()
    );
    let written = version(&ready("Never").phase("Succeeded"), "8");
    life.assert_silent(&written, Reason::FinishPending);
    let back = version(&ready("Never"), "9");
    let again = writes(&mut life, &back, Phase::Succeeded);
    assert_eq!(
        (finish_of(&again).version.as_deref(), &again.done),
        (Some("9"), &None)
    );
    // Also when the sidecar has just ended: the node is about to judge the pod by it.
    let ended = version(&ready("Never").but("log", |log| log.ended(143)), "10");
    writes(&mut life, &ended, Phase::Succeeded);
}

/// A leader that has written the phase may be replaced before its kubelet takes it back.
#[test]
fn u79_the_next_leader_goes_on_with_a_phase_that_was_taken_back() {
    let written = |pod: PodBuilder| {
        pod.set("/metadata/annotations", json!({FINISHED: "now"}))
            .set(
                "/status/conditions",
                json!([{"type": PHASE_WRITTEN, "status": "True"}]),
            )
    };
    let ended = ready("Never").but("log", |log| log.ended(143));
    for back in [ready("Never"), ended.clone()] {
        writes(&mut finishing(), &written(back), Phase::Succeeded);
    }
    // Where this one may not write phases, nothing goes on.
    let mut never = on(NodeClass::Kubelet, AllowedMethods::default());
    assert_eq!(
        never.sees(&written(ready("Never"))).reason,
        Reason::SidecarSwapped
    );
    // OpenKruise writes the same condition, and not the annotation.
    let others = ended.set(
        "/status/conditions",
        json!([{"type": PHASE_WRITTEN, "status": "True"}]),
    );
    finishing().assert_silent(&others, Reason::SidecarsEnded);

    let failed = written(ready("Never").but("log", |log| log.ended(143))).phase("Failed");
    finishing().assert_silent(&failed, Reason::PodFinished);
    let mut next = finishing();
    next.memory
        .find_ended(&failed.read(), &next.rules, next.now);
    next.assert_silent(&failed, Reason::FinishPending);
    next.later(20).tells(&failed, Reason::PodFailedAfterFinish);
}

#[test]
fn a_phase_that_is_always_taken_back_is_given_up_and_told() {
    let mut life = on(NodeClass::VirtualInert, FIRST);
    writes(&mut life, &ready("Never"), Phase::Succeeded);
    for _ in 1..12 {
        let again = life
            .assert_silent(&ready("Never"), Reason::FinishWaits)
            .again
            .unwrap();
        assert!(again > life.now);
        life.now = again;
        writes(&mut life, &ready("Never"), Phase::Succeeded);
    }
    let note = life.tells(&ready("Never"), Reason::FinishUndone);
    assert!(
        note.contains("12 times") && note.contains("find what"),
        "{note}"
    );
    life.later(3600)
        .assert_silent(&ready("Never"), Reason::FinishUndone);
}

#[test]
fn a_finished_pod_is_watched_until_its_containers_have_ended_and_then_told() {
    let mut life = finishing();
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    writes(life.later(QUIET_SECONDS), &ready("Never"), Phase::Succeeded);
    life.later(3).assert_silent(
        &version(&ready("Never").phase("Succeeded"), "8"),
        Reason::FinishPending,
    );
    let ended = version(
        &ready("Never")
            .phase("Succeeded")
            .but("log", |log| log.ended(143)),
        "9",
    );
    let watched = life.later(3).assert_silent(&ended, Reason::FinishPending);
    life.now = watched.again.unwrap();
    assert_eq!(
        life.tells(&ended, Reason::SidecarEnded),
        "the pod is Succeeded: log ended (exit code 143, method finish)"
    );
}

#[test]
fn what_ended_by_itself_is_not_ascribed_to_the_phase() {
    let mut life = finishing();
    let ready = ready("Never").with(sidecar("other").ended(0));
    life.assert_silent(&ready, Reason::FinishWaits);
    writes(life.later(QUIET_SECONDS), &ready, Phase::Succeeded);
    let ended = version(
        &ready.phase("Succeeded").but("log", |log| log.ended(143)),
        "9",
    );
    life.now = life
        .later(1)
        .assert_silent(&ended, Reason::FinishPending)
        .again
        .unwrap();
    assert_eq!(
        life.tells(&ended, Reason::SidecarEnded),
        "the pod is Succeeded: log ended (exit code 143, method finish), other ended (exit code 0, by itself)"
    );
}

#[test]
fn a_pod_that_the_node_fails_all_the_same_is_told() {
    let mut life = finishing();
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    writes(life.later(QUIET_SECONDS), &ready("Never"), Phase::Succeeded);
    let failed = version(
        &ready("Never")
            .phase("Failed")
            .but("log", |log| log.ended(143)),
        "9",
    );
    let watched = life.assert_silent(&failed, Reason::FinishPending);
    life.now = watched.again.unwrap();
    assert!(
        life.tells(&failed, Reason::PodFailedAfterFinish)
            .contains("exit code 143")
    );
}

#[test]
fn a_container_whose_end_is_never_shown_is_not_watched_for_ever() {
    let mut life = finishing();
    life.assert_silent(&ready("Never").grace(4), Reason::FinishWaits);
    writes(
        life.later(QUIET_SECONDS),
        &ready("Never").grace(4),
        Phase::Succeeded,
    );
    let stuck = version(&ready("Never").grace(4).phase("Succeeded"), "8");
    let watched = life.assert_silent(&stuck, Reason::FinishPending);
    assert_eq!(watched.again, Some(life.now + Duration::from_secs(64)));
    life.now = watched.again.unwrap();
    assert!(
        life.tells(&stuck, Reason::SidecarEnded)
            .contains("not reported")
    );
}

#[test]
fn a_write_whose_answer_was_lost_is_taken_as_made_once_the_phase_shows_it() {
    let mut life = finishing();
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    let decision = life.later(QUIET_SECONDS).sees(&ready("Never"));
    finish_of(&decision);
    life.memory.finish.as_mut().unwrap().begun(life.now);
    // A phase of the node itself comes without the condition, and is not taken for ours.
    let by_itself = version(&ready("Never").phase("Succeeded"), "8");
    life.assert_silent(&by_itself, Reason::PodFinished);
    let ours = by_itself.set(
        "/status/conditions",
        serde_json::json!([{"type": "SidecarTerminated", "status": "True"}]),
    );
    life.assert_silent(&ours, Reason::FinishPending);
}
