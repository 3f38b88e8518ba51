//! Around the write: others who write the same field, and writes of ours that are under way or
//! failed.

use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::report::reason::Reason;

use crate::builder::{
    ContainerBuilder, PodBuilder, main_container, pod, sidecar, sidecar_with_image,
};
use crate::expect::{DIGEST, EXIT, LISTED, Life, moment, rules_with};

fn ready(policy: &str) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar("sidecar").running())
}

#[test]
fn a_swap_that_is_undone_three_times_is_told_and_given_up() {
    let pod = ready("Never");
    let mut life = Life::new();
    for _ in 0..3 {
        let after = life.swaps(&pod);
        life.assert_silent(&after, Reason::SwapPending);
        life.later(10);
    }
    let note = life.tells(&pod, Reason::SwapUndone);
    assert!(
        note.contains("registry.example/app/sidecar:v1") && note.contains("3 times"),
        "{note}"
    );
    life.later(3600).assert_silent(&pod, Reason::SwapUndone);
}

#[test]
fn another_image_of_a_user_is_what_the_next_swap_starts_from() {
    let mut life = Life::new();
    let edited = life
        .swaps(&ready("Never"))
        .but("sidecar", |c| c.image("registry.example/app/sidecar:v2"));
    let decision = life.sees(&edited);
    assert_eq!(decision.swaps().len(), 1);
    assert_eq!(
        &*decision.swaps()[0].from,
        "registry.example/app/sidecar:v2"
    );
}

#[test]
fn a_webhook_that_adds_a_digest_is_no_undoing() {
    let by_list = pod("Never")
        .with(main_container("main").ended(0))
        .with(sidecar_with_image("sidecar", LISTED).running());
    let by_both = ready("Never").but("sidecar", |c| c.env(WITH_IMAGE, LISTED));
    for pod in [ready("Never"), by_list, by_both] {
        for rules in [
            || rules_with(Some(EXIT), &["registry.example/exit/*"]),
            || rules_with(Some(EXIT), &[LISTED]),
        ] {
            let mut life = Life::under(rules());
            let after = life.swaps_as(&pod, |image| format!("{image}@{DIGEST}"));
            life.assert_silent(&after, Reason::SwapPending);
            Life::under(rules()).assert_silent(&after, Reason::SwapPending);
        }
    }
}

#[test]
fn a_webhook_that_moves_the_image_to_a_mirror_is_no_undoing() {
    let mut life = Life::new();
    let after = life.swaps_as(&ready("Never"), |image| {
        format!("mirror.example/{}", image.split_once('/').unwrap().1)
    });
    life.assert_silent(&after, Reason::SwapPending);
    let ended = after.clone().but("sidecar", |c| {
        c.ended(0)
            .restarted_as(after.image_of("sidecar"), 1)
            .last_ended(143)
    });
    assert!(
        life.tells(&ended.phase("Succeeded"), Reason::SidecarEnded)
            .contains("exit code 143")
    );
}

#[test]
fn nothing_is_written_while_a_write_is_under_way() {
    let mut life = Life::new();
    life.memory.in_flight = true;
    life.assert_silent(&ready("Never"), Reason::WriteInFlight);
    life.memory.in_flight = false;
    life.swaps(&ready("Never"));
}

#[test]
fn a_failed_write_waits_for_its_time() {
    let mut life = Life::new();
    let at = moment(5);
    life.memory.not_before = Some(at);
    assert_eq!(
        life.later(4)
            .assert_silent(&ready("Never"), Reason::WriteBackoff)
            .again,
        Some(at)
    );
    life.later(1).swaps(&ready("Never"));
}

#[test]
fn the_time_at_which_the_mains_were_done_is_kept_and_dropped_with_them() {
    let mut life = Life::new();
    let runs = ready("OnFailure").but("main", ContainerBuilder::running);
    life.sees(&runs);
    assert_eq!(life.memory.mains_done_at, None);
    life.later(7).sees(&ready("OnFailure"));
    life.later(7).sees(&ready("OnFailure"));
    assert_eq!(life.memory.mains_done_at, Some(moment(7)));
    life.sees(&runs);
    assert_eq!(life.memory.mains_done_at, None);
}
