//! Exit images that cannot be pulled.

use swaplet_core::report::reason::Reason;

use super::{
    FINISH, NEVER_FINISH, QUIET_SECONDS, cannot_pull, finishes, named, ready, stuck, swapped_names,
    under,
};
use crate::expect::{EXIT, Life};

// ---- V3: an exit image that cannot be pulled

/// The namespace of the pods of these tests that have none of their own.
const BATCH: &str = "batch";

/// It is pulled after all: another container, of the exit image, has ended.
fn pulls_at_last(life: &mut Life, uid: &str, node: &str) {
    pulls_in(life, BATCH, uid, node);
}

fn pulls_in(life: &mut Life, namespace: &str, uid: &str, node: &str) {
    let (memory, stuck) = stuck(life, uid, node);
    let ended = stuck
        .set("/metadata/namespace", namespace)
        .but("log", |log| log.ended(0).restarted_as(EXIT, 1));
    life.image_troubles
        .observe(&ended.read(), &memory, life.now);
}

/// As [`cannot_pull`], of a pod of this namespace.
fn cannot_pull_in(life: &mut Life, namespace: &str, node: &str) {
    let (memory, stuck) = stuck(life, &format!("{namespace}-{node}"), node);
    let stuck = stuck.set("/metadata/namespace", namespace);
    life.image_troubles
        .observe(&stuck.read(), &memory, life.now);
}

fn swaps_on(life: &mut Life, policy: &str, node: &str) -> bool {
    swaps_in(life, BATCH, policy, node)
}

fn swaps_in(life: &mut Life, namespace: &str, policy: &str, node: &str) -> bool {
    life.memory = swaplet_core::terminate::memory::Memory::default();
    let pod = named(policy, "asks", node)
        .set("/metadata/namespace", namespace)
        .read();
    life.memory.observe(&pod, &life.rules, life.now);
    let decision = swaplet_core::terminate::decide(&pod, &life.memory, &life.around());
    let held = decision
        .reports
        .iter()
        .any(|report| report.reason == Reason::ExitImageNotPulled)
        && decision.again.is_some();
    assert!(
        held || decision.reason == Reason::SidecarSwapped,
        "{decision:?}"
    );
    !held
}

#[test]
fn v3_an_image_that_a_node_cannot_pull_holds_swaps_under_never_there() {
    let mut life = under(NEVER_FINISH);
    assert!(swaps_on(&mut life, "Never", "n1"));
    cannot_pull(&mut life, "p1", "n1");
    assert!(!swaps_on(&mut life, "Never", "n1"));
    assert!(
        swaps_on(&mut life, "OnFailure", "n1"),
        "a pod under OnFailure loses nothing, and shows when it is there again"
    );
    assert!(
        swaps_on(&mut life, "Never", "n2"),
        "one node may lack something of its own"
    );
    pulls_at_last(&mut life, "p1", "n1");
    assert!(swaps_on(&mut life, "Never", "n1"));
}

#[test]
fn v3_an_image_that_two_nodes_cannot_pull_is_tried_nowhere_under_never() {
    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "n1");
    cannot_pull(&mut life, "p2", "n2");
    assert!(
        ["n1", "n2", "n3"]
            .iter()
            .all(|node| !swaps_on(&mut life, "Never", node))
    );
    pulls_at_last(&mut life, "p1", "n1");
    assert!(swaps_on(&mut life, "Never", "n1") && swaps_on(&mut life, "Never", "n3"));
    assert!(
        !swaps_on(&mut life, "Never", "n2"),
        "it has shown nothing yet"
    );
}

/// Half an hour after it was seen last, and ever later.
#[test]
fn v3_one_pod_at_a_time_tries_and_the_others_wait_for_it() {
    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "n1");
    life.later(1799);
    assert!(!swaps_on(&mut life, "Never", "n1"));
    life.later(1);
    assert!(swaps_on(&mut life, "Never", "n1"));
    let tries = named("Never", "tries", "n1").read();
    life.image_troubles.tried(&tries, EXIT, life.now);
    assert!(!swaps_on(&mut life, "Never", "n1"), "another one tries");
    life.later(10);
    cannot_pull(&mut life, "tries", "n1");
    life.later(1800);
    assert!(
        !swaps_on(&mut life, "Never", "n1"),
        "the second try is later than the first"
    );
    life.later(1800);
    assert!(swaps_on(&mut life, "Never", "n1"));
}

#[test]
fn v3_what_is_held_back_is_finished_where_that_is_allowed_and_told_where_not() {
    let mut life = under(FINISH);
    cannot_pull(&mut life, "p1", "node-1");
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    let decision = life.later(QUIET_SECONDS).sees(&ready("Never"));
    assert!(
        finishes(&decision).contains("ExitImageNotPulled: container log"),
        "{decision:?}"
    );

    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "node-1");
    let note = life.tells(&ready("Never"), Reason::ExitImageNotPulled);
    assert!(note.contains(EXIT) && note.contains("push it"), "{note}");
    // A pod that has failed anyway loses nothing.
    let failed = ready("Never")
        .but("main", |main| main.ended(1))
        .set("/metadata/uid", "failed");
    let mut other = under(NEVER_FINISH);
    cannot_pull(&mut other, "p1", "node-1");
    assert_eq!(swapped_names(&other.sees(&failed)), ["log"]);
}

#[test]
fn v3_what_is_known_is_bounded_and_forgotten() {
    let mut life = under(NEVER_FINISH);
    for nth in 0..1500 {
        life.later(1);
        cannot_pull(&mut life, &format!("p{nth}"), &format!("n{nth}"));
        if nth == 0 {
            assert!(!swaps_on(&mut life, "Never", "n0"));
        }
    }
    let kept = format!("{:?}", life.image_troubles)
        .matches("Node(")
        .count();
    assert_eq!(kept, 1024);
    life.later(24 * 3600);
    assert!(swaps_on(&mut life, "Never", "n1499"));
}

/// Anyone can create pods whose sidecars have the exit image and cannot pull it.
#[test]
fn pods_that_were_created_with_the_exit_image_say_nothing_of_it() {
    let mut life = under(NEVER_FINISH);
    for (uid, node) in [("p1", "n1"), ("p2", "n2")] {
        let pod = named("Never", uid, node)
            .but("log", |log| {
                log.image(EXIT)
                    .waiting("ErrImagePull", &format!("pulling image \"{EXIT}\""))
                    .status("image", EXIT)
            })
            .read();
        let mut memory = swaplet_core::terminate::memory::Memory::default();
        memory.observe(&pod, &life.rules, life.now);
        life.image_troubles.observe(&pod, &memory, life.now);
    }
    assert!(swaps_on(&mut life, "Never", "n1") && swaps_on(&mut life, "Never", "n3"));
}

// ---- What pods of one namespace show

/// It may lack a pull secret, or have nodes of its own.
#[test]
fn a_namespace_that_cannot_pull_holds_back_no_other() {
    let mut life = under(NEVER_FINISH);
    for node in ["n1", "n2", "n3"] {
        cannot_pull_in(&mut life, "evil", node);
    }
    assert!(swaps_on(&mut life, "Never", "n1") && swaps_on(&mut life, "Never", "n4"));
    assert!(!swaps_in(&mut life, "evil", "Never", "n4"));
    // Its own pull says that the others are troubles of their nodes, and one of others does not.
    pulls_in(&mut life, BATCH, "p1", "n4");
    assert!(!swaps_in(&mut life, "evil", "Never", "n4"));
    pulls_in(&mut life, "evil", "evil-n1", "n1");
    assert!(swaps_in(&mut life, "evil", "Never", "n1"));
    assert!(swaps_in(&mut life, "evil", "Never", "n4"));
    assert!(!swaps_in(&mut life, "evil", "Never", "n2"));
}

#[test]
fn what_two_namespaces_show_counts_for_all_until_a_pod_of_any_has_pulled_it() {
    let mut life = under(NEVER_FINISH);
    cannot_pull_in(&mut life, "a", "n1");
    cannot_pull_in(&mut life, "b", "n1");
    assert!(!swaps_on(&mut life, "Never", "n1"));
    assert!(
        swaps_on(&mut life, "Never", "n2"),
        "one node may lack something of its own"
    );
    cannot_pull_in(&mut life, "b", "n2");
    assert!(!swaps_on(&mut life, "Never", "n3"));
    assert!(swaps_on(&mut life, "OnFailure", "n3"));

    life.later(1800);
    assert!(swaps_on(&mut life, "Never", "n3"));
    let tries = named("Never", "tries", "n3").read();
    life.image_troubles.tried(&tries, EXIT, life.now);
    assert!(
        !swaps_in(&mut life, "c", "Never", "n4"),
        "one pod at a time, of all namespaces"
    );
    for namespace in ["a", "b"] {
        cannot_pull_in(&mut life, namespace, "n1");
    }
    pulls_at_last(&mut life, "tries", "n3");
    assert!(swaps_on(&mut life, "Never", "n1") && swaps_in(&mut life, "c", "Never", "n4"));
    assert!(!swaps_in(&mut life, "a", "Never", "n1"));

    // They show it on and on.
    for namespace in ["a", "b"] {
        cannot_pull_in(&mut life, namespace, "n1");
    }
    cannot_pull_in(&mut life, "b", "n2");
    assert!(swaps_on(&mut life, "Never", "n1") && swaps_on(&mut life, "Never", "n3"));
}

/// Anyone who may change pods of a namespace can give them the exit image.
#[test]
fn swaps_by_others_show_nothing_to_other_namespaces() {
    let mut life = under(NEVER_FINISH);
    for (namespace, node) in [("a", "n1"), ("b", "n2"), ("b", "n1")] {
        let pod = named("OnFailure", &format!("{namespace}-{node}"), node)
            .set("/metadata/namespace", namespace)
            .but("log", |log| {
                log.image(EXIT)
                    .waiting("ErrImagePull", &format!("pulling image \"{EXIT}\""))
            })
            .read();
        let mut memory = swaplet_core::terminate::memory::Memory::default();
        memory.observe(&pod, &life.rules, life.now);
        life.image_troubles.observe(&pod, &memory, life.now);
    }
    assert!(swaps_on(&mut life, "Never", "n1") && swaps_on(&mut life, "Never", "n3"));
    assert!(!swaps_in(&mut life, "a", "Never", "n1"));
    assert!(!swaps_in(&mut life, "b", "Never", "n3"));
}

#[test]
fn a_namespace_with_many_troubles_costs_no_other_what_is_known() {
    let mut life = under(NEVER_FINISH);
    cannot_pull(&mut life, "p1", "n1");
    life.later(1);
    for nth in 0..1500 {
        cannot_pull_in(&mut life, "evil", &format!("n{nth}"));
    }
    assert!(!swaps_on(&mut life, "Never", "n1"));
}
