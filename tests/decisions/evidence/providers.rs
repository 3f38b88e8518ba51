//! What providers leave out of a status, and what shows the exit image all the same.

use swaplet_core::report::reason::Reason;

use super::{ready, sidecar_is, swapped};
use crate::builder::{ContainerBuilder, main_container, pod, sidecar};
use crate::expect::{DIGEST, EXIT, Life, rules_with};

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
            life.assert_silent(&runs, Reason::SwapPending);
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
