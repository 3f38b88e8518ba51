//! Whom the ledger serves, in which order, and what room it leaves to others.

use swaplet_core::cluster::headroom::{Headroom, Need, Swapped};

use super::{begun, done, done_at, ledger, never_fits, of_job, reads, restarted};
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
    assert_eq!(begun(&mut ledger, &pods, 1), ["p10", "p11", "p12", "p13"]);
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
    ledger.need(&pods[4], Need::Begun(1));
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
        begun(&mut ledger(6, &pods), &pods, 1),
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
    let mut order = begun(&mut ledger, &pods, 1);
    ledger.take_wakes();
    let find = |name: &str| pods.iter().find(|pod| *pod.name == *name).unwrap();
    loop {
        ledger.pod_gone(find(order.last().unwrap()));
        let woken = ledger.take_wakes();
        let Some(next) = woken.first() else { break };
        assert_eq!(woken.len(), 1);
        ledger.need(find(next), Need::Begun(1));
        order.push(next.to_string());
    }
    assert_eq!(order, ["first", "c", "a", "b", "d"]);
}

/// A pod that needs much room is woken before later ones that need less while others are under way;
/// but where its own turn cannot come, it blocks nobody.
#[test]
fn a_pod_that_needs_much_room_gets_it() {
    let pods = reads(&[
        done_at("one", 1),
        done_at("two", 2),
        done_at("big", 3),
        done_at("small", 4),
    ]);
    let mut ledger = ledger(4, &pods);
    assert_eq!(begun(&mut ledger, &pods[..2], 1), ["one", "two"]);
    ledger.need(&pods[2], Need::Waits(3));
    ledger.need(&pods[3], Need::Waits(1));
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
    ledger.need(&pods[0], Need::Waits(2));
    assert_eq!(never_fits(&ledger.answer(&pods[0], 2)), 5);
    assert_eq!(ledger.answer(&pods[1], 1), Headroom::Fits);
    ledger.need(&pods[1], Need::Begun(1));
    assert!(
        matches!(ledger.answer(&pods[0], 2), Headroom::Wait(_)),
        "the small one will end, and then it is said again"
    );
    ledger.take_wakes();
    ledger.need(&pods[0], Need::Waits(2));
    ledger.pod_gone(&pods[1]);
    assert_eq!(ledger.take_wakes(), ["big".into()]);
    ledger.need(&pods[0], Need::Waits(2));
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
    assert_eq!(begun(&mut ledger, &pods[..10], 1), ["p10", "p11", "p12"]);
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

/// A main that has failed since the answer has used what was left to it; what may be written is not
/// asked for in vain.
#[test]
fn what_fitted_is_not_taken_from_a_main_that_has_failed_since() {
    let runs = of_job("runs").with(main_container("main").running());
    let pods = [done("a").read(), runs.read()];
    for held in [false, true] {
        let mut ledger = ledger(3, &pods);
        assert_eq!(ledger.answer_sparing(&pods[0], 1), Headroom::Fits);
        if held {
            ledger.need(&pods[0], Need::Begun(1));
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

/// What fits and has not begun takes no room from others, and is answered anew when containers
/// restart meanwhile; what may be written keeps its room.
#[test]
fn only_what_has_begun_takes_room() {
    let pods = reads(&[done("a"), done("b"), done("c")]);
    let mut ledger = ledger(3, &pods);
    assert!(
        pods.iter()
            .all(|pod| ledger.answer(pod, 2) == Headroom::Fits)
    );
    ledger.need(&pods[2], Need::Begun(1));
    ledger.observe(&restarted(done("a"), 1).read(), Swapped::default(), 0);
    for pod in &pods[..2] {
        assert!(matches!(ledger.answer(pod, 1), Headroom::Wait(_)));
        ledger.need(pod, Need::Waits(1));
    }
    assert_eq!(ledger.answer(&pods[2], 1), Headroom::Fits);
    ledger.take_wakes();
    ledger.pod_gone(&pods[2]);
    assert_eq!(ledger.take_wakes(), ["a".into()], "there is room for one");
}

/// Two pods are half-way, and more restarts count than were foreseen: neither waits for the other.
/// Whoever still fits goes first, and where nobody does each is told.
#[test]
fn pods_that_are_half_way_do_not_wait_for_each_other() {
    let pods = reads(&[done("a"), done("b"), done("c"), done("d")]);
    let half_way = Swapped {
        containers: 1,
        coming: 0,
        left: 2,
    };
    for (limit, needs, fits) in [(4, 2, false), (5, 2, true)] {
        let mut ledger = ledger(limit, &pods[2..]);
        for pod in &pods[..2] {
            let shown = restarted(done(&pod.name), 1).read();
            ledger.observe(&shown, half_way, 0);
        }
        for pod in &pods[..2] {
            let answer = ledger.answer(pod, needs);
            if fits {
                assert_eq!(answer, Headroom::Fits, "limit {limit}");
            } else {
                assert_eq!(never_fits(&answer), 5, "limit {limit}");
            }
        }
        let answer = ledger.answer(&pods[2], 3);
        if fits {
            assert!(matches!(answer, Headroom::Wait(_)), "{answer:?}");
            ledger.need(&pods[0], Need::Begun(2));
            assert!(matches!(ledger.answer(&pods[1], 2), Headroom::Wait(_)));
        } else {
            assert_eq!(never_fits(&answer), 6, "nobody ends by a swap");
        }
    }
}

/// An answer is a function of the sums and of the pod: whoever waits, and for how much, changes none.
#[test]
fn waiting_changes_no_answer() {
    let pods = reads(&["a", "b", "c", "d"].map(done));
    let mut ledger = ledger(4, &pods);
    ledger.need(&pods[0], Need::Begun(2));
    let answers = |ledger: &swaplet_core::cluster::headroom::Ledger| {
        Vec::from_iter(
            pods[1..]
                .iter()
                .flat_map(|pod| (1..4).map(|swaps| ledger.answer(pod, swaps))),
        )
    };
    let before = answers(&ledger);
    for (pod, swaps) in pods[1..].iter().zip([3, 1, 2]) {
        ledger.need(pod, Need::Waits(swaps));
        assert_eq!(answers(&ledger), before);
    }
}
