//! What is said about a swap afterwards: by what the node shows, whatever a provider leaves out;
//! each thing once.
//!
//! Rows are those of `docs/measured.md` (what real kubelets do).

use std::time::Duration;

use swaplet_core::report::reason::Reason;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{DIGEST, EXIT, Life, assert_silent, rules_with};

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
                "sidecar ended (exit code {code}, method swap), exit image not seen"
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

// Lives.

#[test]
fn a_new_life_adopts_a_swapped_pod_and_still_tells_its_end() {
    let (_, after) = swapped(&ready("Never"));
    let mut life = Life::new();
    life.assert_silent(&after, Reason::SwapPending);
    life.assert_silent(
        &sidecar_is(&after, |c| exit_image_ended(c, 143)),
        Reason::SidecarsEnded,
    );
    let note = life.tells(
        &sidecar_is(&after, |c| c.ended(0).restarted_as(EXIT, 1)).phase("Succeeded"),
        Reason::SidecarEnded,
    );
    assert!(note.contains("exit code 143"), "{note}");
}

#[test]
fn a_new_life_that_first_sees_the_end_still_knows_the_real_exit_code() {
    let (_, after) = swapped(&ready("Never"));
    let mut life = Life::new();
    life.assert_silent(
        &sidecar_is(&after, |c| exit_image_ended(c, 143)),
        Reason::SidecarsEnded,
    );
    let note = life.tells(
        &sidecar_is(&after, |c| c.ended(0).restarted_as(EXIT, 1)).phase("Succeeded"),
        Reason::SidecarEnded,
    );
    assert!(note.contains("exit code 143"), "{note}");
}

#[test]
fn a_new_life_does_not_tell_again_about_a_pod_that_was_finished_before_it() {
    let (_, after) = swapped(&ready("Never"));
    assert_silent(
        &sidecar_is(&after, |c| exit_image_ended(c, 143)).phase("Succeeded"),
        Reason::PodFinished,
    );
}

#[test]
fn a_new_life_sees_a_pull_error_of_the_exit_image() {
    let (_, after) = swapped(&ready("OnFailure"));
    let message = format!("Back-off pulling image \"{EXIT}\"");
    Life::new().tells(
        &sidecar_is(&after, |c| c.waiting("ImagePullBackOff", &message)),
        Reason::ExitImageNotPulled,
    );
}

// Pulls and starts.

/// Row 14, with the words of containerd.
#[test]
fn an_exit_image_that_cannot_be_pulled_is_told_at_once_and_only_once() {
    let (mut life, after) = swapped(&ready("OnFailure"));
    let message = format!(
        "failed to pull and unpack image \"{EXIT}\": failed to resolve reference: not found"
    );
    let first = sidecar_is(&after, |c| {
        c.waiting("ErrImagePull", &message).last_ended(143)
    });
    let note = life.tells(&first, Reason::ExitImageNotPulled);
    assert!(
        note.contains("container sidecar") && note.contains(EXIT) && note.contains("not found"),
        "{note}"
    );
    let then = sidecar_is(&after, |c| {
        c.waiting(
            "ImagePullBackOff",
            &format!("Back-off pulling image \"{EXIT}\""),
        )
        .last_ended(143)
    });
    life.later(600)
        .assert_silent(&then, Reason::ExitImageNotPulled);
}

#[test]
fn every_pull_error_counts_also_without_a_message() {
    let reasons = [
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "RegistryUnavailable",
    ];
    for reason in reasons
        .into_iter()
        .chain(["ImageInspectError", "SignatureValidationFailed"])
    {
        let (mut life, after) = swapped(&ready("OnFailure"));
        life.tells(
            &sidecar_is(&after, |c| c.waiting(reason, "")),
            Reason::ExitImageNotPulled,
        );
    }
}

/// Row 14 on kubelet 1.36 gives CrashLoopBackOff with the image of the old container, row 8
/// RunContainerError with that of the new.
#[test]
fn an_exit_image_that_cannot_be_started_is_told() {
    let reasons = [
        "RunContainerError",
        "CrashLoopBackOff",
        "CreateContainerError",
        "CreateContainerConfigError",
        "PostStartHookError",
    ];
    for reason in reasons {
        let (mut life, after) = swapped(&ready("OnFailure"));
        life.tells(
            &sidecar_is(&after, |c| c.waiting(reason, "why").last_ended(143)),
            Reason::ExitImageNotStarted,
        );
        let (mut life, after) = swapped(&ready("OnFailure"));
        let waiting = sidecar_is(&after, |c| {
            c.waiting(reason, "why")
                .restarted_as(EXIT, 1)
                .last_ended(128)
        });
        life.tells(&waiting, Reason::ExitImageNotStarted);
    }
}

#[test]
fn a_container_that_is_being_created_is_waited_for() {
    for reason in ["ContainerCreating", "PodInitializing", ""] {
        let (mut life, after) = swapped(&ready("OnFailure"));
        life.assert_silent(
            &sidecar_is(&after, |c| c.waiting(reason, "")),
            Reason::SwapPending,
        );
    }
}

/// Row 25: the old image's pull error alternates between two reasons, and a report of it may come
/// in after the swap.
#[test]
fn a_pull_error_of_the_old_image_is_not_taken_for_one_of_the_exit_image() {
    let pull = |pod: &PodBuilder, reason: &str, image: &str| {
        let message = format!("{reason} of image \"{image}\"");
        sidecar_is(pod, |c| {
            c.waiting(reason, &message).status("containerID", "")
        })
    };
    let (mut life, after) = swapped(&pull(&ready("Never").phase("Pending"), "ErrImagePull", OWN));
    life.assert_silent(&pull(&after, "ErrImagePull", OWN), Reason::SwapPending);
    life.assert_silent(&pull(&after, "ImagePullBackOff", OWN), Reason::SwapPending);
    life.tells(
        &pull(&after, "ImagePullBackOff", EXIT),
        Reason::ExitImageNotPulled,
    );
}

/// Row 24: the old container crashes on until the node has acted.
#[test]
fn a_crash_of_the_old_container_is_not_taken_for_one_of_the_exit_image() {
    let crash = |pod: &PodBuilder, nth: u32| {
        let message = format!("back-off {nth}0s restarting failed container=sidecar pod=job");
        sidecar_is(pod, |c| {
            c.waiting("CrashLoopBackOff", &message)
                .restarted_as(OWN, nth)
                .last_ended(1)
        })
    };
    let (mut life, after) = swapped(&crash(&ready("OnFailure"), 1));
    life.assert_silent(&crash(&after, 1), Reason::SwapPending);
    life.assert_silent(
        &sidecar_is(&after, |c| {
            c.running_since("2025-01-01T00:03:00Z").restarted_as(OWN, 2)
        }),
        Reason::SwapPending,
    );
    life.assert_silent(&crash(&after, 2), Reason::SwapPending);
    let decision = life.later(30).assert_silent(
        &sidecar_is(&after, |c| c.running().restarted_as(OWN, 3)),
        Reason::SwapPending,
    );
    assert_eq!(decision.again, Some(Duration::from_secs(90)));
    life.tells(
        &sidecar_is(&after, |c| {
            c.waiting("CrashLoopBackOff", "").restarted_as(EXIT, 4)
        }),
        Reason::ExitImageNotStarted,
    );
}

// Time.

/// Row 36: its command comes from a volume, so the real program runs again.
#[test]
fn an_exit_image_that_runs_on_is_told_after_twenty_seconds() {
    let (mut life, after) = swapped(&ready("OnFailure"));
    let runs = sidecar_is(&after, |c| {
        c.running_since("2025-01-01T00:05:00Z")
            .restarted_as(EXIT, 1)
    });
    let decision = life.assert_silent(&runs, Reason::SwapPending);
    assert_eq!(decision.again, Some(Duration::from_secs(20)));
    life.later(19).assert_silent(&runs, Reason::SwapPending);
    let note = life.later(1).tells(&runs, Reason::ExitImageRuns);
    assert!(note.contains("volume"), "{note}");
}

#[test]
fn a_node_that_does_not_react_is_told_after_the_grace_of_all_sidecars_and_a_minute() {
    let one = ready("Never");
    let three = one
        .clone()
        .grace(4)
        .with(sidecar("b").running())
        .with(sidecar("c").running());
    let odd_grace = one.clone().set("/spec/terminationGracePeriodSeconds", -1);
    for (pod, seconds) in [
        (one.clone(), 90),
        (one.clone().grace(0), 60),
        (three, 72),
        (odd_grace, 90),
    ] {
        let (mut life, after) = swapped(&pod);
        let end = Duration::from_secs(seconds);
        assert_eq!(
            life.assert_silent(&after, Reason::SwapPending).again,
            Some(end)
        );
        life.later(seconds - 1)
            .assert_silent(&after, Reason::SwapPending);
        let note = life.later(1).tells(&after, Reason::SwapWithoutEffect);
        assert!(note.contains("has not reacted"), "{note}");
    }
}

#[test]
fn a10_an_absurd_grace_period_is_one_of_a_year_and_does_not_overflow() {
    for seconds in [i64::from(u32::MAX), i64::MAX] {
        let (mut life, after) = swapped(&ready("Never").grace(seconds));
        life.now = Duration::from_secs(365 * 24 * 3600);
        life.tells(&after, Reason::SwapPending);
        life.now = Duration::from_secs(1 << 32);
        life.tells(&after, Reason::SwapWithoutEffect);
    }
}

/// One report of each kind is made, and none hides another.
#[test]
fn trouble_of_one_sidecar_does_not_hide_that_of_another() {
    let (mut life, after) = swapped(&ready("OnFailure").with(sidecar("other").running()));
    let troubled = sidecar_is(&after, |c| c.waiting("ErrImagePull", ""));
    assert!(
        life.tells(&troubled, Reason::ExitImageNotPulled)
            .contains("container sidecar")
    );
    assert_eq!(
        life.assert_silent(&troubled, Reason::ExitImageNotPulled)
            .again,
        Some(Duration::from_secs(120))
    );
    let report = life
        .later(120)
        .sees(&troubled)
        .reports
        .pop()
        .expect("the other one has not reacted");
    assert_eq!(report.reason, Reason::SwapWithoutEffect);
    assert!(report.note.contains("container other"), "{}", report.note);
    assert_eq!(life.sees(&troubled).reports, []);
}

#[test]
fn a_late_reaction_of_the_node_still_ends_in_the_truth() {
    let (mut life, after) = swapped(&ready("Never"));
    life.later(90).tells(&after, Reason::SwapWithoutEffect);
    let note = life.later(500).tells(
        &sidecar_is(&after, |c| exit_image_ended(c, 0)).phase("Succeeded"),
        Reason::SidecarEnded,
    );
    assert!(note.contains("exit code 0"), "{note}");
}

// What providers leave out.

#[test]
fn any_one_of_three_signs_shows_that_another_container_runs() {
    let signs: [fn(ContainerBuilder) -> ContainerBuilder; 3] = [
        |c| c.running().status("containerID", "containerd://sidecar-2"),
        |c| c.running().status("restartCount", 1),
        |c| c.running_since("2025-01-01T00:05:00Z"),
    ];
    for sign in signs {
        for image in ["", EXIT] {
            let (mut life, after) = swapped(&ready("OnFailure"));
            let runs = sidecar_is(&after, |c| {
                sign(c).status("image", image).status("imageID", "")
            });
            life.later(20).tells(&runs, Reason::ExitImageRuns);
        }
    }
}

/// Some providers copy the spec's image into the status at once: that alone proves nothing.
#[test]
fn the_image_in_the_status_alone_is_no_sign() {
    let (mut life, after) = swapped(&ready("OnFailure"));
    life.later(20).assert_silent(
        &sidecar_is(&after, |c| c.status("image", EXIT)),
        Reason::SwapPending,
    );
}

#[test]
fn a_status_that_comes_late_with_the_old_image_is_no_sign() {
    let unreported = pod("OnFailure")
        .with(main_container("main").ended(0))
        .with(sidecar("sidecar").no_status());
    let (mut life, after) = swapped(&unreported);
    let late = after
        .with(sidecar("unused").no_status())
        .but("unused", |_| sidecar("sidecar").image(EXIT).running());
    let mut json = late.json();
    json["spec"]["containers"].as_array_mut().unwrap().remove(1);
    life.later(20);
    let decision = life.sees_pod(&crate::builder::read(json).unwrap());
    assert_eq!(
        (decision.reason, decision.reports),
        (Reason::SwapPending, vec![])
    );
}

#[test]
fn an_end_counts_whatever_else_the_provider_leaves_constant() {
    let (mut life, after) = swapped(&ready("Never"));
    let ended = sidecar_is(&after, |c| {
        c.ended(0).status("image", "").status("imageID", "")
    });
    life.assert_silent(&ended, Reason::SidecarsEnded);
    let note = life.tells(&ended.phase("Succeeded"), Reason::SidecarEnded);
    assert!(
        note.contains("sidecar ended (exit code 0, method swap)"),
        "{note}"
    );
}

#[test]
fn an_exit_image_that_the_node_spells_differently_is_known() {
    let hub = || rules_with(Some("swaplet/exit"), &[]);
    for spelled in [
        "docker.io/swaplet/exit:latest",
        "swaplet/exit:latest",
        "docker.io/swaplet/exit",
    ] {
        let mut life = Life::under(hub());
        let after = life.swaps(&ready("Never"));
        let ended = sidecar_is(&after, |c| {
            c.ended(0).restarted_as(spelled, 1).last_ended(143)
        });
        life.assert_silent(&ended, Reason::SidecarsEnded);
        assert!(
            life.tells(&ended.phase("Succeeded"), Reason::SidecarEnded)
                .contains("exit code 143"),
            "{spelled}"
        );
    }
}

/// Runtimes name an image without a tag by its digest alone; then the other signs tell which
/// container it is.
#[test]
fn a_bare_digest_is_neither_the_exit_image_nor_another() {
    let (mut life, after) = swapped(&ready("Never"));
    let ended = sidecar_is(&after, |c| {
        c.ended(0).restarted_as(DIGEST, 1).last_ended(143)
    })
    .phase("Succeeded");
    let note = life.tells(&ended, Reason::SidecarEnded);
    assert!(
        note.starts_with(
            "the pod is Succeeded: sidecar ended (exit code 143, method swap), exit image exit code 0; "
        ),
        "{note}"
    );
}
