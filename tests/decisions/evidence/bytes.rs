//! The exit image under another name: a runtime reports an image by any name that its bytes have.

use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::ending::{Code, ends};

use super::{ready, sidecar_is, swapped};
use crate::builder::{ContainerBuilder, PodBuilder};
use crate::expect::{EXIT, Life, rules_with};

const OWN_BYTES: &str = "registry.example/app/sidecar@sha256:1111111111111111111111111111111111111111111111111111111111111111";
const EXIT_BYTES: &str = "registry.example/swaplet/exit@sha256:2222222222222222222222222222222222222222222222222222222222222222";
/// Other names of the same bytes: the tag before an upgrade, and a mirror.
const OTHER_NAMES: [&str; 2] = [
    "registry.example/swaplet/exit:v0",
    "127.0.0.1:5000/priv/exit:1",
];

fn is_own(container: ContainerBuilder) -> ContainerBuilder {
    container.status("imageID", OWN_BYTES)
}

fn is_ended_by_exit_image(container: ContainerBuilder, name: &str) -> ContainerBuilder {
    container
        .ended(0)
        .restarted_as(name, 1)
        .status("imageID", EXIT_BYTES)
        .last_ended(143)
}

fn code_of(life: &Life, pod: &PodBuilder) -> Code {
    ends(&pod.read(), &life.memory).sidecars[0].code
}

#[test]
fn g5_the_code_of_the_sidecar_is_told_whatever_name_the_node_has_for_the_exit_image() {
    for name in OTHER_NAMES.into_iter().chain([EXIT]) {
        let (mut life, after) = swapped(&ready("Never").but("sidecar", is_own));
        // The sidecar's own end is shown first.
        let own = sidecar_is(&after, |c| is_own(c).ended(143));
        life.assert_silent(&own, Reason::SidecarsEnded);
        let ended = sidecar_is(&after, |c| is_ended_by_exit_image(c, name)).phase("Succeeded");
        let note = life.tells(&ended, Reason::SidecarEnded);
        assert!(
            note.contains("sidecar ended (exit code 143, method swap), exit image exit code 0"),
            "{name}: {note}"
        );
        assert_eq!(code_of(&life, &ended), Code::Terminated, "{name}");
    }
}

#[test]
fn a_kubelet_that_drops_the_sidecar_at_once_leaves_its_code_unseen() {
    let (mut life, after) = swapped(&ready("Never").but("sidecar", is_own));
    let ended = sidecar_is(&after, |c| {
        c.ended(0)
            .restarted_as(OTHER_NAMES[1], 1)
            .status("imageID", EXIT_BYTES)
    })
    .phase("Succeeded");
    let note = life.tells(&ended, Reason::SidecarEnded);
    assert!(
        note.contains("its own exit code was not shown, method swap), exit image exit code 0"),
        "{note}"
    );
    assert_eq!(code_of(&life, &ended), Code::Unseen);
}

/// Its tag was moved, and it has crashed before the node acted.
#[test]
fn the_sidecars_own_image_with_new_bytes_is_not_taken_for_the_exit_image() {
    let (mut life, after) = swapped(&ready("OnFailure").but("sidecar", is_own));
    let own = sidecar_is(&after, |c| {
        c.ended(0)
            .restarted_as("registry.example/app/sidecar:v1", 1)
            .status("imageID", EXIT_BYTES)
    })
    .phase("Succeeded");
    let note = life.tells(&own, Reason::SidecarEnded);
    assert!(note.contains("exit image not reported"), "{note}");
}

/// It would count twice, and hold the room of others, for as long as another sidecar of the pod runs.
#[test]
fn the_restart_is_not_awaited_any_more_whatever_name_the_node_has_for_the_exit_image() {
    for name in OTHER_NAMES.into_iter().chain([EXIT]) {
        let (mut life, after) = swapped(&ready("OnFailure").but("sidecar", is_own));
        let coming = |life: &Life, pod: &PodBuilder| life.counts(&pod.read()).coming;
        life.sees(&after);
        assert_eq!(coming(&life, &after), 1, "{name}");
        let ended = sidecar_is(&after, |c| is_ended_by_exit_image(c, name));
        life.assert_silent(&ended, Reason::SidecarsEnded);
        assert_eq!(coming(&life, &ended), 0, "{name}");
    }
}

/// A new life has not seen what ran before.
#[test]
fn a_new_life_knows_the_digest_that_is_configured_and_does_not_guess_by_another_tag() {
    let pinned = EXIT_BYTES.replace("exit@", "exit:v1@");
    let mut before = Life::under(rules_with(Some(&pinned), &[]));
    let after = before.swaps(&ready("OnFailure").but("sidecar", is_own));
    let ended = |pod: &PodBuilder| sidecar_is(pod, |c| is_ended_by_exit_image(c, OTHER_NAMES[1]));
    let mut life = Life::under(rules_with(Some(&pinned), &[]));
    life.assert_silent(&ended(&after), Reason::SidecarsEnded);
    assert_eq!(code_of(&life, &ended(&after)), Code::Terminated);

    let (_, after) = swapped(&ready("OnFailure").but("sidecar", is_own));
    let ended = sidecar_is(&after, |c| is_ended_by_exit_image(c, OTHER_NAMES[0]));
    let mut life = Life::new();
    life.assert_silent(&ended, Reason::SidecarsEnded);
    assert_eq!(code_of(&life, &ended), Code::Unseen);
    let note = life.tells(&ended.phase("Succeeded"), Reason::SidecarEnded);
    assert!(
        note.contains("whether exit code 0 is its own or of the exit image is not known"),
        "{note}"
    );
}
