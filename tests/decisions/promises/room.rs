//! Pods that wait for room in their Job: the wait has an end, and room is given back.

use std::time::Duration;

use serde_json::json;
use swaplet_core::cluster::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::UnderNever;
use swaplet_core::report::decision::{Decision, Method};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::{Memory, QUICK_DENIED_RETRIES};
use swaplet_core::terminate::methods::AllowedMethods;

use super::{FINISH, NEVER_FINISH, QUIET_SECONDS, finishes, swapped_names, under};
use crate::builder::{ContainerBuilder, PodBuilder, sidecar};
use crate::expect::{EXIT, Life, moment};
use crate::headroom::{done, job, ledger};

/// How long a pod waits for others of its Job that do not get on, with the default grace period.
const LINE_STANDS: u64 = 30 + 60 + 120;

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
            ..Swapped::default()
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
    assert_eq!(waits.again, Some(moment(LINE_STANDS)));
    life.later(LINE_STANDS - 1)
        .assert_silent(&done("b"), Reason::HeadroomWait);
    let decision = life.later(1).sees(&done("b"));
    assert!(
        finishes(&decision).contains("NoHeadroom")
            && finishes(&decision).contains("has waited 210 s"),
        "{decision:?}"
    );
}

/// A pod that needs two restarts where others that need one come again and again: each of these
/// fits, so the line moves, and its own wait has an end all the same.
#[test]
fn a_pod_that_needs_more_room_than_others_does_not_wait_for_as_long_as_these_come() {
    let two = done("b").with(sidecar("second").running());
    let mut life = Life {
        headroom: ledger(4, &[done("c").read()]),
        ..under(FINISH)
    };
    // Each of its sidecars may take its grace period.
    for nth in 0..LINE_STANDS + 30 {
        let next = done(&format!("p{nth}")).read();
        life.headroom.observe(&next, Swapped::default(), 0);
        assert_eq!(life.headroom.answer(&next, 1), Headroom::Fits);
        life.headroom.need(&next, Need::Begun(1));
        life.assert_silent(&two, Reason::HeadroomWait);
        if nth > 0 {
            life.headroom
                .pod_gone(&done(&format!("p{}", nth - 1)).read());
        }
        life.later(1);
    }
    finishes(&life.sees(&two));
}

/// Room that comes is still taken.
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
            ..Swapped::default()
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
    headroom.need(&pod.read(), Need::Waits(1));
    headroom.answer(&pod.read(), 1)
}

// ---- the last restart of a Job

/// A crash of the other main would fail the Job, and without the swap it would be one retry.
#[test]
fn the_last_restart_is_left_to_a_main_that_runs_where_the_pod_can_be_finished() {
    let runs = done("runs").but("main", ContainerBuilder::running).read();
    let beside = |allowed| Life {
        headroom: ledger(2, std::slice::from_ref(&runs)),
        ..under(allowed)
    };
    let mut life = beside(FINISH);
    life.assert_silent(&done("b"), Reason::FinishWaits);
    let decision = life.later(QUIET_SECONDS).sees(&done("b"));
    let note = finishes(&decision);
    assert!(
        note.contains(
            "swapping its sidecars could fail the Job: 0 restarts count, 1 more would be added, 1 is left to main containers that run, and it fails at 2 \
             (backoffLimit 2)"
        ) && !note.contains("Raise"),
        "{note}"
    );
    assert_eq!(decision.swaps_wanted, 0, "it waits for no room");

    let mut alone = beside(FINISH);
    alone
        .headroom
        .observe(&done("runs").read(), Swapped::default(), 0);
    assert_eq!(swapped_names(&alone.sees(&done("b"))), ["side"]);
    // It has no other end.
    assert_eq!(
        swapped_names(&beside(NEVER_FINISH).sees(&done("b"))),
        ["side"]
    );
}

/// A phase that the API server does not let us write ends no pod.
#[test]
fn the_last_restart_is_taken_where_the_phase_is_denied() {
    let runs = done("runs").but("main", ContainerBuilder::running).read();
    let mut life = Life {
        headroom: ledger(2, std::slice::from_ref(&runs)),
        ..under(FINISH)
    };
    let deny = |life: &mut Life| {
        let (words, longest) = ("no".into(), Duration::from_secs(900));
        life.memory
            .denied
            .remember(Method::Finish, words, life.now, longest);
    };
    for _ in 0..QUICK_DENIED_RETRIES {
        deny(&mut life);
    }
    life.assert_silent(&done("b"), Reason::FinishWaits);
    deny(&mut life);
    assert_eq!(swapped_names(&life.sees(&done("b"))), ["side"]);
}

// ---- bug 6: room is given back

#[test]
fn bug6_a_pod_that_its_job_lets_go_leaves_the_account() {
    let swapped = Swapped {
        containers: 1,
        coming: 1,
        ..Swapped::default()
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
            ..Swapped::default()
        },
        0,
    );
    ledger_with(&mut ledger, &done("b"));
    ledger.take_wakes();
    ledger.pod_gone(&done("a").set("/metadata/ownerReferences", json!([])).read());
    assert_eq!(ledger.take_wakes(), ["b".into()]);
    assert!(!ledger.has("a") && ledger.has("b"));
}

// ---- under Never

/// A pod of the Job under `Never` whose work is done.
fn under_never(name: &str) -> PodBuilder {
    done(name).set("/spec/restartPolicy", "Never")
}

/// Looks at a pod of which nothing is remembered.
fn first_sees(life: &mut Life, pod: &PodBuilder) -> Decision {
    life.memory = Memory::default();
    life.sees(pod)
}

/// As if the swap of this pod had been written: the pod afterwards.
fn swap_begins(life: &mut Life, name: &str) -> PodBuilder {
    life.memory = Memory::default();
    let after = life.swaps(&under_never(name));
    life.headroom
        .need(&under_never(name).read(), Need::Begun(1));
    after
}

/// It shows a failed pull when the pod is lost, and by then the others would be swapped.
#[test]
fn u228_under_never_no_more_pods_are_swapped_at_once_than_their_job_bears_to_fail() {
    let mut life = Life {
        headroom: ledger(2, &[]),
        ..under(FINISH)
    };
    let a = swap_begins(&mut life, "a");
    life.assert_silent(&a, Reason::SwapPending);
    let b = swap_begins(&mut life, "b");
    assert_eq!(
        first_sees(&mut life, &under_never("c")).reason,
        Reason::FinishWaits
    );
    let decision = life.later(QUIET_SECONDS).sees(&under_never("c"));
    let note = finishes(&decision);
    assert!(
        note.contains("; NoHeadroom: a swap under Never") && note.contains(": 2 more of its pods"),
        "{note}"
    );
    // Nobody waits, and one that is swapped goes on.
    assert_eq!((life.headroom.waiting(), decision.swaps_wanted), (0, 0));
    let more = a.clone().with(sidecar("more").running());
    assert_eq!(swapped_names(&first_sees(&mut life, &more)), ["more"]);
    life.headroom
        .observe(&b.phase("Succeeded").read(), Swapped::default(), 0);
    assert_eq!(
        swapped_names(&first_sees(&mut life, &under_never("c"))),
        ["side"]
    );
    // The Job may be shown after the pod: until it is gone, it may not have been counted.
    let failed = a.phase("Failed").read();
    life.headroom.observe(&failed, Swapped::default(), 0);
    swap_begins(&mut life, "c");
    assert_eq!(
        first_sees(&mut life, &under_never("d")).reason,
        Reason::FinishWaits
    );
    life.headroom.pod_gone(&failed);
    assert_eq!(
        swapped_names(&first_sees(&mut life, &under_never("d"))),
        ["side"]
    );
}

#[test]
fn u228_where_the_job_bears_no_failure_the_phase_ends_its_pods_and_where_it_may_not_a_swap() {
    let side =
        |pod: PodBuilder, policy: &str| pod.but("side", |side| side.spec("restartPolicy", policy));
    let life = |allowed| Life {
        headroom: ledger(0, &[]),
        ..under(allowed)
    };
    let own = side(done("a"), "Never");
    // A kubelet before 1.35 goes by the policy of the pod.
    let other = side(under_never("a"), "OnFailure");
    for pod in [&under_never("a"), &other] {
        life(FINISH).assert_silent(pod, Reason::FinishWaits);
        assert_eq!(swapped_names(&life(NEVER_FINISH).sees(pod)), ["side"]);
    }
    let mut counted = life(FINISH);
    counted.assert_silent(&own, Reason::FinishWaits);
    // No work is lost, the node is none that judges the pod so, or there is no Job to fail.
    let failed = under_never("a").but("main", |main| main.ended(1));
    let alone = under_never("a").set("/metadata/ownerReferences", json!([]));
    let crashed = under_never("a").with(sidecar("metrics").ended(1));
    for pod in [&failed, &alone, &crashed] {
        assert_eq!(swapped_names(&life(FINISH).sees(pod)), ["side"]);
    }
    let mut virtual_node = life(FINISH);
    virtual_node.node = NodeClass::VirtualUpdates;
    virtual_node.facts.under_never = UnderNever::Yes;
    let decision = virtual_node.sees(&under_never("a"));
    assert_eq!(swapped_names(&decision), ["side"]);
    // One that has failed will count as well.
    let mut beside = Life {
        headroom: ledger(1, &[failed.set("/metadata/uid", "failed").read()]),
        ..under(FINISH)
    };
    beside.assert_silent(&under_never("b"), Reason::FinishWaits);
}

#[test]
fn u245_a_pod_that_fails_by_its_main_counts_until_its_job_may_have_counted_it() {
    let fails = under_never("a").but("main", |main| main.ended(1));
    let mut life = Life {
        headroom: ledger(1, &[fails.read()]),
        ..under(FINISH)
    };
    let failed = fails.but("side", |side| side.ended(0)).phase("Failed");
    life.headroom.observe(&failed.read(), Swapped::default(), 0);
    life.assert_silent(&under_never("b"), Reason::FinishWaits);
    // Its Job, which allows more by then, has counted it.
    for (limit, borne) in [(1, 0), (2, 1)] {
        life.headroom.job(&job(limit, borne));
    }
    let decision = first_sees(&mut life, &under_never("b"));
    assert_eq!(swapped_names(&decision), ["side"]);
    life.headroom.pod_gone(&failed.read());
    let decision = first_sees(&mut life, &under_never("b"));
    assert_eq!(swapped_names(&decision), ["side"]);
}

/// The sidecar that the node stops shows that as a failure.
#[test]
fn u246_a_pod_that_the_phase_has_ended_is_at_no_risk() {
    let ended = |name: &str| {
        let pod = under_never(name).but("side", |side| side.ended(143));
        pod.phase("Succeeded").read()
    };
    let mut life = Life {
        headroom: ledger(2, &[]),
        ..under(FINISH)
    };
    for name in ["a", "b"] {
        life.headroom
            .observe_finished(&ended(name), Swapped::default(), 0);
    }
    let decision = first_sees(&mut life, &under_never("c"));
    assert_eq!(swapped_names(&decision), ["side"]);
    // One that was swapped before may still be judged by that.
    let swapped = Swapped {
        containers: 1,
        ..Swapped::default()
    };
    for name in ["d", "e"] {
        life.headroom.observe_finished(&ended(name), swapped, 0);
    }
    life.assert_silent(&under_never("f"), Reason::FinishWaits);
}

#[test]
fn u228_a_job_that_is_not_observed_yet_is_waited_for_and_one_that_cannot_be_read_says_nothing() {
    let sees = |headroom: Ledger| {
        let mut life = Life {
            headroom,
            ..under(FINISH)
        };
        life.sees(&under_never("a")).reason
    };
    let mut listed = ledger(6, &[]);
    listed.pod_list_starts();
    let mut unreadable = Ledger::default();
    unreadable.jobs_trouble("jobs is forbidden");
    // Once they are, it is asked at once.
    let mut relisted = listed.clone();
    relisted.observe(&under_never("a").read(), Swapped::default(), 0);
    relisted.pod_list_ends(0);
    assert_eq!(relisted.take_wakes(), ["a".into()]);
    let mut gone = ledger(6, &[]);
    gone.job_list_starts();
    gone.job_list_ends();
    for (headroom, reason) in [
        (Ledger::default(), Reason::HeadroomWait),
        (listed, Reason::HeadroomWait),
        (gone, Reason::JobUnknown),
        (relisted, Reason::SidecarSwapped),
        (unreadable, Reason::SidecarSwapped),
        (ledger(6, &[]), Reason::SidecarSwapped),
    ] {
        assert_eq!(sees(headroom), reason);
    }
}
