//! One sidecar that cannot be swapped, beside one that can.

use swaplet_core::report::reason::Reason;

use super::{
    FINISH, NEVER_FINISH, QUIET_SECONDS, cannot_pull, finishes, named, ready, swapped_names, under,
};
use crate::builder::{PodBuilder, sidecar, sidecar_with_image};
use crate::expect::{DIGEST, EXIT, LISTED};

// ---- E1-19: one sidecar that cannot be swapped

/// A pod with a sidecar whose exit image is known, and one that no exit image would end.
fn one_of_two(policy: &str) -> PodBuilder {
    ready(policy).with(sidecar("odd").spec("restartPolicy", "Always").running())
}

#[test]
fn e1_19_the_others_are_swapped_and_the_one_left_is_finished_after_them() {
    let mut life = under(FINISH);
    let before = one_of_two("Never");
    assert_eq!(swapped_names(&life.sees(&before)), ["log"]);
    let mut after = life.swaps(&before);
    life.later(QUIET_SECONDS)
        .assert_silent(&after, Reason::SwapPending);
    after = after.but("log", |log| log.ended(0).restarted_as(EXIT, 1));
    life.assert_silent(&after, Reason::FinishWaits);
    let decision = life.later(QUIET_SECONDS).sees(&after);
    assert!(
        finishes(&decision).contains("SidecarRestartsAlways: container odd"),
        "{decision:?}"
    );
}

#[test]
fn e1_19_without_another_method_the_others_are_swapped_and_the_one_left_is_told() {
    let mut life = under(NEVER_FINISH);
    let after = life.swaps(&one_of_two("OnFailure"));
    life.assert_silent(&after, Reason::SwapPending);
    let after = after.but("log", |log| log.ended(0).restarted_as(EXIT, 1));
    let note = life.tells(&after, Reason::SidecarRestartsAlways);
    assert!(
        note.contains("container odd") && !note.contains("container log"),
        "{note}"
    );
}

#[test]
fn e1_19_an_image_of_one_that_cannot_be_pulled_keeps_no_other_waiting() {
    let two = ready("Never").with(sidecar_with_image("proxy", LISTED).running());
    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "node-1");
    let decision = life.sees(&two);
    assert_eq!(swapped_names(&decision), ["proxy"]);
    let after = life.swaps(&two);
    let ended = after.but("proxy", |proxy| proxy.ended(0).restarted_as(LISTED, 1));
    assert!(
        life.tells(&ended, Reason::ExitImageDoubtful)
            .contains("container log")
    );
    let digest = format!("{EXIT}@{DIGEST}");
    let pod = named("Never", "x", "node-1").read();
    assert!(
        life.image_troubles
            .holds(&pod, &pod.containers[1], &digest, life.now, "")
            .is_some(),
        "the same image"
    );
}
