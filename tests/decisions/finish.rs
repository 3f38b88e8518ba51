//! The method `finish`: when the phase is written, when it is written again, and what is said about
//! it.

use std::time::Duration;

use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::Phase;
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_core::report::decision::{Action, Decision, Finish, Method};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::finish_record::QUIET;
use swaplet_core::terminate::methods::AllowedMethods;

use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life};

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
        assert_eq!(waits.again, Some(QUIET));
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
    life.later(3600)
        .assert_silent(&retried, Reason::MainsRunning);
}

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
        note.contains("12 times") && note.contains("find who"),
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

#[test]
fn on_virtual_nodes_the_phase_is_written_at_once_without_a_nudge_and_the_note_tells_of_the_instance()
 {
    for node in [
        NodeClass::VirtualInert,
        NodeClass::VirtualRejects,
        NodeClass::Unknown,
        NodeClass::VirtualUpdates,
    ] {
        let mut life = on(
            node,
            AllowedMethods {
                prefer: None,
                ..FIRST
            },
        );
        let decision = writes(&mut life, &ready("Never"), Phase::Succeeded);
        assert_eq!(
            finish_of(&decision),
            &Finish {
                phase: Phase::Succeeded,
                version: Some("7".into()),
                nudge: false
            },
            "{node}"
        );
        assert!(
            note(&decision).contains("until the pod is deleted"),
            "{}",
            note(&decision)
        );
        let written = version(&ready("Never").phase("Succeeded"), "8");
        let waits = life.assert_silent(&written, Reason::FinishPending);
        assert_eq!(
            waits.again,
            Some(Duration::from_secs(10)),
            "a provider that is polled may take it back: its polls are awaited"
        );
        let told = life.later(10).tells(&written, Reason::SidecarEnded);
        assert!(told.contains("when the pod is deleted"), "{told}");
    }
}

#[test]
fn without_permission_nothing_is_finished() {
    let mut life = on(
        NodeClass::VirtualInert,
        AllowedMethods {
            finish: false,
            ..FIRST
        },
    );
    assert!(
        life.tells(&ready("Never"), Reason::NoRung)
            .contains("allow finish")
    );
    let ignoring = ready("Never").but("log", |log| log.env(IGNORE_EXIT_CODE, "true"));
    on(
        NodeClass::Kubelet,
        AllowedMethods {
            finish: false,
            ..FIRST
        },
    )
    .swaps(&ignoring);
}

#[test]
fn after_a_swap_without_effect_the_pod_is_finished() {
    let mut life = on(
        NodeClass::Kubelet,
        AllowedMethods {
            prefer: None,
            ..FIRST
        },
    );
    let swapped = version(&life.swaps(&ready("Never").grace(4)), "8");
    life.assert_silent(&swapped, Reason::SwapPending);
    life.later(63).assert_silent(&swapped, Reason::SwapPending);
    writes(life.later(1), &swapped, Phase::Succeeded);
}

/// OpenKruise's order: first the normal ones, then the phase.
#[test]
fn sidecars_whose_exit_code_is_ignored_come_last_and_by_the_phase() {
    for value in ["true", "True"] {
        let both = ready("Never").with(sidecar("proxy").env(IGNORE_EXIT_CODE, value).running());
        let mut life = on(
            NodeClass::Kubelet,
            AllowedMethods {
                prefer: None,
                ..FIRST
            },
        );
        let decision = life.sees(&both);
        assert_eq!(
            decision
                .swaps()
                .iter()
                .map(|swap| &*swap.container)
                .collect::<Vec<_>>(),
            ["log"]
        );
        let swapped = version(&life.swaps(&both), "8");
        life.later(1).assert_silent(&swapped, Reason::SwapPending);
        let ended = version(&swapped.but("log", |log| log.ended(0)), "9");
        life.later(1).assert_silent(&ended, Reason::FinishWaits);
        let decision = writes(life.later(QUIET_SECONDS), &ended, Phase::Succeeded);
        assert!(
            note(&decision).contains("ends proxy"),
            "{}",
            note(&decision)
        );
        let over = version(
            &ended
                .phase("Succeeded")
                .but("proxy", |proxy| proxy.ended(143)),
            "10",
        );
        life.now = life
            .assert_silent(&over, Reason::FinishPending)
            .again
            .unwrap();
        let told = life.tells(&over, Reason::SidecarEnded);
        assert_eq!(
            told,
            format!(
                "the pod is Succeeded: log ended (exit code 0, method swap), exit image not seen, proxy ended (exit code 143, method finish); \
                 ended because main containers were done: log (image registry.example/app/log:v1 -> {EXIT})"
            )
        );
    }
}

#[test]
fn an_ignored_exit_code_counts_only_on_kubelets_and_beside_the_plain_mark() {
    let ignoring = ready("OnFailure").but("log", |log| log.env(IGNORE_EXIT_CODE, "true"));
    on(
        NodeClass::VirtualUpdates,
        AllowedMethods {
            prefer: None,
            ..FIRST
        },
    )
    .swaps(&ignoring);
    let by_image = pod("Never").with(main_container("main").ended(0)).with(
        crate::builder::sidecar_with_image("log", crate::expect::LISTED)
            .env(IGNORE_EXIT_CODE, "true")
            .running(),
    );
    on(
        NodeClass::Kubelet,
        AllowedMethods {
            prefer: None,
            ..FIRST
        },
    )
    .swaps(&by_image);
    let off = ready("OnFailure").but("log", |log| log.env(IGNORE_EXIT_CODE, "false"));
    on(
        NodeClass::Kubelet,
        AllowedMethods {
            prefer: None,
            ..FIRST
        },
    )
    .swaps(&off);
}

#[test]
fn a_finish_instead_of_a_swap_tells_why() {
    let odd = sidecar("log")
        .running()
        .spec("command", serde_json::json!(["/opt/odd"]));
    let pod = pod("Never").with(main_container("main").ended(0)).with(odd);
    let mut life = on(
        NodeClass::Kubelet,
        AllowedMethods {
            prefer: None,
            ..FIRST
        },
    );
    life.assert_silent(&pod, Reason::FinishWaits);
    let decision = writes(life.later(QUIET_SECONDS), &pod, Phase::Succeeded);
    assert!(
        note(&decision).contains("whatever the exit code; NeedsImage: ")
            && note(&decision).contains("/opt/odd"),
        "{}",
        note(&decision)
    );
}
