//! The method `finish`: when the phase is written.

mod beside_swaps;
mod effects;
mod ignored;
mod restarts;

use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::Phase;
use swaplet_core::report::decision::{Action, Decision, Finish, Method};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::finish_record::QUIET;
use swaplet_core::terminate::methods::AllowedMethods;

use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::Life;

const FIRST: AllowedMethods = AllowedMethods {
    prefer: Some(Method::Finish),
    finish: true,
    recreate: false,
    swap_under_never: false,
};
const QUIET_SECONDS: u64 = QUIET.as_secs();

fn on(node: NodeClass, allowed: AllowedMethods) -> Life {
    Life {
        node,
        allowed,
        ..Life::new()
    }
}

fn finishing() -> Life {
    on(NodeClass::Kubelet, FIRST)
}

fn ready(policy: &str) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar("log").running())
}

fn version(pod: &PodBuilder, version: &str) -> PodBuilder {
    pod.clone().set("/metadata/resourceVersion", version)
}

fn finish_of(decision: &Decision) -> &Finish {
    match &decision.action {
        Some(Action::Finish(finish)) => finish,
        other => panic!("no finish, but {other:?}: {decision:?}"),
    }
}

/// Looks, expects the phase to be written, and takes it as written.
#[track_caller]
fn writes(life: &mut Life, pod: &PodBuilder, phase: Phase) -> Decision {
    let decision = life.sees(pod);
    assert_eq!(
        (finish_of(&decision).phase, decision.reason),
        (phase, Reason::PhaseWritten)
    );
    assert_eq!(decision.reports, []);
    let record = life.memory.finish.as_mut().unwrap();
    record.begun(life.now);
    record.written(life.now);
    decision
}

fn note(decision: &Decision) -> &str {
    &decision.done.as_ref().unwrap().note
}

#[test]
fn a_pod_on_a_kubelet_is_finished_when_it_has_been_quiet() {
    for policy in ["Never", "OnFailure"] {
        let mut life = finishing();
        let waits = life.assert_silent(&ready(policy), Reason::FinishWaits);
        assert_eq!(waits.again, Some(life.now + QUIET));
        life.later(QUIET_SECONDS - 1)
            .assert_silent(&ready(policy), Reason::FinishWaits);
        let decision = writes(life.later(1), &ready(policy), Phase::Succeeded);
        assert_eq!(
            finish_of(&decision),
            &Finish {
                phase: Phase::Succeeded,
                version: Some("7".into()),
                nudge: true
            }
        );
        assert!(
            note(&decision).contains("ends log") && !note(&decision).contains("keeps changing"),
            "{}",
            note(&decision)
        );
    }
}

#[test]
fn any_change_of_the_pod_begins_the_wait_anew() {
    let mut life = finishing();
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    let edited = version(&ready("Never"), "8");
    life.later(QUIET_SECONDS - 1)
        .assert_silent(&edited, Reason::FinishWaits);
    life.later(QUIET_SECONDS - 1)
        .assert_silent(&edited, Reason::FinishWaits);
    assert_eq!(
        finish_of(&writes(life.later(1), &edited, Phase::Succeeded))
            .version
            .as_deref(),
        Some("8")
    );
}

#[test]
fn the_phase_is_that_of_the_mains() {
    let failed = pod("Never")
        .with(main_container("main").ended(0))
        .with(main_container("other").ended(7))
        .with(sidecar("log").running());
    let mut life = finishing();
    life.assert_silent(&failed, Reason::FinishWaits);
    writes(life.later(QUIET_SECONDS), &failed, Phase::Failed);
    let unknown = ready("Never").but("main", |main| {
        main.status("state", serde_json::json!({"terminated": {}}))
    });
    let mut life = finishing();
    life.assert_silent(&unknown, Reason::FinishWaits);
    writes(life.later(QUIET_SECONDS), &unknown, Phase::Failed);
}

#[test]
fn nothing_is_written_while_a_main_may_run_again() {
    let retried = ready("OnFailure").but("main", |main| main.ended(1));
    let mut life = finishing();
    life.assert_silent(&retried, Reason::MainsRunning);
    life.later(3600).tells(&retried, Reason::MainNotRestarted);
}

#[test]
fn a_pod_that_somebody_keeps_annotating_is_finished_after_a_minute_and_the_note_says_so() {
    let mut life = finishing();
    for second in 0..60 {
        life.assert_silent(
            &version(&ready("Never"), &format!("{}", 100 + second)),
            Reason::FinishWaits,
        );
        life.later(1);
    }
    let decision = writes(
        &mut life,
        &version(&ready("Never"), "160"),
        Phase::Succeeded,
    );
    assert!(
        note(&decision).contains("keeps changing the pod"),
        "{}",
        note(&decision)
    );
    // No version lasts until the write, so it is not asked for.
    assert_eq!(finish_of(&decision).version, None);
}

#[test]
fn a_status_that_keeps_changing_is_told_and_the_phase_waits_for_a_pause() {
    let restarted = |nth: u32| {
        version(
            &ready("OnFailure").but("log", |log| log.restarted_as("log:v1", nth)),
            &format!("{}", 100 + nth),
        )
    };
    let mut life = finishing();
    for nth in 0..30 {
        life.assert_silent(&restarted(nth), Reason::FinishWaits);
        life.later(2);
    }
    let note = life.tells(&restarted(30), Reason::FinishNotQuiet);
    assert!(note.contains("60 s") && note.contains("3 s"), "{note}");
    writes(life.later(3), &restarted(30), Phase::Succeeded);
}

#[test]
fn a_new_life_waits_for_quiet_again() {
    let mut life = finishing();
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    writes(life.later(QUIET_SECONDS), &ready("Never"), Phase::Succeeded);
    let mut next = finishing();
    next.later(1000)
        .assert_silent(&version(&ready("Never"), "9"), Reason::FinishWaits);
    writes(
        next.later(QUIET_SECONDS),
        &version(&ready("Never"), "9"),
        Phase::Succeeded,
    );
    // A pod that is finished when it is first seen was told by the life that saw it end.
    finishing().assert_silent(&ready("Never").phase("Succeeded"), Reason::PodFinished);
}
