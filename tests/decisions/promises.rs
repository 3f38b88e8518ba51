//! No Job waits for ever or fails by us: what a pod does when its way is closed, one test for each
//! finding.

use std::time::Duration;

use serde_json::json;
use swaplet_core::cluster::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet_core::objects::pod::Phase;
use swaplet_core::report::decision::{Action, Decision, Method};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::denials::QUICK_DENIED_RETRIES;
use swaplet_core::terminate::memory::finish_record::QUIET;
use swaplet_core::terminate::methods::AllowedMethods;

use crate::builder::{PodBuilder, main_container, pod, sidecar, sidecar_with_image};
use crate::expect::{DIGEST, EXIT, LISTED, Life};
use crate::headroom::{done, ledger};

const FINISH: AllowedMethods = AllowedMethods {
    prefer: None,
    finish: true,
    recreate: false,
    swap_under_never: false,
};
const NEVER_FINISH: AllowedMethods = AllowedMethods {
    finish: false,
    ..FINISH
};
/// How long a pod waits for others of its Job that do not get on, with the default grace period.
const LINE_STANDS: u64 = 30 + 60 + 120;
const QUIET_SECONDS: u64 = QUIET.as_secs();

fn under(allowed: AllowedMethods) -> Life {
    Life {
        allowed,
        ..Life::new()
    }
}

#[track_caller]
fn finishes(decision: &Decision) -> &str {
    assert!(
        matches!(&decision.action, Some(Action::Finish(finish)) if finish.phase == Phase::Succeeded),
        "{decision:?}"
    );
    &decision.done.as_ref().unwrap().note
}

fn swapped_names(decision: &Decision) -> Vec<&str> {
    decision
        .swaps()
        .iter()
        .map(|swap| &*swap.container)
        .collect()
}

// ---- bug 7: waiting for room has an end

/// A life in whose view another pod of the Job was swapped and does not end, and there is no room
/// for a second.
fn behind_one_that_does_not_end(allowed: AllowedMethods) -> Life {
    let stuck = done("stuck").but("side", |side| side.image(EXIT)).read();
    let mut headroom = ledger(2, &[]);
    headroom.observe(
        &stuck,
        Swapped {
            containers: 1,
            coming: 1,
        },
        0,
    );
    Life {
        headroom,
        ..under(allowed)
    }
}

#[test]
fn bug7_a_pod_whose_line_stands_takes_the_next_method() {
    let mut life = behind_one_that_does_not_end(FINISH);
    let waits = life.assert_silent(&done("b"), Reason::HeadroomWait);
    assert_eq!(waits.again, Some(Duration::from_secs(LINE_STANDS)));
    life.later(LINE_STANDS - 1)
        .assert_silent(&done("b"), Reason::HeadroomWait);
    let decision = life.later(1).sees(&done("b"));
    assert!(
        finishes(&decision).contains("NoHeadroom")
            && finishes(&decision).contains("have not ended in 210 s"),
        "{decision:?}"
    );
}

#[test]
fn bug7_a_line_that_gets_on_is_waited_for() {
    let mut life = behind_one_that_does_not_end(FINISH);
    life.assert_silent(&done("b"), Reason::HeadroomWait);
    life.later(LINE_STANDS).line_moved = Some(Duration::from_secs(LINE_STANDS - 10));
    let waits = life.assert_silent(&done("b"), Reason::HeadroomWait);
    assert_eq!(waits.again, Some(Duration::from_secs(2 * LINE_STANDS - 10)));
}

/// The pod stays in line: room that comes is still taken.
#[test]
fn bug7_where_no_method_is_left_it_is_told_with_the_fix() {
    let mut life = behind_one_that_does_not_end(NEVER_FINISH);
    life.assert_silent(&done("b"), Reason::HeadroomWait);
    let decision = life.later(LINE_STANDS).sees(&done("b"));
    assert_eq!(
        (decision.reason, &decision.action, decision.swaps_wanted),
        (Reason::NoHeadroom, &None, 1),
        "{decision:?}"
    );
    let note = &decision.reports[0].note;
    assert!(
        note.contains("a node dead")
            && note.contains("backoffLimit to at least 3")
            && note.contains("--finish=never"),
        "{note}"
    );
    life.headroom.pod_gone(&done("stuck").read());
    assert_eq!(swapped_names(&life.sees(&done("b"))), ["side"]);
}

#[test]
fn bug7_a_list_that_does_not_end_has_an_end_as_well() {
    let mut headroom = ledger(2, &[]);
    headroom.pod_list_starts();
    let mut life = Life {
        headroom,
        ..under(FINISH)
    };
    life.assert_silent(&done("b"), Reason::HeadroomWait);
    let decision = life.later(LINE_STANDS).sees(&done("b"));
    assert!(
        finishes(&decision).contains("still being listed"),
        "{decision:?}"
    );
}

/// A pod that is being deleted mostly goes within its grace period, and on a dead node never.
#[test]
fn bug7_a_pod_that_is_being_deleted_is_waited_for_as_long_as_deletion_takes() {
    let leaving = done("stuck")
        .but("side", |side| side.image(EXIT))
        .deleting()
        .read();
    let mut headroom = ledger(2, &[]);
    headroom.observe(
        &leaving,
        Swapped {
            containers: 1,
            coming: 1,
        },
        0,
    );
    let Headroom::Wait(shortage) = ledger_with(&mut headroom, &done("b")) else {
        panic!("it does not wait")
    };
    assert_eq!(
        (shortage.under_way, shortage.restarts),
        (0, 1),
        "it makes room only by going"
    );

    let mut life = Life {
        headroom,
        ..under(FINISH)
    };
    life.assert_silent(&done("b"), Reason::HeadroomWait);
    life.later(59)
        .assert_silent(&done("b"), Reason::HeadroomWait);
    finishes(&life.later(1).sees(&done("b")));
}

fn ledger_with(headroom: &mut Ledger, pod: &PodBuilder) -> Headroom {
    headroom.observe(&pod.read(), Swapped::default(), 0);
    headroom.need(&pod.read(), Need::Swaps(1));
    headroom.answer(&pod.read(), 1)
}

// ---- bug 6: room is given back

#[test]
fn bug6_a_pod_that_its_job_lets_go_leaves_the_account() {
    let swapped = Swapped {
        containers: 1,
        coming: 1,
    };
    let held = done("a").but("side", |side| side.image(EXIT));
    for owners in [
        json!([]),
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "other", "controller": true}]),
    ] {
        let mut ledger = ledger(2, &[]);
        ledger.observe(&held.read(), swapped, 0);
        assert!(matches!(
            ledger_with(&mut ledger, &done("b")),
            Headroom::Wait(_)
        ));
        ledger.take_wakes();
        ledger.observe(
            &held.clone().set("/metadata/ownerReferences", owners).read(),
            swapped,
            0,
        );
        assert_eq!(
            ledger.take_wakes(),
            ["b".into()],
            "its room is given to the next"
        );
        assert_eq!(ledger.answer(&done("b").read(), 1), Headroom::Fits);
    }
}

#[test]
fn bug6_a_pod_that_is_gone_is_taken_out_of_the_account_that_it_was_in() {
    let mut ledger = ledger(2, &[]);
    ledger.observe(
        &done("a").but("side", |side| side.image(EXIT)).read(),
        Swapped {
            containers: 1,
            coming: 1,
        },
        0,
    );
    ledger_with(&mut ledger, &done("b"));
    ledger.take_wakes();
    ledger.pod_gone(&done("a").set("/metadata/ownerReferences", json!([])).read());
    assert_eq!(ledger.take_wakes(), ["b".into()]);
    assert!(!ledger.has("a") && ledger.has("b"));
}

// ---- bug 11: a denied swap

fn denied(life: &mut Life, times: u32) {
    for _ in 0..times {
        let words = "the API server forbids to change the image of log: no".into();
        life.memory
            .denied
            .remember(Method::Swap, words, life.now, Duration::from_secs(900));
    }
}

fn ready(policy: &str) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar("log").running())
}

#[test]
fn bug11_a_swap_that_is_denied_again_leads_on_to_the_next_method() {
    let mut life = under(FINISH);
    denied(&mut life, QUICK_DENIED_RETRIES);
    assert_eq!(
        swapped_names(&life.sees(&ready("Never"))),
        ["log"],
        "they may be of the moment"
    );
    denied(&mut life, 1);
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    let decision = life.later(QUIET_SECONDS).sees(&ready("Never"));
    assert!(
        finishes(&decision).contains("WriteDenied: the API server forbids"),
        "{decision:?}"
    );
}

#[test]
fn bug11_where_nothing_else_is_allowed_it_is_told_and_tried_again_later() {
    let mut life = under(NEVER_FINISH);
    denied(&mut life, QUICK_DENIED_RETRIES + 1);
    let decision = life.sees(&ready("Never"));
    assert_eq!(
        (decision.reason, decision.again),
        (Reason::WriteDenied, Some(Duration::from_secs(60))),
        "{decision:?}"
    );
    assert_eq!(decision.reports.len(), 1);
    assert_eq!(
        swapped_names(&life.later(60).sees(&ready("Never"))),
        ["log"]
    );
}

/// Two pods of a namespace speak for the others, for ten minutes, and one that is allowed ends it.
#[test]
fn bug11_what_a_namespace_may_not_have_is_not_asked_for_by_each_of_its_pods() {
    let mut life = under(NEVER_FINISH);
    let other = |uid: &str| ready("Never").set("/metadata/uid", uid).read();
    life.image_troubles.denied(&other("a"), EXIT, life.now);
    life.image_troubles.denied(&other("a"), EXIT, life.now);
    assert_eq!(
        swapped_names(&life.sees(&ready("Never"))),
        ["log"],
        "one pod alone may be forbidden something of its own"
    );
    life.image_troubles.denied(&other("b"), EXIT, life.now);
    let decision = life.sees(&ready("Never"));
    assert_eq!(
        (decision.reason, &decision.action),
        (Reason::WriteDenied, &None),
        "{decision:?}"
    );
    assert_eq!(
        swapped_names(&life.sees(&ready("Never").set("/metadata/namespace", "other"))),
        ["log"]
    );
    life.image_troubles.allowed(&other("c"), EXIT);
    assert_eq!(swapped_names(&life.sees(&ready("Never"))), ["log"]);
    life.image_troubles.denied(&other("a"), EXIT, life.now);
    life.image_troubles.denied(&other("b"), EXIT, life.now);
    assert_eq!(
        swapped_names(&life.later(601).sees(&ready("Never"))),
        ["log"]
    );
}

// ---- V3: an exit image that cannot be pulled

fn named(policy: &str, uid: &str, node: &str) -> PodBuilder {
    ready(policy)
        .set("/metadata/uid", uid)
        .set("/spec/nodeName", node)
}

/// A pod that was swapped, on a node that cannot pull the exit image.
fn cannot_pull(life: &mut Life, uid: &str, node: &str) {
    let (pod, stuck) = stuck(life, uid, node);
    life.image_troubles.observe(&stuck.read(), &pod, life.now);
}

fn stuck(
    life: &Life,
    uid: &str,
    node: &str,
) -> (swaplet_core::terminate::memory::Memory, PodBuilder) {
    let pod = named("OnFailure", uid, node);
    let mut memory = swaplet_core::terminate::memory::Memory::default();
    memory.swapped(
        &pod.read().containers[1],
        pod.image_of("log"),
        EXIT,
        life.now,
    );
    let what = format!("Back-off pulling image \"{EXIT}\"");
    (
        memory,
        pod.but("log", |log| {
            log.image(EXIT).waiting("ImagePullBackOff", &what)
        }),
    )
}

/// It is pulled after all: another container, of the exit image, has ended.
fn pulls_at_last(life: &mut Life, uid: &str, node: &str) {
    let (memory, stuck) = stuck(life, uid, node);
    let ended = stuck.but("log", |log| log.ended(0).restarted_as(EXIT, 1));
    life.image_troubles
        .observe(&ended.read(), &memory, life.now);
}

fn swaps_on(life: &mut Life, policy: &str, node: &str) -> bool {
    life.memory = swaplet_core::terminate::memory::Memory::default();
    let pod = named(policy, "asks", node).read();
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

// ---- D2: owners that count restarts

fn owned(policy: &str, api_version: &str, kind: &str) -> PodBuilder {
    ready(policy)
        .set("/metadata/ownerReferences", json!([{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o", "controller": true}]))
}

#[test]
fn d2_pods_of_an_owner_that_counts_restarts_are_finished_first() {
    let counting = [
        ("apps.kruise.io/v1alpha1", "BroadcastJob"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("example.com/v1", "Whatever"),
    ];
    for (version, kind) in counting {
        let mut life = under(FINISH);
        life.assert_silent(&owned("OnFailure", version, kind), Reason::FinishWaits);
        finishes(
            &life
                .later(QUIET_SECONDS)
                .sees(&owned("OnFailure", version, kind)),
        );
        // Nobody counts restarts under Never.
        assert_eq!(
            swapped_names(&under(FINISH).sees(&owned("Never", version, kind))),
            ["log"]
        );
        let mut prefers = under(AllowedMethods {
            prefer: Some(Method::Swap),
            ..FINISH
        });
        let decision = prefers.sees(&owned("OnFailure", version, kind));
        assert_eq!(
            decision.reason == Reason::SidecarSwapped,
            version.contains("volcano") || version.contains("example"),
            "{decision:?}"
        );
    }
    assert_eq!(
        swapped_names(&under(FINISH).sees(&ready("OnFailure"))),
        ["log"],
        "nobody owns it"
    );
}

#[test]
fn d2_without_finish_an_owner_that_counts_is_told_and_an_unknown_one_swapped_with_a_word() {
    let note = under(NEVER_FINISH).tells(
        &owned("OnFailure", "apps.kruise.io/v1alpha1", "BroadcastJob"),
        Reason::NoHeadroom,
    );
    assert!(
        note.contains("BroadcastJob, counts restarts") && note.contains("--finish=never"),
        "{note}"
    );
    let decision = under(NEVER_FINISH).sees(&owned("OnFailure", "example.com/v1", "Whatever"));
    assert_eq!(swapped_names(&decision), ["log"]);
    let note = decision.done.unwrap().note;
    assert!(
        note.contains("a Whatever of example.com, which swaplet does not know"),
        "{note}"
    );
}

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
        life.tells(&ended, Reason::ExitImageNotPulled)
            .contains("container log")
    );
    let digest = format!("{EXIT}@{DIGEST}");
    assert!(
        life.image_troubles
            .not_pulled_until(&named("Never", "x", "node-1").read(), &digest, life.now)
            .is_some(),
        "the same image"
    );
}
