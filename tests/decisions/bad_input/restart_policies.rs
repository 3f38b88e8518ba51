//! Restart policies and rules of pods and containers: unknown ones, and what follows from others.

use serde_json::{Value, json};
use swaplet_core::report::decision::Action;
use swaplet_core::report::reason::Reason;

use super::{beside_done_main, ready};
use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{Life, SHIPPED, assert_silent, moment, swaps, warns};

#[test]
fn an_unknown_or_missing_restart_policy_is_told_for_marked_pods_only() {
    for policy in [json!("Sometimes"), json!("never"), json!(""), Value::Null] {
        let note = warns(
            &ready().set("/spec/restartPolicy", policy.clone()),
            Reason::RestartPolicyUnknown,
        );
        assert!(note.contains("spec.restartPolicy"), "{note}");
        assert_silent(
            &pod("Never")
                .with(main_container("main").ended(0))
                .set("/spec/restartPolicy", policy),
            Reason::NoSidecar,
        );
    }
}

#[test]
fn an_unknown_restart_policy_of_a_container_is_told() {
    let note = warns(
        &beside_done_main(
            sidecar("sidecar")
                .spec("restartPolicy", "Sometimes")
                .running(),
        ),
        Reason::RestartPolicyUnknown,
    );
    assert!(note.contains("container sidecar"), "{note}");
    let main = pod("Never")
        .with(
            main_container("main")
                .spec("restartPolicy", "Sometimes")
                .ended(0),
        )
        .with(sidecar("sidecar").running());
    assert!(warns(&main, Reason::RestartPolicyUnknown).contains("container main"));
}

#[test]
fn a_sidecar_that_restarts_always_is_told() {
    let note = warns(
        &beside_done_main(sidecar("sidecar").spec("restartPolicy", "Always").running()),
        Reason::SidecarRestartsAlways,
    );
    assert!(note.contains("container sidecar"), "{note}");
}

#[test]
fn a_main_that_restarts_always_is_never_done() {
    let pod = pod("Never")
        .with(
            main_container("main")
                .spec("restartPolicy", "Always")
                .ended(0),
        )
        .with(sidecar("sidecar").running());
    assert_silent(&pod, Reason::MainsRunning);
}

#[test]
fn the_policy_of_a_main_outranks_that_of_its_pod() {
    let failed = |pod_policy, own| {
        pod(pod_policy)
            .with(main_container("main").spec("restartPolicy", own).ended(1))
            .with(sidecar("sidecar").running())
    };
    swaps(&failed("OnFailure", "Never"), &["sidecar"]);
    assert_silent(&failed("Never", "OnFailure"), Reason::MainsRunning);
}

/// A main of its own policy with one rule, ended with this code, beside a sidecar that runs.
fn with_rule(policy: &str, rules: &Value, code: i64) -> PodBuilder {
    let main = main_container("main")
        .spec("restartPolicy", policy)
        .spec("restartPolicyRules", rules.clone())
        .ended(code);
    pod("Never").with(main).with(sidecar("sidecar").running())
}

/// Kubernetes: `ContainerShouldRestart` in `pkg/api/v1/pod/util.go`.
#[test]
fn a18_a_main_with_restart_rules_is_done_after_a_code_that_no_rule_names() {
    let rule = |operator: &str, codes: Value| json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": codes}}]);
    let all = |codes: Value| json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": codes}}]);
    // (policy, rules, codes after which it is done, codes after which it comes back)
    let table: [(&str, Value, &[i64], &[i64]); 7] = [
        (
            "Never",
            rule("In", json!([42, 43])),
            &[0, 1, 143],
            &[42, 43],
        ),
        ("Never", rule("NotIn", json!([0, 7])), &[0, 7], &[1, 42]),
        ("OnFailure", rule("In", json!([42])), &[0], &[1, 42]),
        ("OnFailure", rule("In", json!([0])), &[], &[0, 1]),
        ("Never", all(json!([42])), &[0, 1], &[42]),
        ("Never", json!([]), &[0, 1], &[]),
        ("Never", json!([{"action": "Restart"}]), &[0, 1], &[]),
    ];
    for (policy, rules, done, comes_back) in table {
        done.iter()
            .for_each(|code| swaps(&with_rule(policy, &rules, *code), &["sidecar"]));
        comes_back.iter().for_each(|code| {
            assert_silent(&with_rule(policy, &rules, *code), Reason::MainsRunning)
        });
    }
    let several = json!([rule("In", json!([3]))[0], rule("In", json!([5]))[0]]);
    [3, 5]
        .iter()
        .for_each(|code| assert_silent(&with_rule("Never", &several, *code), Reason::MainsRunning));
    swaps(&with_rule("Never", &several, 4), &["sidecar"]);
}

#[test]
fn a18_a_rule_that_cannot_be_read_may_bring_the_main_back() {
    let rule = |operator: &str, count: usize| json!({"action": "Restart", "exitCodes": {"operator": operator, "values": vec![7; count]}});
    let strange = [
        json!([rule("Between", 1)]),
        json!([rule("In", 2_000)]),
        json!(vec![rule("In", 1); 2_000]),
    ];
    for rules in strange {
        assert_silent(&with_rule("Never", &rules, 0), Reason::MainsRunning);
        assert_silent(&with_rule("Never", &rules, 1), Reason::MainsRunning);
    }
}

/// A sidecar with one rule of this action, after these codes.
fn acting(name: &str, action: &str, codes: &[i64]) -> ContainerBuilder {
    let codes = json!({"operator": "In", "values": codes});
    sidecar(name)
        .spec(
            "restartPolicyRules",
            json!([{"action": action, "exitCodes": codes}]),
        )
        .running()
}

/// Whatever its exit code is: it may be that of the program on SIGTERM, or of the exit image.
#[test]
fn a_sidecar_whose_end_may_restart_all_containers_is_ended_by_the_phase_alone() {
    for (action, codes) in [
        ("RestartAllContainers", [143]),
        ("RestartAllContainers", [42]),
        ("RestartAllContainers", [0]),
        ("WhateverComesLater", [42]),
    ] {
        let pod = beside_done_main(acting("log", action, &codes));
        let note = warns(&pod, Reason::NotSwappable);
        assert!(note.contains("may restart all containers"), "{note}");
        let mut life = Life {
            allowed: SHIPPED,
            ..Life::new()
        };
        life.assert_silent(&pod, Reason::FinishWaits);
        let decision = life.later(10).sees(&pod);
        assert!(
            matches!(decision.action, Some(Action::Finish(_))),
            "{decision:?}"
        );
    }
    swaps(&beside_done_main(acting("log", "Restart", &[42])), &["log"]);
}

/// Or it would be missing when all containers are started again.
#[test]
fn no_sidecar_is_swapped_beside_one_whose_end_may_restart_all_containers() {
    let pod = beside_done_main(acting("log", "RestartAllContainers", &[42]))
        .with(sidecar("proxy").running());
    let note = warns(&pod, Reason::NotSwappable);
    assert!(
        note.contains("container proxy: it would be missing when log ends"),
        "{note}"
    );
    swaps(&pod.clone().but("log", |log| log.ended(0)), &["proxy"]);
    // The main container will run again.
    let restarting = pod.but("log", |log| log.ended(42));
    assert_silent(&restarting, Reason::MainsRunning);
    // A kubelet that was told to end the pod starts nothing, whatever phase it shows.
    let written = restarting
        .but("proxy", |proxy| proxy.ended(0))
        .set("/status/conditions", json!([{"type": "SidecarTerminated"}]));
    assert_silent(&written, Reason::SidecarsEnded);
}

/// While main containers run, their rules are their own affair.
#[test]
fn a_main_whose_end_may_restart_all_containers_is_done_after_another_code() {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}]);
    swaps(&with_rule("Never", &rules, 0), &["sidecar"]);
    assert_silent(&with_rule("Never", &rules, 1), Reason::MainsRunning);
}

/// Kubernetes' own example has the rule on a native sidecar.
#[test]
fn a_native_sidecar_may_restart_all_containers_too() {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    let init = |rules: &Value| json!([{"name": "watcher", "image": "w", "restartPolicy": "Always", "restartPolicyRules": rules}]);
    let pod = beside_done_main(sidecar("log").running());
    let watched = pod.clone().set("/spec/initContainers", init(&rules));
    let note = warns(&watched, Reason::NotSwappable);
    assert!(
        note.contains("it would be missing when watcher ends"),
        "{note}"
    );
    let mut life = Life {
        allowed: SHIPPED,
        ..Life::new()
    };
    life.assert_silent(&watched, Reason::FinishWaits);
    let decision = life.later(10).sees(&watched);
    assert!(
        matches!(decision.action, Some(Action::Finish(_))),
        "{decision:?}"
    );
    let ended = |code: i64| {
        let status = json!([{"name": "watcher", "state": {"terminated": {"exitCode": code}}}]);
        watched.clone().set("/status/initContainerStatuses", status)
    };
    assert_silent(&ended(42), Reason::MainsRunning);
    warns(&ended(1), Reason::NotSwappable);
    swaps(&pod.set("/spec/initContainers", init(&json!([]))), &["log"]);
}

/// The main containers will run again, with all sidecars.
#[test]
fn a_pod_whose_node_starts_all_containers_again_is_left_alone() {
    let is = |status: &str| {
        let condition = json!([{"type": "AllContainersRestarting", "status": status}]);
        beside_done_main(sidecar("log").running()).set("/status/conditions", condition)
    };
    assert_silent(&is("True"), Reason::MainsRunning);
    swaps(&is("False"), &["log"]);
}

/// A kubelet shows it as ended with 137, and starts it again whatever its policy.
#[test]
fn a_main_whose_state_the_runtime_has_lost_is_not_done() {
    let main = |reason: &str| {
        pod("Never")
            .with(main_container("main").ended_as(137, reason))
            .with(sidecar("sidecar").running())
    };
    for reason in ["ContainerStatusUnknown", "RestartingAllContainers"] {
        assert_silent(&main(reason), Reason::MainsRunning);
    }
    swaps(&main("OOMKilled"), &["sidecar"]);
}

/// A kubelet before 1.35 knows no rules of a container, and leaves it as it has ended.
#[test]
fn u230_a_main_that_its_node_does_not_start_again_is_told_once_and_nothing_is_ended() {
    let main = || main_container("main").ended(42);
    let by_rule = |action: &str| {
        let codes = json!({"operator": "In", "values": [42]});
        main().spec("restartPolicy", "Never").spec(
            "restartPolicyRules",
            json!([{"action": action, "exitCodes": codes}]),
        )
    };
    for (policy, main, words) in [
        ("Never", by_rule("Restart"), "again by restartPolicyRules"),
        (
            "Never",
            by_rule("RestartAllContainers"),
            "again by restartPolicyRules",
        ),
        (
            "Never",
            main().spec("restartPolicy", "OnFailure"),
            "again by restartPolicy OnFailure",
        ),
        ("OnFailure", main(), "again by restartPolicy OnFailure"),
    ] {
        let pod = pod(policy).with(main).with(sidecar("sidecar").running());
        let mut life = Life::new();
        for _ in 0..2 {
            let waits = life.later(30).assert_silent(&pod, Reason::MainsRunning);
            assert_eq!(waits.again, Some(moment(630)));
        }
        let waiting = pod
            .clone()
            .but("main", |main| main.waiting("CrashLoopBackOff", "back-off"));
        life.later(600)
            .assert_silent(&waiting, Reason::MainsRunning);
        life.later(1).assert_silent(&pod, Reason::MainsRunning);
        life.later(599);
        let note = life.tells(&pod, Reason::MainNotRestarted);
        for word in ["main has ended (exit code 42)", words, "for 10 min"] {
            assert!(note.contains(word), "{word}: {note}");
        }
    }
}
