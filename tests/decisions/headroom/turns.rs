//! Whom the ledger serves, in which order, and what room it leaves to others.

use swaplet_core::cluster::headroom::{Headroom, Need, Swapped};

use super::{done, done_at, granted, ledger, never_fits, of_job, reads, restarted};
use crate::builder::main_container;

/// `docs/measured.md`, "Restarts of all pods of a Job": five of twenty pods fit into the default
/// limit, and one restart is left to the sidecars of the others.
#[test]
fn four_pods_at_once_fit_into_the_default_limit_while_others_wait() {
    let pods = reads(
        &(10..30)
            .map(|nth| done(&format!("p{nth}")))
            .collect::<Vec<_>>(),
    );
    let mut ledger = ledger(6, &pods);
    assert_eq!(granted(&mut ledger, &pods, 1), ["p10", "p11", "p12", "p13"]);
    assert_eq!(ledger.waiting(), 16);
    let Headroom::Wait(shortage) = ledger.answer(&pods[19], 1) else {
        panic!("{:?}", ledger.answer(&pods[19], 1))
    };
    assert_eq!((shortage.restarts, shortage.under_way), (4, 4));

    ledger.take_wakes();
    ledger.observe(
        &done("p12").phase("Succeeded").read(),
        Swapped::default(),
        0,
    );
    assert_eq!(ledger.take_wakes(), ["p14".into()]);
    assert_eq!(ledger.answer(&pods[4], 1), Headroom::Fits);
    // A sidecar of one that waits is restarted: the next that ends makes no room.
    ledger.observe(
        &done("p29")
            .but("side", |side| side.status("restartCount", 1))
            .read(),
        Swapped::default(),
        0,
    );
    ledger.observe(
        &done("p10").phase("Succeeded").read(),
        Swapped::default(),
        0,
    );
    assert_eq!(ledger.take_wakes(), []);
    ledger.observe(
        &done("p11").phase("Succeeded").read(),
        Swapped::default(),
        0,
    );
    assert_eq!(ledger.take_wakes(), ["p15".into()]);
}

/// With nobody left who could need it, there is no rest.
#[test]
fn the_last_pods_take_all_the_room() {
    let pods = reads(&["a", "b", "c", "d", "e"].map(done));
    assert_eq!(
        granted(&mut ledger(6, &pods), &pods, 1),
        ["a", "b", "c", "d", "e"]
    );
}

#[test]
fn who_waits_is_served_in_the_order_in_which_the_mains_ended() {
    let pods = reads(&[
        done_at("first", 0),
        done_at("d", 5),
        done_at("c", 4),
        done_at("b", 5),
        done_at("a", 5),
    ]);
    let mut ledger = ledger(2, &pods);
    let mut order = granted(&mut ledger, &pods, 1);
    ledger.take_wakes();
    while let Some(last) = pods.iter().find(|pod| *pod.name == **order.last().unwrap()) {
        ledger.pod_gone(last);
        let woken = ledger.take_wakes();
        if woken.is_empty() {
            break;
        }
        order.extend(woken.iter().map(|uid| uid.to_string()));
    }
    assert_eq!(order, ["first", "c", "a", "b", "d"]);
}

/// A pod that needs much room is not passed by while others are under way; but where its own turn
/// cannot come, it blocks nobody.
#[test]
fn a_pod_that_needs_much_room_gets_it() {
    let pods = reads(&[
        done_at("one", 1),
        done_at("two", 2),
        done_at("big", 3),
        done_at("small", 4),
    ]);
    let mut ledger = ledger(4, &pods);
    assert_eq!(granted(&mut ledger, &pods[..2], 1), ["one", "two"]);
    ledger.need(&pods[2], Need::Swaps(3));
    ledger.need(&pods[3], Need::Swaps(1));
    assert!(
        matches!(ledger.answer(&pods[3], 1), Headroom::Wait(_)),
        "the small one passes the big one"
    );
    ledger.take_wakes();
    ledger.pod_gone(&pods[0]);
    assert_eq!(ledger.take_wakes(), []);
    ledger.pod_gone(&pods[1]);
    assert_eq!(ledger.take_wakes(), ["big".into()]);
    assert_eq!(ledger.answer(&pods[2], 3), Headroom::Fits);
}

#[test]
fn a_pod_that_other_pods_leave_no_room_passes_on_its_turn() {
    let other = restarted(of_job("other").with(main_container("main").running()), 2).read();
    let pods = [done_at("big", 1).read(), done_at("small", 2).read(), other];
    let mut ledger = ledger(4, &pods);
    ledger.need(&pods[0], Need::Swaps(2));
    assert_eq!(never_fits(&ledger.answer(&pods[0], 2)), 5);
    ledger.need(&pods[1], Need::Swaps(1));
    assert_eq!(ledger.answer(&pods[1], 1), Headroom::Fits);
    assert!(
        matches!(ledger.answer(&pods[0], 2), Headroom::Wait(_)),
        "the small one will end, and then it is said again"
    );
    ledger.take_wakes();
    ledger.pod_gone(&pods[1]);
    assert_eq!(ledger.take_wakes(), ["big".into()]);
    ledger.pod_gone(&pods[2]);
    assert_eq!(ledger.take_wakes(), ["big".into()]);
    assert_eq!(ledger.answer(&pods[0], 2), Headroom::Fits);
}

/// A main that fails meanwhile is restarted, and that must not be one restart too many.
#[test]
fn while_mains_run_half_of_the_room_is_left_to_them() {
    let mut pods = reads(
        &(10..20)
            .map(|nth| done(&format!("p{nth}")))
            .collect::<Vec<_>>(),
    );
    pods.push(of_job("runs").with(main_container("main").running()).read());
    let mut ledger = ledger(6, &pods);
    assert_eq!(granted(&mut ledger, &pods[..10], 1), ["p10", "p11", "p12"]);
    ledger.take_wakes();
    ledger.observe(
        &restarted(of_job("runs").with(main_container("main").running()), 2).read(),
        Swapped::default(),
        0,
    );
    assert_eq!(ledger.answer(&pods[0], 1), Headroom::Fits);
    ledger.observe(
        &of_job("runs")
            .with(main_container("main").ended(0))
            .phase("Succeeded")
            .read(),
        Swapped::default(),
        0,
    );
    assert_eq!(ledger.take_wakes(), ["p13".into()]);
}

/// The first swap of a Job may take all its room, but not from a main that runs, if its pod has
/// another end.
#[test]
fn the_last_restart_is_left_to_a_main_that_runs_where_the_phase_ends_the_pod() {
    let runs = of_job("runs").with(main_container("main").running());
    for (limit, swaps, spares) in [(2, 1, true), (3, 1, false), (3, 2, true), (6, 4, false)] {
        let pods = [done("a").read(), runs.read()];
        let mut ledger = ledger(limit, &pods);
        assert_eq!(ledger.answer(&pods[0], swaps), Headroom::Fits);
        let sparing = ledger.answer_sparing(&pods[0], swaps);
        if spares {
            assert_eq!(never_fits(&sparing), i64::from(limit) + 1);
        } else {
            assert_eq!(sparing, Headroom::Fits, "limit {limit}, {swaps} swaps");
        }
        // Once no main runs, nothing has to be left.
        ledger.observe(&done("runs").read(), Swapped::default(), 0);
        assert_eq!(ledger.answer_sparing(&pods[0], swaps), Headroom::Fits);
    }
}

/// A main that has failed since the grant has used what was left to it; what may be written is not
/// asked for in vain.
#[test]
fn what_was_granted_is_not_taken_from_a_main_that_has_failed_since() {
    let runs = of_job("runs").with(main_container("main").running());
    let pods = [done("a").read(), runs.read()];
    for held in [false, true] {
        let mut ledger = ledger(3, &pods);
        ledger.need(&pods[0], Need::Swaps(1));
        assert_eq!(ledger.answer_sparing(&pods[0], 1), Headroom::Fits);
        if held {
            ledger.need(&pods[0], Need::Held);
        }
        ledger.observe(&restarted(runs.clone(), 1).read(), Swapped::default(), 0);
        let answer = ledger.answer_sparing(&pods[0], 1);
        if held {
            assert_eq!(answer, Headroom::Fits);
        } else {
            assert_eq!(never_fits(&answer), 4);
        }
    }
}

/// What was granted and not begun is taken back when containers restart meanwhile; what may be
/// written is not.
#[test]
fn restarts_after_the_grant_take_it_back() {
    let pods = reads(&[done("a"), done("b"), done("c")]);
    let mut ledger = ledger(4, &pods);
    assert_eq!(granted(&mut ledger, &pods, 1), ["a", "b", "c"]);
    ledger.need(&pods[2], Need::Held);
    ledger.observe(&restarted(done("a"), 1).read(), Swapped::default(), 0);
    assert!(
        pods[..2]
            .iter()
            .all(|pod| matches!(ledger.answer(pod, 1), Headroom::Wait(_)))
    );
    assert_eq!(ledger.answer(&pods[2], 1), Headroom::Fits);
    ledger.take_wakes();
    ledger.pod_gone(&pods[2]);
    assert_eq!(ledger.take_wakes(), ["a".into(), "b".into()]);
}
