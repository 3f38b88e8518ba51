//! Exit images that do not start, or may not, and swaps that are denied: what other pods do.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::terminate::index::{Index, Write};
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::objects::job::Job;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::report::decision::Method;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::methods::AllowedMethods;

use super::index_under;
use crate::harness::rules;
use crate::node::{running, status, terminated};
use crate::objects::{main_container, pod_of, sidecar};

pub(super) const LISTED: &str = "registry.example/other/exit:v2";
const RENAMED: &str = "mirror.example/exit:v2";
pub(super) const NOW: Moment = Moment::after_start(Duration::from_secs(1));

/// A pod of the Job whose main container is done.
pub(super) fn seen(name: &str, image: &str, state: Value, restarts: u32) -> Pod {
    seen_of(name, &[(image, state, restarts)])
}

/// The same with several sidecars.
pub(super) fn seen_of(name: &str, sidecars: &[(&str, Value, u32)]) -> Pod {
    seen_asking(LISTED, name, sidecars)
}

/// The same with sidecars that ask for this image.
pub(super) fn seen_asking(asked: &str, name: &str, sidecars: &[(&str, Value, u32)]) -> Pod {
    let mut containers = vec![main_container()];
    let mut statuses = vec![status(&main_container(), terminated(0, 0))];
    for (nth, (image, state, restarts)) in sidecars.iter().enumerate() {
        let number = if nth == 0 {
            String::new()
        } else {
            nth.to_string()
        };
        let mut side = sidecar(&format!("side{number}"));
        side["image"] = (*image).into();
        side["env"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": WITH_IMAGE, "value": asked}));
        let mut of_side = status(&side, state.clone());
        of_side["restartCount"] = (*restarts).into();
        containers.push(side);
        statuses.push(of_side);
    }
    let mut pod = pod_of(name, "OnFailure", containers);
    pod["metadata"]["uid"] = name.into();
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": true}]);
    pod["status"] = json!({"phase": "Running", "containerStatuses": statuses});
    serde_json::from_value::<PodWire>(pod)
        .unwrap()
        .read()
        .unwrap()
}

/// Has a Job that allows six, with these pods, whose sidecars ask for a listed image.
pub(super) fn index_of_job(pods: &[&str]) -> Index {
    let pods = pods.iter().map(|name| seen(name, "side:1", running(), 0));
    index_with(pods.collect(), 6, true)
}

pub(super) fn index_with(pods: Vec<Pod>, backoff_limit: u32, finish: bool) -> Index {
    let mut index = index_under(Rules {
        exit_images: ExitImages::new(None, vec!["registry.example/other/*".parse().unwrap()])
            .said_public(Public::Yes),
        allowed: AllowedMethods {
            finish,
            ..AllowedMethods::default()
        },
        ..rules()
    });
    for pod in pods {
        index.apply(pod, NOW);
    }
    let job = Job {
        uid: "job".into(),
        namespace: "default".into(),
        backoff_limit,
        failures_borne: 6,
    };
    index.jobs(
        |ledger| {
            ledger.job(&job);
            ledger.job_list_ends();
            ledger.pod_list_ends(0);
        },
        NOW,
    );
    index
}

/// The method of the next write.
pub(super) fn next(index: &mut Index, now: Moment) -> Option<(Write, Method)> {
    let write = index.next_write(now)?;
    let method = write.action.method();
    Some((write, method))
}

const fn at(second: u64) -> Moment {
    Moment::after_start(Duration::from_secs(second))
}

/// A kubelet whose `crashLoopBackOff.maxContainerRestartPeriod` is as short as it may be (1 s) would
/// go on for ever, and its status never be quiet: 397 restarts in 400 s were seen.
#[test]
fn t8_on_a_node_with_any_back_off_a_broken_exit_image_is_run_twice_and_the_phase_is_written() {
    for period in [300, 20, 10, 5, 1] {
        let mut index = index_of_job(&["a"]);
        let (write, method) = next(&mut index, NOW).unwrap();
        assert_eq!(method, Method::Swap);
        index.written(write, &Ok(vec![LISTED.into()]), NOW);
        let (mut starts, mut due, mut wait) = (0, 3, 1);
        let mut written = None;
        for second in 2..60 {
            if second == due {
                starts += 1;
                let waiting = json!({"waiting": {"reason": "CrashLoopBackOff",
                    "message": format!("back-off {wait}s restarting failed container=side")}});
                index.apply(seen("a", LISTED, waiting, starts), at(second));
                // At once, after a second, and then with the back-off.
                wait = if starts == 1 {
                    1
                } else {
                    (10 << (starts - 2)).min(period)
                };
                due = second + wait;
            }
            index.wake(at(second));
            written = next(&mut index, at(second)).map(|(_, method)| (method, starts));
            if written.is_some() {
                break;
            }
        }
        assert_eq!(written, Some((Method::Finish, 2)), "{period} s");
    }
}

/// Its image in one pod is what they all would get: 5 at once have failed the Job within 11 s.
#[test]
fn t7_pods_after_one_whose_exit_image_did_not_start_are_ended_by_their_phase() {
    let mut index = index_of_job(&["a"]);
    let (write, _) = next(&mut index, NOW).unwrap();
    index.written(write, &Ok(vec![LISTED.into()]), NOW);
    let waiting =
        json!({"waiting": {"reason": "RunContainerError", "message": "exec: no such file"}});
    index.apply(seen("a", LISTED, waiting, 1), at(2));
    for name in ["b", "c", "d", "e"] {
        index.apply(seen(name, "side:1", running(), 0), at(3));
    }
    index.wake(at(3));
    assert_eq!(next(&mut index, at(3)).map(|(write, _)| write.action), None);
    index.wake(at(20));
    let mut ended = BTreeSet::new();
    while let Some((write, method)) = next(&mut index, at(20)) {
        assert_eq!(method, Method::Finish);
        ended.insert(write.target.name);
    }
    assert_eq!(ended.len(), 5, "{ended:?}");
}

/// For their containers, which nobody opted in: the administrator's policy knows only names.
#[test]
fn t10_pods_that_are_denied_for_what_they_are_keep_no_other_from_its_swap() {
    let mut index = index_of_job(&["a", "b", "c"]);
    let denied = Err(WriteError::Denied(
        "an exit image is for sidecars that their owner has marked, not for log".to_owned(),
    ));
    for second in 1..10 {
        index.wake(at(second));
        while let Some((write, _)) = next(&mut index, at(second)) {
            index.written(write, &denied, at(second));
        }
    }
    index.apply(seen("healthy", "side:1", running(), 0), at(10));
    let (write, method) = next(&mut index, at(10)).unwrap();
    assert_eq!((&*write.target.name, method), ("healthy", Method::Swap));
}

/// As a webhook has named it, before the node has reacted.
fn renamed(name: &str) -> Pod {
    let mut pod = seen(name, RENAMED, running(), 0);
    pod.containers[1].status.as_mut().unwrap().image = "side:1".into();
    pod
}

/// Has two pods of a Job that bears one restart at a time.
fn narrow() -> Index {
    let mut index = index_of_job(&["a", "b"]);
    let job = Job {
        uid: "job".into(),
        namespace: "default".into(),
        backoff_limit: 2,
        failures_borne: 6,
    };
    index.jobs(|ledger| ledger.job(&job), NOW);
    index
}

/// Returns true if another pod is swapped within a minute.
fn swaps_another(index: &mut Index) -> bool {
    let mut methods = (3..60).filter_map(|second| {
        index.wake(at(second));
        next(index, at(second))
    });
    methods.any(|(_, method)| method == Method::Swap)
}

/// The watch may show the write before its answer comes, and only the answer tells whose it is.
#[test]
fn u13_the_restart_of_an_exit_image_under_another_name_counts_until_it_is_shown() {
    let mut index = narrow();
    let (write, method) = next(&mut index, NOW).unwrap();
    assert_eq!(method, Method::Swap);
    let first = write.target.name.clone();
    index.apply(renamed(&first), at(2));
    index.written(write, &Ok(vec![RENAMED.into()]), at(2));
    assert!(!swaps_another(&mut index));
}

/// The next leader does not know whose name it is.
#[test]
fn u13_an_image_that_the_node_has_not_started_yet_counts_also_under_the_next_leader() {
    let mut index = narrow();
    index.apply(renamed("a"), NOW);
    assert!(!swaps_another(&mut index));
}

/// The node has the same bytes under two names, and reports the other one: nobody has changed the
/// image. A node that were to start another one would have done so.
#[test]
fn u77_another_name_of_the_same_bytes_is_no_restart_to_come_for_ever() {
    let mut pod = seen("a", "side:1", running(), 0);
    pod.containers[1].status.as_mut().unwrap().image = "mirror.example/side:1".into();
    let mut index = index_with(vec![pod], 2, false);
    let swapped_at = (2..300).find(|second| {
        index.wake(at(*second));
        next(&mut index, at(*second)).is_some()
    });
    let second = swapped_at.expect("the pod is swapped");
    assert!((90..=151).contains(&second), "{second}");
}

/// The watch is faster than the answer: what the container was before is what it was when the write
/// began.
#[test]
fn u78_an_end_that_is_shown_before_the_answer_is_no_restart_to_come() {
    let pods = ["a", "b"].map(|name| seen(name, "side:1", running(), 0));
    let mut index = index_with(pods.into(), 3, true);
    let (write, _) = next(&mut index, NOW).unwrap();
    let first = write.target.name.clone();
    let ended = json!({"terminated": {"exitCode": 0, "startedAt": "2025-01-01T00:00:09Z"}});
    index.apply(seen(&first, LISTED, ended, 1), at(2));
    index.written(write, &Ok(vec![LISTED.into()]), at(3));
    index.wake(at(3));
    let (write, method) = next(&mut index, at(3)).expect("one restart of two has been");
    assert!(write.target.name != first && method == Method::Swap);
}
