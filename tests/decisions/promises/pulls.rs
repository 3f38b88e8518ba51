//! Exit images that could not be pulled or started here: one fact for each namespace and image, that
//! only leads to finish.

use swaplet_core::report::decision::Swap;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::decide;
use swaplet_core::terminate::memory::Memory;
use swaplet_core::terminate::memory::proof::{proved, swaps_failed};

use super::{
    FINISH, NEVER_FINISH, QUIET_SECONDS, cannot_pull, finishes, named, ready, stuck, swapped_names,
    under,
};
use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life};

/// The namespace of the pods of these tests that have none of their own.
const BATCH: &str = "batch";
const DAY: u64 = 24 * 3600;

/// As [`cannot_pull`], of a pod of this namespace.
fn cannot_pull_in(life: &mut Life, namespace: &str, node: &str) {
    let (memory, stuck) = stuck(life, &format!("{namespace}-{node}"), node);
    let stuck = stuck.set("/metadata/namespace", namespace);
    life.image_troubles
        .observe(&stuck.read(), &memory, life.now);
}

/// A pod of this namespace that has just been swapped, and what its node shows of the exit image.
fn cannot_start_in(life: &mut Life, namespace: &str) {
    let (memory, stuck) = stuck(life, namespace, "n1");
    let failing = stuck
        .set("/metadata/namespace", namespace)
        .but("log", |log| {
            log.waiting("RunContainerError", "exec: no such file")
                .restarted_as(EXIT, 1)
                .last_ended(128)
        });
    life.image_troubles
        .observe(&failing.read(), &memory, life.now);
}

fn is_swapped(life: &mut Life, pod: &PodBuilder) -> bool {
    life.memory = Memory::default();
    let pod = pod.read();
    life.memory.observe(&pod, &life.rules, life.now);
    let decision = decide(&pod, &life.memory, &life.around());
    let is_held = decision
        .reports
        .iter()
        .any(|report| report.reason == Reason::ExitImageDoubtful)
        && decision.again.is_some();
    assert!(
        is_held || decision.reason == Reason::SidecarSwapped,
        "{decision:?}"
    );
    !is_held
}

fn swaps_in(life: &mut Life, namespace: &str, policy: &str, node: &str) -> bool {
    let pod = named(policy, "asks", node).set("/metadata/namespace", namespace);
    is_swapped(life, &pod)
}

#[test]
fn v3_an_image_that_could_not_be_pulled_holds_swaps_under_never_in_the_namespace() {
    let mut life = under(NEVER_FINISH);
    assert!(swaps_in(&mut life, BATCH, "Never", "n1"));
    cannot_pull(&mut life, "p1", "n1");
    for node in ["n1", "n2"] {
        assert!(!swaps_in(&mut life, BATCH, "Never", node));
    }
    assert!(
        swaps_in(&mut life, BATCH, "OnFailure", "n1"),
        "a pod under OnFailure loses nothing by it"
    );
    assert!(
        swaps_in(&mut life, "other", "Never", "n1"),
        "the first may lack a pull secret"
    );
}

/// Behind a webhook that renames images it is known by the name that is asked for, as that of the next
/// pod is: each of them would be failed by the same swap.
#[test]
fn u144_what_could_not_be_pulled_under_the_name_of_a_webhook_is_known_by_what_was_sent() {
    for mirror in ["mirror.example/exit:v1", "cache.example/blobs/17"] {
        let mut life = under(NEVER_FINISH);
        let after = life.swaps_as(&ready("Never"), |_| mirror.to_owned());
        let failed = after
            .but("log", |log| log.ended(143))
            .phase("Failed")
            .read();
        life.memory.observe(&failed, &life.rules, life.now);
        life.image_troubles.failed(&failed, &life.memory, life.now);
        assert!(!swaps_in(&mut life, BATCH, "Never", "n1"), "{mirror}");
        assert!(swaps_in(&mut life, "other", "Never", "n1"), "{mirror}");
    }
}

/// What is started again decides, not what the pod says of its other containers.
#[test]
fn u192_a_sidecar_under_never_shows_it_in_a_pod_under_on_failure() {
    let mut life = under(NEVER_FINISH);
    let own = |uid: &str| {
        ready("OnFailure")
            .but("log", |log| log.spec("restartPolicy", "Never"))
            .set("/metadata/uid", uid)
    };
    let after = life.swaps(&own("first"));
    let failed = after
        .but("log", |log| log.ended(143))
        .phase("Failed")
        .read();
    life.memory.observe(&failed, &life.rules, life.now);
    assert!(swaps_failed(&failed, &life.memory));
    let proves = proved(&failed, &life.memory, life.now);
    assert_eq!(proves, None, "nothing of pods under Never");
    life.image_troubles.failed(&failed, &life.memory, life.now);
    for pod in [own("next"), ready("Never")] {
        assert!(!is_swapped(&mut life, &pod));
    }
}

/// Nobody tries it out meanwhile: each try would fail a pod whose work is done.
#[test]
fn v3_what_is_known_expires_a_day_after_it_was_shown_last_and_is_not_tried_before() {
    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "n1");
    for _ in 0..23 {
        life.later(3600);
        assert!(!swaps_in(&mut life, BATCH, "Never", "n1"));
    }
    cannot_pull(&mut life, "p1", "n1");
    life.later(DAY - 1);
    assert!(!swaps_in(&mut life, BATCH, "Never", "n1"));
    life.later(1);
    assert!(swaps_in(&mut life, BATCH, "Never", "n1"));
}

#[test]
fn v3_what_is_held_back_is_finished_where_that_is_allowed_and_told_where_not() {
    let mut life = under(FINISH);
    cannot_pull(&mut life, "p1", "node-1");
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    let decision = life.later(QUIET_SECONDS).sees(&ready("Never"));
    let note = finishes(&decision);
    assert!(note.contains("ExitImageDoubtful: container log"), "{note}");
    assert!(note.ends_with("so it is not tried"), "{note}");

    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "node-1");
    let note = life.tells(&ready("Never"), Reason::ExitImageDoubtful);
    assert!(
        note.contains(EXIT) && note.contains("allow finish"),
        "{note}"
    );
    // A pod that has failed anyway loses nothing.
    let failed = ready("Never")
        .but("main", |main| main.ended(1))
        .set("/metadata/uid", "failed");
    let mut other = under(NEVER_FINISH);
    cannot_pull(&mut other, "p1", "node-1");
    assert_eq!(swapped_names(&other.sees(&failed)), ["log"]);
}

/// A container may lack what others of the namespace have.
#[test]
fn an_image_that_did_not_start_holds_swaps_of_containers_of_that_name_under_both_policies() {
    let mut life = under(NEVER_FINISH);
    cannot_start_in(&mut life, BATCH);
    for policy in ["Never", "OnFailure"] {
        let pod = named(policy, "asks", "n1");
        assert!(!is_swapped(&mut life, &pod));
        let elsewhere = pod.set("/metadata/namespace", "other");
        assert!(is_swapped(&mut life, &elsewhere));
    }
    let other = ready("Never")
        .but("log", |log| log.ended(0))
        .with(sidecar("other").running());
    assert_eq!(swapped_names(&life.sees(&other)), ["other"]);
    let mut life = under(FINISH);
    cannot_start_in(&mut life, BATCH);
    life.assert_silent(&ready("OnFailure"), Reason::FinishWaits);
}

/// A pod on this node was swapped before anything was known, and the exit image has ended its sidecar
/// of this name.
fn ends_well(life: &mut Life, name: &str, node: &str) {
    let well = pod("OnFailure")
        .with(main_container("main").ended(0))
        .with(sidecar(name).running())
        .set("/metadata/uid", name)
        .set("/spec/nodeName", node);
    let swap = Swap {
        index: 1,
        is_native_sidecar: false,
        container: name.into(),
        from: well.image_of(name).into(),
        to: EXIT.into(),
    };
    let mut memory = Memory::default();
    memory.swapped(&well.read().containers[1], &swap, EXIT, life.now);
    let ended = well.but(name, |side| side.image(EXIT).restarted_as(EXIT, 1).ended(0));
    life.image_troubles
        .observe(&ended.read(), &memory, life.now);
}

/// Of two pools of nodes one may reach the registry: what ends well there says nothing of the other,
/// where each wave of a Job would be failed.
#[test]
fn u193_what_works_on_one_node_disproves_nothing_about_another() {
    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "n1");
    ends_well(&mut life, "log", "n2");
    for node in ["n1", "n2"] {
        assert!(!swaps_in(&mut life, BATCH, "Never", node), "{node}");
    }
    ends_well(&mut life, "log", "n1");
    for node in ["n1", "n2"] {
        assert!(swaps_in(&mut life, BATCH, "Never", node), "{node}");
    }
}

/// It may lack what the other one has: a Secret of its environment, say.
#[test]
fn u158_a_container_that_ends_well_disproves_nothing_about_one_that_has_failed_its_pod() {
    let mut life = under(NEVER_FINISH);
    let after = life.swaps(&ready("Never"));
    let failed = after
        .but("log", |log| log.ended(143))
        .phase("Failed")
        .read();
    life.memory.observe(&failed, &life.rules, life.now);
    life.image_troubles.failed(&failed, &life.memory, life.now);
    for name in ["other", "log"] {
        ends_well(&mut life, name, &failed.node);
        let is_disproved = name == "log";
        assert_eq!(
            swaps_in(&mut life, BATCH, "Never", "n1"),
            is_disproved,
            "{name}"
        );
    }
}

/// T1: of 5 pods at once each would show it for itself.
#[test]
fn t7_a_start_that_fails_is_known_to_the_next_pods() {
    let mut life = under(FINISH);
    let after = life.swaps(&ready("OnFailure"));
    let failing = after.but("log", |log| {
        log.waiting("RunContainerError", "exec: no such file")
            .restarted_as(EXIT, 1)
            .last_ended(128)
    });
    life.later(1).sees(&failing);
    life.memory = Memory::default();
    life.assert_silent(
        &ready("OnFailure").set("/metadata/uid", "next"),
        Reason::FinishWaits,
    );
}

#[test]
fn v3_what_is_known_is_bounded() {
    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "n1");
    let (memory, stuck) = stuck(&life, "p2", "n2");
    for nth in 0..1500 {
        life.later(1);
        let mut memory = memory.clone();
        let image = format!("{EXIT}-{nth}");
        let swap = &mut memory.swaps[0];
        (swap.asked, swap.to) = (image.as_str().into(), image.as_str().into());
        let pod = stuck
            .clone()
            .set("/metadata/namespace", "evil")
            .but("log", |log| {
                log.image(&image)
                    .waiting("ImagePullBackOff", &format!("pulling image \"{image}\""))
            })
            .read();
        life.image_troubles.observe(&pod, &memory, life.now);
    }
    let kept = format!("{:?}", life.image_troubles)
        .matches("Key {")
        .count();
    assert_eq!(kept, 1024);
    assert!(
        !swaps_in(&mut life, BATCH, "Never", "n1"),
        "a namespace with many troubles costs no other what is known"
    );
}

/// Anyone can create pods whose sidecars have the exit image and cannot pull it.
#[test]
fn pods_that_were_created_with_the_exit_image_say_nothing_of_it() {
    let mut life = under(NEVER_FINISH);
    let pod = named("Never", "p1", "n1")
        .but("log", |log| {
            log.image(EXIT)
                .waiting("ErrImagePull", &format!("pulling image \"{EXIT}\""))
                .status("image", EXIT)
        })
        .read();
    let mut memory = Memory::default();
    memory.observe(&pod, &life.rules, life.now);
    life.image_troubles.observe(&pod, &memory, life.now);
    assert!(swaps_in(&mut life, BATCH, "Never", "n1"));
    cannot_pull_in(&mut life, "evil", "n1");
    assert!(swaps_in(&mut life, BATCH, "Never", "n1"));
    assert!(!swaps_in(&mut life, "evil", "Never", "n1"));
}
