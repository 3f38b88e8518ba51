//! What decisions make of what is known of the pod's node.

use NodeClass::{Unknown, VirtualInert, VirtualRejects, VirtualUpdates};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::reason::Reason;

use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{Life, moment};

const UNTIL: Moment = moment(30);

fn ready(policy: &str) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar("side").running())
}

fn on(class: NodeClass) -> Life {
    Life {
        node: class,
        ..Life::new()
    }
}

#[test]
fn a_node_that_was_not_seen_yet_is_waited_for() {
    let mut life = Life::new();
    life.facts.unseen_until = Some(UNTIL);
    assert_eq!(
        life.assert_silent(&ready("Never"), Reason::NodeNotSeen)
            .again,
        Some(UNTIL)
    );
    life.assert_silent(
        &ready("Never").but("main", |main| main.running()),
        Reason::MainsRunning,
    );
    life.assert_silent(
        &ready("Never").but("side", |side| side.ended(0)),
        Reason::SidecarsEnded,
    );
    life.facts.unseen_until = None;
    life.swaps(&ready("Never"));
}

#[test]
fn the_probe_of_another_pod_is_waited_for() {
    let mut life = on(Unknown);
    life.facts.probed_until = Some(UNTIL);
    assert_eq!(
        life.assert_silent(&ready("OnFailure"), Reason::NodeProbed)
            .again,
        Some(UNTIL)
    );
    life.facts.probed_until = None;
    let after = life.swaps(&ready("OnFailure"));
    life.facts.probed_until = Some(UNTIL);
    life.assert_silent(&after, Reason::SwapPending);
}

#[test]
fn a_class_without_a_way_is_told_with_the_fix_and_looked_at_again_when_it_may_change() {
    for (class, policy) in [
        (VirtualInert, "OnFailure"),
        (VirtualRejects, "OnFailure"),
        (VirtualUpdates, "Never"),
        (Unknown, "Never"),
    ] {
        let mut life = on(class);
        life.facts.class_until = Some(UNTIL);
        let note = life.tells(&ready(policy), Reason::NoRung);
        assert!(
            note.contains(&format!("node node-1 is {class}")) && note.contains(policy),
            "{note}"
        );
        assert!(
            note.contains("finish") && note.contains("swaplet.io/node-class"),
            "{note}"
        );
        assert_eq!(
            life.assert_silent(&ready(policy), Reason::NoRung).again,
            Some(UNTIL)
        );
    }
}

/// The verdict that another pod's swap has brought is not about this one.
#[test]
fn a_swap_that_was_made_is_waited_for_whatever_the_class_becomes() {
    for class in [VirtualInert, VirtualRejects] {
        let mut life = Life::new();
        let after = life.swaps(&ready("OnFailure"));
        life.node = class;
        assert_eq!(
            life.assert_silent(&after, Reason::SwapPending).again,
            Some(moment(90))
        );
        life.later(90).tells(&after, Reason::SwapWithoutEffect);
    }
}

#[test]
fn nothing_more_is_swapped_once_the_class_forbids_it() {
    let mut life = Life::new();
    let after = life.swaps(&ready("OnFailure").with(sidecar("other").running()));
    life.node = VirtualRejects;
    let undone = after.but("other", |other| {
        other.image("registry.example/app/other:v2")
    });
    let decision = life.sees(&undone);
    assert_eq!((decision.action, decision.reason), (None, Reason::NoRung));
}

#[test]
fn a_provider_that_has_failed_is_not_waited_for() {
    for (class, policy) in [
        (VirtualUpdates, "OnFailure"),
        (Unknown, "OnFailure"),
        (NodeClass::Kubelet, "Never"),
    ] {
        let mut life = on(class);
        let after = life
            .swaps(&ready(policy))
            .phase("Pending")
            .set("/status/reason", "ProviderFailed");
        let note = life.tells(&after, Reason::SwapRejected);
        assert!(
            note.contains("node node-1") && note.contains("status.message"),
            "{note}"
        );
        let polled = after.phase("Running").set("/status/reason", "");
        life.later(3600)
            .assert_silent(&polled, Reason::SwapRejected);
    }
}
