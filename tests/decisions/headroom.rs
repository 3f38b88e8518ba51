//! What the ledger counts, and whom it serves.

mod known;
mod turns;

use serde_json::{Value, json};
use swaplet_core::cluster::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet_core::objects::job::Job;
use swaplet_core::objects::pod::Pod;

use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::EXIT;

pub const JOB: &str = "job-uid";

fn owner(change: &Value) -> Value {
    let mut owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": JOB, "controller": true});
    owner
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    json!([owner])
}

/// A pod of the Job whose main is done and whose sidecar runs.
pub fn done(name: &str) -> PodBuilder {
    of_job(name)
        .with(main_container("main").ended(0))
        .with(sidecar("side").running())
}

fn of_job(name: &str) -> PodBuilder {
    pod("OnFailure")
        .set("/metadata/name", name)
        .set("/metadata/uid", name)
        .set("/metadata/ownerReferences", owner(&json!({})))
}

/// The same with a main that ended at this second.
fn done_at(name: &str, second: u32) -> PodBuilder {
    let end = json!({"terminated": {"exitCode": 0, "finishedAt": format!("2025-01-01T00:00:{second:02}Z")}});
    done(name).but("main", |main| main.status("state", end))
}

fn restarted(pod: PodBuilder, restarts: i64) -> PodBuilder {
    pod.but("main", |main| main.status("restartCount", restarts))
}

/// The Job, which bears so many more failures.
pub fn job(limit: u32, failures_borne: u32) -> Job {
    Job {
        uid: JOB.into(),
        namespace: Box::default(),
        backoff_limit: limit,
        failures_borne,
    }
}

/// A ledger that knows this Job and these pods.
pub fn ledger(limit: u32, pods: &[Pod]) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.job(&job(limit, limit));
    pods.iter()
        .for_each(|pod| ledger.observe(pod, Swapped::default(), 0));
    ledger.pod_list_ends(0);
    ledger
}

fn reads(pods: &[PodBuilder]) -> Vec<Pod> {
    pods.iter().map(PodBuilder::read).collect()
}

/// As if each pod in turn had its turn and wanted so many swaps; the names of those whose write has
/// begun. The others wait.
fn begun(ledger: &mut Ledger, pods: &[Pod], swaps: u32) -> Vec<String> {
    let mut names = Vec::new();
    for pod in pods {
        let need = if ledger.answer(pod, swaps) == Headroom::Fits {
            names.push(pod.name.to_string());
            Need::Begun(swaps)
        } else {
            Need::Waits(swaps)
        };
        ledger.need(pod, need);
    }
    names
}

#[track_caller]
fn never_fits(answer: &Headroom) -> i64 {
    match answer {
        Headroom::NeverFits(shortage) => shortage.limit_needed(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_pods_of_jobs_under_on_failure_are_counted() {
    let free = [
        pod("OnFailure"),
        done("a").set("/spec/restartPolicy", "Never"),
        done("a").set(
            "/metadata/ownerReferences",
            owner(&json!({"controller": false})),
        ),
        done("a").set(
            "/metadata/ownerReferences",
            owner(&json!({"kind": "CronJob"})),
        ),
        done("a").set(
            "/metadata/ownerReferences",
            owner(&json!({"apiVersion": "batch.volcano.sh/v1alpha1"})),
        ),
        done("a").set("/metadata/ownerReferences", owner(&json!({"uid": ""}))),
    ];
    for pod in reads(&free) {
        assert_eq!(
            ledger(0, &[]).answer(&pod, 9),
            Headroom::Free,
            "{:?}",
            pod.job
        );
    }
    let beta = done("a")
        .set(
            "/metadata/ownerReferences",
            owner(&json!({"apiVersion": "batch/v1beta1"})),
        )
        .read();
    assert_eq!(
        ledger(2, std::slice::from_ref(&beta)).answer(&beta, 1),
        Headroom::Fits
    );
}

/// Truth table, rows 27, 28 and 30: the sum may not reach the limit, and not even 1 where that is
/// 0.
#[test]
fn the_limits_are_those_of_the_job_controller() {
    // (limit, restarts so far, swaps, what it would take)
    let table = [
        (0, 0, 1, Some(2)),
        (1, 0, 1, Some(2)),
        (1, 0, 2, Some(3)),
        (2, 0, 1, None),
        (2, 0, 2, Some(3)),
        (2, 1, 1, Some(3)),
    ];
    let more = [
        (3, 0, 2, None),
        (3, 1, 2, Some(4)),
        (6, 0, 5, None),
        (6, 4, 1, None),
        (6, 5, 1, Some(7)),
        (i32::MAX as u32, 0, 60, None),
    ];
    for (limit, restarts, swaps, needed) in table.into_iter().chain(more) {
        let pod = restarted(done("a"), restarts).read();
        let answer = ledger(limit, std::slice::from_ref(&pod)).answer(&pod, swaps);
        match needed {
            None => assert_eq!(
                answer,
                Headroom::Fits,
                "limit {limit}, {restarts} restarts, {swaps} swaps"
            ),
            Some(needed) => assert_eq!(
                never_fits(&answer),
                needed,
                "limit {limit}, {restarts} restarts, {swaps} swaps"
            ),
        }
    }
}

/// What other pods of the Job add to the sum.
#[test]
fn all_containers_of_all_pods_that_have_not_ended_count() {
    let init = json!([{"name": "init", "restartCount": 2}, {"name": "native", "restartCount": 1}]);
    let running = || of_job("b").with(main_container("main").running());
    let others = [
        (restarted(running(), 3), 3),
        (running().set("/status/initContainerStatuses", init), 3),
        (
            running().extra_status(json!({"name": "stray", "restartCount": 1})),
            1,
        ),
        (restarted(running(), 3).phase("Pending"), 3),
        (restarted(running(), 3).phase("Unknown"), 3),
        (restarted(running(), 3).deleting(), 3),
        (restarted(running(), 3).phase("Succeeded"), 0),
        (restarted(running(), 3).phase("Failed"), 0),
        (restarted(running(), -3), 0),
    ];
    for (other, restarts) in others {
        let pods = [done("a").read(), other.read()];
        for limit in 0..9 {
            let fits = ledger(limit, &pods).answer(&pods[0], 1) == Headroom::Fits;
            assert_eq!(
                fits,
                restarts + 1 < i64::from(limit),
                "limit {limit}: {other:?}"
            );
        }
    }
}

#[test]
fn no_count_is_too_strange() {
    for count in [i64::MAX, i64::MIN] {
        let pods = reads(&[restarted(done("a"), count), restarted(done("b"), count)]);
        let mut ledger = ledger(6, &pods);
        begun(&mut ledger, &pods, u32::MAX);
        pods.iter().for_each(|pod| ledger.pod_gone(pod));
        assert_eq!(ledger.waiting(), 0);
    }
}

/// The node may take a phase back that it did not write: until that is over, no room is made.
#[test]
fn a_pod_that_is_finished_by_us_counts_until_it_stays_so() {
    let finished = restarted(done("a"), 1).phase("Succeeded").read();
    let other = done("b").read();
    let mut ledger = ledger(2, std::slice::from_ref(&other));
    ledger.observe_finished(&finished, Swapped::default(), 0);
    ledger.need(&other, Need::Waits(1));
    assert!(matches!(ledger.answer(&other, 1), Headroom::Wait(_)));
    ledger.take_wakes();
    ledger.pod_gone(&finished);
    assert_eq!(ledger.take_wakes(), ["b".into()]);
}

/// A request of an earlier life to OpenKruise's daemon.
#[test]
fn what_somebody_was_asked_for_counts_whoever_granted_it() {
    let pods = reads(&[done("a"), done("b")]);
    let mut ledger = ledger(3, &pods);
    ledger.need(&pods[0], Need::Begun(2));
    assert!(matches!(ledger.answer(&pods[1], 1), Headroom::Wait(_)));
    ledger.need(&pods[1], Need::Waits(1));
    ledger.take_wakes();
    ledger.need(&pods[0], Need::Nothing);
    assert_eq!(ledger.take_wakes(), ["b".into()]);
}

/// A pod in which an exit image is stuck does not end by itself: to swap it again it waits for
/// others, and not for itself.
#[test]
fn a_second_swap_of_a_pod_does_not_wait_for_its_first() {
    let stuck = done("a")
        .but("side", |side| side.image(EXIT).restarted_as(EXIT, 1))
        .read();
    let runs = of_job("b").with(main_container("main").running()).read();
    let once = Swapped {
        containers: 1,
        ..Swapped::default()
    };
    for (limit, fits) in [(2, false), (3, true)] {
        let mut ledger = ledger(limit, std::slice::from_ref(&runs));
        ledger.observe(&stuck, once, 0);
        assert_eq!(
            ledger.answer(&stuck, 1) == Headroom::Fits,
            fits,
            "limit {limit}: {:?}",
            ledger.answer(&stuck, 1)
        );
        ledger.need(&stuck, Need::Waits(1));
        assert_eq!(
            ledger.answer(&stuck, 1) == Headroom::Fits,
            fits,
            "limit {limit}: {:?}",
            ledger.answer(&stuck, 1)
        );
    }
    let others = reads(&[done("c"), done("d")]);
    let mut ledger = ledger(3, &others);
    ledger.observe(&stuck, once, 0);
    assert!(
        others
            .iter()
            .all(|pod| matches!(ledger.answer(pod, 1), Headroom::Wait(_))),
        "it has not ended, and may be ended yet"
    );
}
