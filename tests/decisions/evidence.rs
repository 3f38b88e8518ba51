//! What is said about a swap afterwards: by what the node shows, whatever a provider leaves out;
//! each thing once.
//!
//! Rows are those of `docs/measured.md` (what real kubelets do).

mod bytes;
mod lives;
mod providers;
mod starts;
mod time;

use swaplet_core::report::reason::Reason;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life};

/// What a waiting sidecar's own image is called.
const OWN: &str = "registry.example/app/sidecar:v1";

fn ready(policy: &str) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar("sidecar").running())
}

/// A life that has just swapped the sidecar, and the pod after it.
fn swapped(pod: &PodBuilder) -> (Life, PodBuilder) {
    let mut life = Life::new();
    let after = life.swaps(pod);
    life.assert_silent(&after, Reason::SwapPending);
    (life, after)
}

fn sidecar_is(
    pod: &PodBuilder,
    change: impl FnOnce(ContainerBuilder) -> ContainerBuilder,
) -> PodBuilder {
    pod.clone().but("sidecar", change)
}

/// What the kubelet shows when the exit image has ended: the sidecar's own end is in `lastState`.
fn exit_image_ended(container: ContainerBuilder, real_code: i64) -> ContainerBuilder {
    container
        .ended(0)
        .restarted_as(EXIT, 1)
        .last_ended(real_code)
}

// Ends.

/// Rows 2 and 5.
#[test]
fn the_real_exit_code_is_told_once_when_the_pod_is_finished() {
    for policy in ["Never", "OnFailure"] {
        let (mut life, after) = swapped(&ready(policy));
        let ended = sidecar_is(&after, |c| exit_image_ended(c, 143));
        life.assert_silent(&ended, Reason::SidecarsEnded);
        let note = life.tells(&ended.phase("Succeeded"), Reason::SidecarEnded);
        assert_eq!(
            note,
            format!(
                "the pod is Succeeded: sidecar ended (exit code 143, method swap), exit image exit code 0; \
                 ended because main containers were done: sidecar (image {OWN} -> {EXIT})"
            )
        );
    }
}

/// Row 39: kubelets before 1.36 show it for a second only.
#[test]
fn the_real_exit_code_is_remembered_when_the_kubelet_forgets_it() {
    let (mut life, after) = swapped(&ready("Never"));
    life.assert_silent(
        &sidecar_is(&after, |c| exit_image_ended(c, 143)),
        Reason::SidecarsEnded,
    );
    let forgotten = sidecar_is(&after, |c| c.ended(0).restarted_as(EXIT, 1)).phase("Succeeded");
    assert!(
        life.tells(&forgotten, Reason::SidecarEnded)
            .contains("exit code 143")
    );
}

#[test]
fn the_real_end_is_told_also_where_it_was_seen_before_the_exit_image_started() {
    let (mut life, after) = swapped(&ready("OnFailure"));
    life.assert_silent(&sidecar_is(&after, |c| c.ended(143)), Reason::SidecarsEnded);
    let ended = sidecar_is(&after, |c| c.ended(0).restarted_as(EXIT, 1)).phase("Succeeded");
    assert!(
        life.tells(&ended, Reason::SidecarEnded)
            .contains("sidecar ended (exit code 143, method swap), exit image exit code 0")
    );
}

#[test]
fn a_signal_is_told_with_the_exit_code() {
    let (mut life, after) = swapped(&ready("Never"));
    let last = serde_json::json!({"terminated": {"exitCode": 137, "signal": 9, "reason": "Error"}});
    let ended = sidecar_is(&after, |c| {
        c.ended(0).restarted_as(EXIT, 1).status("lastState", last)
    })
    .phase("Succeeded");
    let decision = life.sees(&ended);
    assert_eq!(decision.action, None);
    let [end, killed] = &decision.reports[..] else {
        panic!("{:?}", decision.reports)
    };
    assert!(end.reason == Reason::SidecarEnded && end.note.contains("exit code 137, signal 9"));
    assert!(killed.reason == Reason::SidecarKilled && killed.note.contains("trap 'exit 0' TERM"));
    assert_eq!(life.sees(&ended).reports, []);
}

#[test]
fn the_seconds_after_the_main_containers_are_told() {
    let (mut life, after) = swapped(&ready("Never"));
    let last =
        serde_json::json!({"terminated": {"exitCode": 0, "finishedAt": "2025-01-01T00:01:07Z"}});
    let ended = sidecar_is(&after, |c| {
        c.ended(0).restarted_as(EXIT, 1).status("lastState", last)
    })
    .phase("Succeeded");
    let told = life.tells(&ended, Reason::SidecarEnded);
    assert!(
        told.contains("; sidecar ended 7 s after the main containers; ended because"),
        "{told}"
    );
}

/// Row 7: the command is missing in the exit image.
#[test]
fn a_pod_that_fails_by_the_swap_is_told_as_such() {
    let (mut life, after) = swapped(&ready("Never"));
    let failed = sidecar_is(&after, |c| {
        c.ended_as(128, "StartError")
            .restarted_as(EXIT, 1)
            .last_ended(0)
    })
    .phase("Failed");
    let note = life.tells(&failed, Reason::PodFailedAfterSwap);
    assert!(
        note.contains("although every main container exited with 0"),
        "{note}"
    );
    assert!(
        note.contains(
            "sidecar ended (exit code 0, method swap), exit image exit code 128, StartError"
        ),
        "{note}"
    );
}

/// Rows 11 and 12: the exit image never ran, and the note must not give it an exit code.
#[test]
fn an_exit_image_that_was_never_seen_gets_no_exit_code() {
    for (code, phase, reason) in [
        (0, "Succeeded", Reason::SidecarEnded),
        (143, "Failed", Reason::PodFailedAfterSwap),
    ] {
        let (mut life, after) = swapped(&ready("Never"));
        let ended = sidecar_is(&after, |c| c.ended(code));
        life.assert_silent(&ended, Reason::SidecarsEnded);
        let note = life.tells(&ended.phase(phase), reason);
        assert!(
            note.contains(&format!(
                "sidecar ended (exit code {code}, method swap), exit image not reported"
            )),
            "{note}"
        );
    }
}

#[test]
fn a_pod_whose_main_failed_is_not_blamed_on_the_swap() {
    let failing = ready("Never").but("main", |main| main.ended(1));
    let (mut life, after) = swapped(&failing);
    let note = life.tells(
        &sidecar_is(&after, |c| exit_image_ended(c, 143)).phase("Failed"),
        Reason::SidecarEnded,
    );
    assert!(
        note.starts_with("the pod is Failed: sidecar ended (exit code 143, method swap)"),
        "{note}"
    );
}

#[test]
fn a_sidecar_that_ended_by_itself_is_not_claimed() {
    let (mut life, after) = swapped(&ready("Never").with(sidecar("other").ended(3)));
    let note = life.tells(
        &sidecar_is(&after, |c| exit_image_ended(c, 0)).phase("Succeeded"),
        Reason::SidecarEnded,
    );
    assert!(!note.contains("other"), "{note}");
}

#[test]
fn a_pod_that_is_deleted_after_the_swap_is_silent() {
    let (mut life, after) = swapped(&ready("Never"));
    life.assert_silent(&after.deleting(), Reason::PodDeleting);
}
