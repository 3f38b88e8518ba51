//! Sidecars whose own restarts a Job counts, and nodes that may be kubelets: the phase ends the pod.

use serde_json::json;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::Phase;
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_core::report::decision::{Action, Decision};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::explain::explain;
use swaplet_core::terminate::methods::AllowedMethods;

use super::{FIRST, QUIET_SECONDS, finish_of, on, ready};
use crate::builder::{PodBuilder, sidecar};
use crate::expect::Life;

const SECOND: AllowedMethods = AllowedMethods {
    prefer: None,
    ..FIRST
};

fn of_job(pod: PodBuilder) -> PodBuilder {
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": true}]);
    pod.set("/metadata/ownerReferences", owner)
}

/// What is done at last, and after how many seconds.
fn acts(life: &mut Life, pod: &PodBuilder) -> (u64, Decision) {
    for second in 0..=2 * QUIET_SECONDS {
        let decision = life.sees(pod);
        if decision.action.is_some() {
            return (second, decision);
        }
        life.later(1);
    }
    panic!("nothing is done");
}

/// A node that takes the phase back while it stops the sidecar judges the pod by its exit code.
#[test]
fn u15_while_a_sidecar_that_has_failed_before_runs_the_pod_has_to_be_quiet() {
    let runs = of_job(ready("OnFailure").but("log", |log| log.last_ended(1)));
    let (second, decision) = acts(&mut on(NodeClass::Kubelet, SECOND), &runs);
    assert_eq!(second, QUIET_SECONDS);
    assert!(finish_of(&decision).version.is_some());

    let mut life = on(NodeClass::Kubelet, SECOND);
    life.sees(&runs);
    let findings = explain(&runs.read(), &life.memory, &life.around(), "").findings;
    let said = |subject: &str| findings.iter().any(|finding| finding.subject == subject);
    assert!(
        said("restarts") && said("way finish") && !said("way swap"),
        "{findings:?}"
    );

    let waits = runs.but("log", |log| {
        log.waiting(
            "CrashLoopBackOff",
            "back-off 40s restarting failed container",
        )
    });
    let (second, decision) = acts(&mut on(NodeClass::Kubelet, SECOND), &waits);
    assert_eq!(second, 3);
    assert!(finish_of(&decision).version.is_none());
}

/// By its own policy, or by a rule: each start counts.
#[test]
fn u16_a_sidecar_that_its_own_policy_starts_again_leaves_no_swap_beside_it() {
    let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]);
    for (policy, rules) in [("Always", json!([])), ("Never", rule)] {
        let crashed = sidecar("a")
            .spec("restartPolicy", policy)
            .spec("restartPolicyRules", rules)
            .last_ended(1)
            .running();
        let pod = of_job(ready("OnFailure").with(crashed));
        let (_, decision) = acts(&mut on(NodeClass::Kubelet, SECOND), &pod);
        assert_eq!(finish_of(&decision).phase, Phase::Succeeded, "{policy}");
    }
}

/// Its starts count for the Job as those of any other container do. One that ended long before the
/// main containers is not expected to end again.
#[test]
fn u75_a_native_sidecar_that_crashes_leaves_no_swap_beside_it() {
    let native = |ended: &str| {
        let end = json!({"terminated": {"exitCode": 0, "finishedAt": ended}});
        let status = json!([{"name": "mesh", "restartCount": 1, "state": {"running": {}}, "lastState": end}]);
        of_job(ready("OnFailure").but("main", |main| {
            main.status(
                "state",
                json!({"terminated": {"exitCode": 0, "finishedAt": "2025-01-01T01:00:00Z"}}),
            )
        }))
        .set(
            "/spec/initContainers",
            json!([{"name": "mesh", "image": "mesh", "restartPolicy": "Always"}]),
        )
        .set("/status/initContainerStatuses", status)
    };
    let pod = native("2025-01-01T00:59:00Z");
    let (second, decision) = acts(&mut on(NodeClass::Kubelet, SECOND), &pod);
    assert_eq!(finish_of(&decision).phase, Phase::Succeeded);
    assert_eq!(second, QUIET_SECONDS);
    let pod = native("2025-01-01T00:49:00Z");
    let decision = on(NodeClass::Kubelet, SECOND).sees(&pod);
    assert_eq!(
        (decision.reason, decision.swaps_wanted),
        (Reason::HeadroomWait, 1)
    );
}

/// It counts as recent, so one that ended long ago does not hide it.
#[test]
fn u75_a_native_sidecar_that_ended_at_an_unknown_time_is_the_last_to_end() {
    let (mut natives, mut statuses) = (Vec::new(), Vec::new());
    for (name, at) in [("a", json!(null)), ("b", json!("2025-01-01T00:00:00Z"))] {
        let end = json!({"terminated": {"exitCode": 0, "finishedAt": at}});
        natives.push(json!({"name": name, "image": "i", "restartPolicy": "Always"}));
        statuses.push(json!({"name": name, "restartCount": 1, "lastState": end}));
    }
    let pod = ready("OnFailure")
        .set("/spec/initContainers", natives)
        .set("/status/initContainerStatuses", statuses)
        .read();
    let end = pod.native_end.unwrap();
    assert_eq!((&*end.name, end.finished_at), ("a", None));
}

/// Where no sidecar is left nothing is to be ended: what crashes is not swaplet's.
#[test]
fn u75_a_pod_whose_sidecars_have_ended_is_left_alone() {
    let end = json!({"terminated": {"exitCode": 0}});
    let status =
        json!([{"name": "mesh", "restartCount": 1, "state": {"running": {}}, "lastState": end}]);
    let pod = of_job(ready("OnFailure").but("log", |log| log.ended(0)))
        .set(
            "/spec/initContainers",
            json!([{"name": "mesh", "image": "mesh", "restartPolicy": "Always"}]),
        )
        .set("/status/initContainerStatuses", status);
    let mut life = on(NodeClass::Kubelet, SECOND);
    for _ in 0..3 {
        life.assert_silent(&pod, Reason::SidecarsEnded);
        life.later(QUIET_SECONDS);
    }
}

/// A provider that starts no container again, and a kubelet that has died in between.
#[test]
fn u244_a_sidecar_that_has_failed_and_is_not_started_again_does_not_hold_its_pod() {
    let ended = ready("OnFailure").but("log", |log| log.ended(1));
    for node in [
        NodeClass::VirtualInert,
        NodeClass::VirtualUpdates,
        NodeClass::Kubelet,
    ] {
        let mut life = on(node, SECOND);
        for _ in 0..60 {
            life.assert_silent(&ended, Reason::SidecarsEnded);
            life.later(1);
        }
        let decision = life.sees(&ended);
        assert_eq!(finish_of(&decision).phase, Phase::Succeeded, "{node}");
    }
    let without = AllowedMethods {
        finish: false,
        ..SECOND
    };
    let mut life = on(NodeClass::Kubelet, without);
    life.assert_silent(&ended, Reason::SidecarsEnded);
    let decision = life.later(60).sees(&ended);
    let words = format!("{:?}", decision.reports);
    assert!(
        decision.reason == Reason::NoRung && decision.action.is_none() && words.contains("log"),
        "{decision:?}"
    );
    // One that is started again is awaited anew.
    let mut life = on(NodeClass::Kubelet, SECOND);
    life.assert_silent(&ended, Reason::SidecarsEnded);
    life.later(50).sees(&ready("OnFailure"));
    life.later(1);
    for _ in 0..59 {
        life.assert_silent(&ended, Reason::SidecarsEnded);
        life.later(1);
    }
}

/// Where nodes cannot be read the first swap that works shows that images are updated, and not what
/// else the node does.
#[test]
fn u14_on_a_node_that_may_be_a_kubelet_nothing_is_tried_in_doubt() {
    let script = ready("OnFailure")
        .set(
            "/spec/volumes",
            json!([{"name": "s", "configMap": {"name": "s"}}]),
        )
        .but("log", |log| {
            log.spec("command", json!(["/scripts/run.sh"])).spec(
                "volumeMounts",
                json!([{"name": "s", "mountPath": "/scripts"}]),
            )
        });
    let ignored = ready("OnFailure").but("log", |log| log.env(IGNORE_EXIT_CODE, "true"));
    for pod in [&script, &ignored] {
        let mut life = on(NodeClass::VirtualUpdates, SECOND);
        life.facts.may_be_kubelet = true;
        let (_, decision) = acts(&mut life, pod);
        assert!(
            matches!(decision.action, Some(Action::Finish(_))),
            "{decision:?}"
        );
        let mut life = on(NodeClass::VirtualUpdates, SECOND);
        assert_eq!(life.sees(pod).reason, Reason::SidecarSwapped);
    }
}
