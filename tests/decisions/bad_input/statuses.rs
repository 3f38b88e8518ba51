//! Statuses that are missing, of other containers, or contradict themselves.

use serde_json::{Value, json};
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;
use swaplet_core::report::reason::Reason;

use super::{beside_done_main, ready};
use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{assert_silent, swaps};

#[test]
fn a_missing_status_of_a_main_waits() {
    assert_silent(
        &pod("Never")
            .with(main_container("main").no_status())
            .with(sidecar("sidecar").running()),
        Reason::MainsRunning,
    );
    let one_of_two = ready().with(main_container("second").no_status());
    assert_silent(&one_of_two, Reason::MainsRunning);
}

#[test]
fn no_status_at_all_waits() {
    let pod = pod("Never")
        .with(main_container("main").no_status())
        .with(sidecar("sidecar").no_status());
    assert_silent(
        &pod.clone().set("/status", Value::Null),
        Reason::MainsRunning,
    );
    assert_silent(&pod.set("/status", json!({})), Reason::MainsRunning);
}

#[test]
fn a_missing_status_of_a_sidecar_does_not_hinder() {
    swaps(
        &beside_done_main(sidecar("sidecar").no_status()),
        &["sidecar"],
    );
}

#[test]
fn the_order_of_statuses_does_not_matter() {
    let pod = pod("OnFailure")
        .with(sidecar("a").running())
        .with(main_container("main").ended(0))
        .with(sidecar("b").ended(0))
        .with(sidecar("c").running());
    swaps(&pod, &["a", "c"]);
    swaps(&pod.statuses_reversed(), &["a", "c"]);
}

#[test]
fn statuses_of_other_containers_are_not_taken_for_those_of_the_pod() {
    let init = json!({"name": "init", "image": "i", "state": {"terminated": {"exitCode": 0}}});
    swaps(&ready().extra_status(init.clone()), &["sidecar"]);
    let unreported = pod("Never")
        .with(main_container("main").no_status())
        .with(sidecar("sidecar").running())
        .extra_status(init);
    assert_silent(&unreported, Reason::MainsRunning);
}

#[test]
fn the_first_of_two_statuses_of_one_name_counts() {
    let ended = json!({"name": "main", "state": {"terminated": {"exitCode": 0}}});
    let running = json!({"name": "main", "state": {"running": {}}});
    let two = pod("Never")
        .with(sidecar("sidecar").running())
        .with(main_container("main").no_status());
    swaps(
        &two.clone()
            .extra_status(ended.clone())
            .extra_status(running.clone()),
        &["sidecar"],
    );
    assert_silent(
        &two.extra_status(running.clone())
            .extra_status(ended.clone()),
        Reason::MainsRunning,
    );
    // Nor does the place of the other statuses change which is the first.
    let bare = pod("Never")
        .with(sidecar("sidecar").no_status())
        .with(main_container("main").no_status());
    let of_sidecar = json!({"name": "sidecar", "state": {"running": {}}});
    assert_silent(
        &bare
            .extra_status(of_sidecar)
            .extra_status(running)
            .extra_status(ended),
        Reason::MainsRunning,
    );
}

#[test]
fn native_sidecars_and_ephemeral_containers_are_neither_mains_nor_targets() {
    let marked = json!([{"name": "proxy", "image": "p", "restartPolicy": "Always", "env": [{"name": WHEN_JOB_EXIT, "value": "true"}]}]);
    let init_status = json!([{"name": "proxy", "state": {"running": {}}}]);
    let with_others = |pod: PodBuilder| {
        pod.set("/spec/initContainers", marked.clone())
            .set("/status/initContainerStatuses", init_status.clone())
            .set("/spec/ephemeralContainers", marked.clone())
            .set("/status/ephemeralContainerStatuses", init_status.clone())
    };
    swaps(&with_others(ready()), &["sidecar"]);
    assert_silent(
        &with_others(pod("Never").with(main_container("main").ended(0))),
        Reason::NoSidecar,
    );
    assert_silent(
        &with_others(beside_done_main(sidecar("sidecar").ended(0))),
        Reason::SidecarsEnded,
    );
}

#[test]
fn a_missing_exit_code_is_no_success() {
    let main = |policy| {
        pod(policy)
            .with(main_container("main").status("state", json!({"terminated": {}})))
            .with(sidecar("s").running())
    };
    assert_silent(&main("OnFailure"), Reason::MainsRunning);
    swaps(&main("Never"), &["s"]);
}

#[test]
fn an_end_without_an_exit_code_is_no_success() {
    for end in [json!({"exitCode": null}), json!({})] {
        let main = main_container("main").status("state", json!({"terminated": end}));
        assert_silent(
            &pod("OnFailure")
                .with(main)
                .with(sidecar("sidecar").running()),
            Reason::MainsRunning,
        );
    }
}

#[test]
fn of_two_members_of_a_state_the_end_counts() {
    let both =
        json!({"running": {"startedAt": "2025-01-01T00:00:00Z"}, "terminated": {"exitCode": 0}});
    swaps(
        &pod("OnFailure")
            .with(main_container("main").status("state", both.clone()))
            .with(sidecar("sidecar").running()),
        &["sidecar"],
    );
    assert_silent(
        &beside_done_main(sidecar("sidecar").status("state", both)),
        Reason::SidecarsEnded,
    );
    let waits_too = json!({"waiting": {"reason": "Unknown"}, "running": {}});
    assert_silent(
        &pod("Never")
            .with(main_container("main").status("state", waits_too))
            .with(sidecar("s").running()),
        Reason::MainsRunning,
    );
}

#[test]
fn an_empty_state_is_no_end() {
    for state in [json!({}), Value::Null, json!({"terminated": null})] {
        let main = main_container("main").status("state", state.clone());
        assert_silent(
            &pod("Never").with(main).with(sidecar("sidecar").running()),
            Reason::MainsRunning,
        );
        swaps(
            &beside_done_main(sidecar("sidecar").status("state", state)),
            &["sidecar"],
        );
    }
}
