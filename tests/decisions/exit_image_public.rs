//! What decisions make of whether nodes can pull the exit image for every pod.

use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::Phase;
use swaplet_core::report::decision::{Action, Decision};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::finish_record::QUIET;

use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{DIGEST, EXIT, LISTED, Life, SHIPPED};

fn ready(policy: &str) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar("side").running())
}

/// Of an installation of which nobody has said anything; a registry may have answered.
fn answered(answer: Option<Public>) -> Life {
    let mut rules = ExitImages::new(
        Some(EXIT.parse().unwrap()),
        vec!["registry.example/exit/*".parse().unwrap()],
    );
    if let Some(public) = answer {
        rules.answered_public(&EXIT.parse().unwrap(), public);
    }
    Life {
        allowed: SHIPPED,
        ..Life::under(rules)
    }
}

/// Once the pod has been quiet.
fn quiet(life: &mut Life, pod: &PodBuilder) -> Decision {
    life.assert_silent(pod, Reason::FinishWaits);
    life.later(QUIET.as_secs()).sees(pod)
}

#[track_caller]
fn is_finished(decision: &Decision) {
    let Some(Action::Finish(finish)) = &decision.action else {
        panic!("{decision:?}")
    };
    assert_eq!(
        (finish.phase, &*decision.reports),
        (Phase::Succeeded, &[][..])
    );
}

#[test]
fn l3_a_pod_under_never_gets_an_exit_image_only_if_its_registry_needs_no_credentials() {
    for doubt in [None, Some(Public::Unknown), Some(Public::No)] {
        is_finished(&quiet(&mut answered(doubt), &ready("Never")));
    }
    answered(Some(Public::Yes)).swaps(&ready("Never"));
}

/// A failed pull fails no pod there.
#[test]
fn l3_a_pod_under_on_failure_is_swapped_whatever_its_registry_answers() {
    for answer in [None, Some(Public::No), Some(Public::Yes)] {
        answered(answer).swaps(&ready("OnFailure"));
    }
}

/// A kubelet before 1.35 does not know the policy of a container.
#[test]
fn u230_the_policy_of_a_sidecar_alone_does_not_save_a_pod_under_never() {
    for own in ["OnFailure", "Never"] {
        let side = |policy| ready(policy).but("side", |side| side.spec("restartPolicy", own));
        is_finished(&quiet(&mut answered(Some(Public::No)), &side("Never")));
        answered(Some(Public::Yes)).swaps(&side("Never"));
        if own == "Never" {
            is_finished(&quiet(&mut answered(Some(Public::No)), &side("OnFailure")));
        }
    }
}

/// Its instance would be billed on if only the phase were written.
#[test]
fn l3_a_virtual_node_that_replaces_containers_swaps_as_before() {
    let mut life = answered(Some(Public::No));
    life.node = NodeClass::VirtualUpdates;
    life.allowed.swap_under_never = true;
    life.swaps(&ready("Never"));
}

#[test]
fn l3_where_the_phase_may_not_be_written_nothing_is_and_the_fix_is_told() {
    for (answer, words) in [
        (Some(Public::No), "wants credentials"),
        (None, "it is not known whether"),
    ] {
        let mut life = answered(answer);
        life.allowed.finish = false;
        let note = life.tells(&ready("Never"), Reason::ExitImageNotPublic);
        for word in [words, EXIT, "container side", "--exit-image-is-public=true"] {
            assert!(note.contains(word), "{word}: {note}");
        }
    }
}

#[test]
fn l3_what_the_administrator_says_outranks_the_answer() {
    let mut life = answered(Some(Public::No));
    life.rules = life.rules.said_public(Public::Yes);
    life.swaps(&ready("Never"));
    let mut life = answered(Some(Public::Yes));
    life.rules = life.rules.said_public(Public::No);
    is_finished(&quiet(&mut life, &ready("Never")));
}

#[test]
fn l3_a_listed_image_of_another_repository_is_not_known() {
    let listed = ready("Never").but("side", |side| {
        side.env("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE", LISTED)
    });
    is_finished(&quiet(&mut answered(Some(Public::Yes)), &listed));
}

/// Registries grant pulls by repository.
#[test]
fn l3_a_derived_image_is_judged_by_its_own_repository() {
    let repository = "registry.example/derived";
    let image = format!("{repository}@{DIGEST}");
    let own = ready("Never").but("side", |side| side.spec("command", vec!["/opt/own"]));
    for (public, is_swapped) in [(Public::Yes, true), (Public::No, false)] {
        let mut life = answered(Some(Public::Yes));
        life.rules = life
            .rules
            .with_derived(DerivedImages::new(repository.parse().unwrap()));
        let paths = vec!["/opt/own".to_owned()];
        assert!(
            life.rules
                .derived_mut()
                .unwrap()
                .ask("default", &paths, life.now)
        );
        life.rules
            .derived_mut()
            .unwrap()
            .came(&paths, Ok(image.clone().into()), life.now);
        life.rules
            .answered_public(&format!("{repository}@{DIGEST}").parse().unwrap(), public);
        if is_swapped {
            assert_eq!(*life.sees(&own).swaps()[0].to, image);
        } else {
            is_finished(&quiet(&mut life, &own));
        }
    }
}
