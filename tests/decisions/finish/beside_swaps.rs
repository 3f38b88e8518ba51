//! Where the phase is written instead of swaps, or after them.

use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::Phase;
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_core::report::decision::Finish;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::methods::AllowedMethods;

use super::{FIRST, QUIET_SECONDS, finish_of, note, on, ready, version, writes};
use crate::builder::{main_container, pod, sidecar};
use crate::expect::{EXIT, moment};

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
            Some(moment(10)),
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
        // Under `Never` the pod would be judged by it if it failed meanwhile (`ignored.rs`).
        let both = ready("OnFailure").with(sidecar("proxy").env(IGNORE_EXIT_CODE, value).running());
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
                "the pod is Succeeded: log ended (exit code 0, method swap), exit image not reported, proxy ended (exit code 143, method finish); \
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
