//! OpenKruise's unit cases of its SidecarTerminator, by name (ST-u: an ordinary node with the
//! daemon; ST-v: a virtual node).
//!
//! OpenKruise decides by the node's labels between its daemon and an image swap; swaplet swaps on
//! both. So where OpenKruise creates a ContainerRecreateRequest, swaplet swaps exactly those
//! containers. They run as an installation does where nothing is said, ST-u on a node with the
//! daemon and ST-v on one of Alibaba ECI.

mod interesting_pods;
mod virtual_node;

use swaplet_core::cluster::node_class::{NodeClass, Recognised};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::cluster::node_verdicts::{NodeId, NodeVerdicts};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Phase;
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_core::report::decision::Action;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::NodeFacts;
use swaplet_core::terminate::memory::finish_record::QUIET;
use swaplet_core::terminate::openkruise::Coexist;

use crate::builder::{
    ContainerBuilder, PodBuilder, main_container, pod, sidecar, sidecar_with_image,
};
use crate::expect::{EXIT, LISTED, Life, Neighbour, SHIPPED, assert_waits_for_events, swaps_in};
use crate::node_classes::node;

/// As installed, on a node with OpenKruise's daemon whose terminator is off.
fn ordinary() -> Life {
    let openkruise = Neighbour {
        coexist: Coexist::Own,
        ..Neighbour::default()
    };
    Life {
        node: NodeClass::Daemon,
        allowed: SHIPPED,
        openkruise,
        ..Life::new()
    }
}

/// As installed, on the virtual node of OpenKruise's documents.
fn eci() -> Life {
    let recognised = Recognised::of(
        &node("eci", &["k8s.aliyun.com/vnode=true"], &[], &[]),
        &NodeTable::built_in(),
    );
    let id = NodeId {
        name: "eci",
        uid: "u",
    };
    let under_never =
        NodeVerdicts::default().under_never(id, &recognised, "batch", false, Moment::START);
    let facts = NodeFacts {
        under_never,
        labelled_virtual: true,
        ..NodeFacts::default()
    };
    Life {
        node: recognised.class,
        facts,
        ..ordinary()
    }
}

/// Exactly these get the default exit image, on an ordinary node.
#[track_caller]
fn swaps(pod: &PodBuilder, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|name| (*name, EXIT)).collect();
    swaps_in(ordinary, pod, &expected);
}

/// Nothing is written and nothing is said, on either node.
#[track_caller]
fn assert_silent(pod: &PodBuilder, reason: Reason) {
    for mut life in [ordinary(), eci()] {
        assert_waits_for_events(&life.assert_silent(pod, reason));
    }
}

/// The phase is written after the quiet that a kubelet needs, and nothing before.
#[track_caller]
fn finishes(pod: &PodBuilder, phase: Phase) {
    let mut life = ordinary();
    assert_eq!(life.sees(pod).action, None);
    let decision = life.later(QUIET.as_secs()).sees(pod);
    assert!(
        matches!(&decision.action, Some(Action::Finish(finish)) if finish.phase == phase),
        "{decision:?}"
    );
}

fn two_and_two(mains: [ContainerBuilder; 2], sidecars: [ContainerBuilder; 2]) -> PodBuilder {
    mains
        .into_iter()
        .chain(sidecars)
        .fold(pod("OnFailure"), PodBuilder::with)
}

fn mains_ok() -> [ContainerBuilder; 2] {
    [
        main_container("main-1").ended(0),
        main_container("main-2").ended(0),
    ]
}

#[test]
fn st_u1_never_mains_not_complete() {
    let pod = pod("Never")
        .with(main_container("main").uncompleted())
        .with(sidecar("sidecar").running());
    assert_silent(&pod, Reason::MainsRunning);
}

// A swap instead of a CRR, as in all cases of this group that act.
#[test]
fn st_u2_never_main_failed_sidecar_running() {
    swaps(
        &pod("Never")
            .with(main_container("main").ended(137))
            .with(sidecar("sidecar").running()),
        &["sidecar"],
    );
}

#[test]
fn st_u3_never_main_failed_sidecar_failed() {
    let pod = pod("Never")
        .with(main_container("main").ended(137))
        .with(sidecar("sidecar").ended(137));
    assert_silent(&pod.clone().phase("Failed"), Reason::PodFinished);
    assert_silent(&pod, Reason::SidecarsEnded);
}

#[test]
fn st_u4_never_main_ok_sidecar_running() {
    swaps(
        &pod("Never")
            .with(main_container("main").ended(0))
            .with(sidecar("sidecar").running()),
        &["sidecar"],
    );
}

#[test]
fn st_u5_on_failure_main_not_complete_sidecar_running() {
    let pod = pod("OnFailure")
        .with(main_container("main").uncompleted())
        .with(sidecar("sidecar").running());
    assert_silent(&pod, Reason::MainsRunning);
}

#[test]
fn st_u6_on_failure_main_failed_sidecar_succeeded() {
    let pod = pod("OnFailure")
        .with(main_container("main").ended(137))
        .with(sidecar("sidecar").ended(0));
    assert_silent(&pod, Reason::MainsRunning);
}

#[test]
fn st_u7_on_failure_main_ok_sidecar_ok() {
    let pod = pod("OnFailure")
        .with(main_container("main").ended(0))
        .with(sidecar("sidecar").ended(0));
    assert_silent(&pod.clone().phase("Succeeded"), Reason::PodFinished);
    assert_silent(&pod, Reason::SidecarsEnded);
}

#[test]
fn st_u8_on_failure_two_mains_ok_two_sidecars_uncompleted() {
    let sidecars = [
        sidecar("sidecar-1").uncompleted(),
        sidecar("sidecar-2").uncompleted(),
    ];
    swaps(
        &two_and_two(mains_ok(), sidecars),
        &["sidecar-1", "sidecar-2"],
    );
}

#[test]
fn st_u9_on_failure_two_mains_ok_two_sidecars_running() {
    let sidecars = [
        sidecar("sidecar-1").running(),
        sidecar("sidecar-2").running(),
    ];
    swaps(
        &two_and_two(mains_ok(), sidecars),
        &["sidecar-1", "sidecar-2"],
    );
}

#[test]
fn st_u10_on_failure_two_mains_ok_one_sidecar_completed() {
    let sidecars = [
        sidecar("sidecar-1").ended(0),
        sidecar("sidecar-2").uncompleted(),
    ];
    swaps(&two_and_two(mains_ok(), sidecars), &["sidecar-2"]);
}

#[test]
fn st_u11_on_failure_one_of_two_mains_uncompleted() {
    let mains = [
        main_container("main-1").ended(0),
        main_container("main-2").uncompleted(),
    ];
    let sidecars = [
        sidecar("sidecar-1").ended(0),
        sidecar("sidecar-2").uncompleted(),
    ];
    assert_silent(&two_and_two(mains, sidecars), Reason::MainsRunning);
}

// As there: the two normal ones first, and the third through the phase, when they are done.
#[test]
fn st_u12_on_failure_three_sidecars_one_ignores_the_exit_code() {
    let sidecars = [
        sidecar("sidecar-1").uncompleted(),
        sidecar("sidecar-2").uncompleted(),
    ];
    let third = sidecar("sidecar-3")
        .env(IGNORE_EXIT_CODE, "true")
        .uncompleted();
    let pod = two_and_two(mains_ok(), sidecars).with(third);
    swaps(&pod, &["sidecar-1", "sidecar-2"]);
    finishes(
        &pod.but("sidecar-1", |c| c.ended(0))
            .but("sidecar-2", |c| c.ended(0)),
        Phase::Succeeded,
    );
}

// OpenKruise sets the phase and creates a CRR; here the kubelet ends the last one because of the
// phase.
#[test]
fn st_u13_on_failure_two_sidecars_completed_the_ignoring_one_not() {
    let sidecars = [sidecar("sidecar-1").ended(0), sidecar("sidecar-2").ended(0)];
    let third = sidecar("sidecar-3")
        .env(IGNORE_EXIT_CODE, "true")
        .uncompleted();
    finishes(
        &two_and_two(mains_ok(), sidecars).with(third),
        Phase::Succeeded,
    );
}

// OpenKruise does nothing, silently (B-8).
#[test]
fn the_image_mark_alone_acts_on_an_ordinary_node() {
    let pod = pod("OnFailure")
        .with(main_container("main").ended(0))
        .with(sidecar_with_image("sidecar", LISTED).running());
    swaps_in(ordinary, &pod, &[("sidecar", LISTED)]);
}
