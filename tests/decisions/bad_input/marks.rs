//! Marks that are wrong, and what is no mark.

use serde_json::json;
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, WHEN_JOB_EXIT, WITH_IMAGE};
use swaplet_core::report::reason::Reason;

use super::beside_done_main;
use crate::builder::{main_container, pod, sidecar, sidecar_with_image};
use crate::expect::{LISTED, Life, assert_silent, swaps, warns};

#[test]
fn an_empty_image_does_not_mark_and_is_told() {
    let note = warns(
        &beside_done_main(sidecar_with_image("sidecar", "").running()),
        Reason::MarkInvalid,
    );
    assert!(
        note.contains("container sidecar") && note.contains(WITH_IMAGE),
        "{note}"
    );
}

#[test]
fn an_empty_image_beside_the_plain_mark_means_the_default() {
    swaps(
        &beside_done_main(sidecar("sidecar").env(WITH_IMAGE, "").running()),
        &["sidecar"],
    );
}

#[test]
fn a_mark_by_reference_is_told() {
    for name in [WHEN_JOB_EXIT, WITH_IMAGE] {
        let entry = json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "secret-key"}}});
        let note = warns(
            &beside_done_main(main_container("sidecar").env_entry(entry).running()),
            Reason::MarkInvalid,
        );
        assert!(note.contains(name) && note.contains("valueFrom"), "{note}");
    }
}

#[test]
fn flag_values_other_than_true_and_false_are_told() {
    for value in ["yes", "1", "on", " true", "true ", "truе"] {
        let note = warns(
            &beside_done_main(
                main_container("sidecar")
                    .env(WHEN_JOB_EXIT, value)
                    .running(),
            ),
            Reason::MarkInvalid,
        );
        assert!(note.contains(WHEN_JOB_EXIT), "{note}");
    }
}

#[test]
fn false_is_no_mark_and_no_mistake() {
    for value in ["false", "False", ""] {
        assert_silent(
            &beside_done_main(main_container("other").env(WHEN_JOB_EXIT, value).running()),
            Reason::NoSidecar,
        );
    }
}

#[test]
fn the_exit_code_flag_alone_does_not_mark() {
    assert_silent(
        &beside_done_main(
            main_container("other")
                .env(IGNORE_EXIT_CODE, "true")
                .running(),
        ),
        Reason::NoSidecar,
    );
}

#[test]
fn names_of_variables_are_exact() {
    let lower = main_container("other")
        .env(&WHEN_JOB_EXIT.to_lowercase(), "true")
        .env("KRUISE_TERMINATE_SIDECAR", "true");
    assert_silent(&beside_done_main(lower.running()), Reason::NoSidecar);
}

#[test]
fn a_bad_mark_beside_a_good_one_is_told_while_the_mains_run() {
    let pod = pod("Never")
        .with(main_container("main").running())
        .with(sidecar("good").running())
        .with(main_container("bad").env(WHEN_JOB_EXIT, "yes").running());
    let mut life = Life::new();
    life.tells(&pod, Reason::MarkInvalid);
    life.assert_silent(&pod.but("main", |main| main.ended(0)), Reason::MainsRunning);
}

#[test]
fn a_pod_of_sidecars_only_is_refused() {
    let all = pod("OnFailure")
        .with(sidecar("a").running())
        .with(sidecar_with_image("b", LISTED).running());
    assert!(warns(&all, Reason::OnlySidecars).contains("every container"));
    assert_silent(&all.phase("Succeeded"), Reason::PodFinished);
}
