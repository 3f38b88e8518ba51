//! When a sidecar is ended: never before its time, and, whatever clocks say, not long after it.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use swaplet_core::objects::pod::annotations::{DELAY, SIDECARS, WAIT_FOR_EXIT};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::explain::explain;

use super::{done, new_life, policies, running};
use crate::builder::{PodBuilder, main_container, sidecar};
use crate::expect::{Life, moment};

/// What the builder says of the end of the main container.
const ENDED: &str = "2025-01-01T00:01:00Z";

fn log(delay: &str) -> PodBuilder {
    done("OnFailure", &[running("log")])
        .annotation(SIDECARS, "log")
        .annotation(DELAY, delay)
}

/// A life in which the end of the main container, as it is reported, was so many seconds ago.
fn after(seconds: i64) -> Life {
    let ended: Timestamp = ENDED.parse().unwrap();
    let mut life = new_life();
    life.now = moment(1000);
    life.started_at = Some(ended + SignedDuration::from_secs(seconds - 1000));
    life
}

fn mains_run(pod: &PodBuilder) -> PodBuilder {
    pod.clone()
        .but("main", |_| main_container("main").running())
}

#[test]
fn a_life_that_sees_the_end_counts_from_it() {
    let pod = log("30s");
    let mut life = new_life();
    life.assert_silent(&mains_run(&pod), Reason::MainsRunning);
    let waits = life.later(100).assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(waits.again, Some(moment(130)));
    life.later(29).assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(life.later(1).sees(&pod).reason, Reason::SidecarSwapped);
}

/// The clock of a node that is behind or ahead by an hour makes no difference where the end was
/// seen.
#[test]
fn another_clock_does_not_count_where_the_end_was_seen() {
    let pod = log("30s");
    for skew in [-3600, 3600] {
        let mut life = after(skew);
        life.assert_silent(&mains_run(&pod), Reason::MainsRunning);
        life.later(1).assert_silent(&pod, Reason::SidecarDelayed);
        life.later(28).assert_silent(&pod, Reason::SidecarDelayed);
        assert_eq!(
            life.later(2).sees(&pod).reason,
            Reason::SidecarSwapped,
            "{skew}"
        );
    }
}

#[test]
fn another_life_goes_on_from_what_the_node_reports() {
    let pod = log("30s");
    let waits = after(10).assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(waits.again, Some(moment(1000 + 21)));
    after(30).assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(after(31).sees(&pod).reason, Reason::SidecarSwapped);
    // A clock that is ahead: from when it was seen.
    let waits = after(-3600).assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(waits.again, Some(moment(1000 + 30)));
    // No clock at all.
    let mut blind = new_life();
    let waits = blind.assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(waits.again, Some(moment(30)));
}

#[test]
fn a_clock_that_is_behind_by_what_the_pod_shows_is_not_believed() {
    let scheduled = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-01-01T00:10:00Z"}]);
    let pod = log("30s")
        .set("/status/conditions", scheduled)
        .set("/status/startTime", "2025-01-01T00:00:00Z");
    after(31).assert_silent(&pod, Reason::SidecarDelayed);
    after(600 + 31).assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(after(600 + 34).sees(&pod).reason, Reason::SidecarSwapped);
    let right = pod.set("/status/startTime", "2025-01-01T00:10:03Z");
    assert_eq!(after(31).sees(&right).reason, Reason::SidecarSwapped);
}

#[test]
fn one_that_may_end_by_itself_is_ended_at_its_deadline() {
    let pod = log("5s").annotation(WAIT_FOR_EXIT, "log=10s");
    let mut life = new_life();
    life.assert_silent(&mains_run(&pod), Reason::MainsRunning);
    life.assert_silent(&pod, Reason::SidecarDelayed);
    life.later(14).assert_silent(&pod, Reason::SidecarDelayed);
    let ended = pod.clone().but("log", |_| main_container("log").ended(0));
    life.assert_silent(&ended, Reason::SidecarsEnded);
    assert_eq!(life.later(1).sees(&pod).reason, Reason::SidecarSwapped);
}

/// Under `OnFailure` a main container may run again after it was taken for ended.
#[test]
fn a_new_end_counts_anew() {
    let pod = log("30s");
    let mut life = new_life();
    life.assert_silent(&pod, Reason::SidecarDelayed);
    life.later(20)
        .assert_silent(&mains_run(&pod), Reason::MainsRunning);
    life.later(20).assert_silent(&pod, Reason::SidecarDelayed);
    life.later(29).assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(life.later(1).sees(&pod).reason, Reason::SidecarSwapped);
}

#[test]
fn a_failed_main_container_keeps_what_asks_for_success() {
    let spec = json!({"sidecars": [{"name": "log", "mainMustSucceed": true}]});
    // The policy decides how one is ended that its own environment marks.
    for log in [running("log"), sidecar("log").running()] {
        let done = done("Never", &[log]);
        let failed = done
            .clone()
            .but("main", |_| main_container("main").ended(1));
        let mut life = new_life();
        let failed = failed.read_under(&mut policies(&[("p", spec.clone())]));
        let explained = explain(&failed, &life.memory, &life.around(), "");
        assert_eq!(explained.decision.reason, Reason::MainFailed);
        let ways = explained.findings.iter();
        let ways: Vec<_> = ways.filter(|way| way.subject.starts_with("way ")).collect();
        assert!(ways.is_empty(), "no way is taken: {ways:?}");
        let decision = life.sees_pod(&failed);
        assert_eq!(
            (decision.reason, &decision.action),
            (Reason::MainFailed, &None)
        );
        assert!(
            decision.reports[0]
                .note
                .contains("SidecarPolicy p, sidecars[0]")
        );
        let decision = new_life().sees_pod(&done.read_under(&mut policies(&[("p", spec.clone())])));
        assert_eq!(decision.reason, Reason::SidecarSwapped);
    }
}
