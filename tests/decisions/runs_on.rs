//! What decisions make of the operating system and the processor that a node or a pod names.

use serde_json::{Value, json};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::report::decision::{Action, Decision};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::finish_record::QUIET;

use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{Life, SHIPPED};

fn ready() -> PodBuilder {
    pod("OnFailure")
        .with(main_container("main").ended(0))
        .with(sidecar("side").running())
}

fn required(terms: &Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

fn expressions(system: &str, processors: &[&str]) -> Value {
    json!({"matchExpressions": [
        {"key": "kubernetes.io/os", "operator": "In", "values": [system]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": processors},
    ]})
}

/// Looks twice, between which the pod is quiet, at a pod with this in its spec, on a node that says
/// this.
fn on(node: RunsOn, spec: &Value, allowed_finish: bool) -> (Life, Decision) {
    let mut life = Life {
        allowed: SHIPPED,
        ..Life::new()
    };
    life.allowed.finish = allowed_finish;
    let mut builder = ready();
    for (field, value) in spec.as_object().unwrap() {
        builder = builder.set(&format!("/spec/{field}"), value.clone());
    }
    let mut pod = builder.read();
    pod.node_runs_on = node;
    let first = life.sees_pod(&pod);
    if first.reason != Reason::FinishWaits {
        return (life, first);
    }
    life.later(QUIET.as_secs());
    let second = life.sees_pod(&pod);
    (life, second)
}

fn is_swapped(node: RunsOn, spec: &Value) -> bool {
    match on(node, spec, true).1.action {
        Some(Action::Swap(_)) => true,
        Some(Action::Finish(_)) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sidecar_is_swapped_where_the_exit_program_can_run_and_its_pod_finished_elsewhere() {
    let nothing = json!({});
    for (system, processor, swapped) in [
        ("linux", "amd64", true),
        ("linux", "arm64", true),
        ("linux", "s390x", false),
        ("windows", "amd64", false),
        ("freebsd", "amd64", false),
    ] {
        let node = RunsOn::named(Some(system), Some(processor));
        assert_eq!(is_swapped(node, &nothing), swapped, "{system} {processor}");
    }
}

#[test]
fn what_nothing_says_is_a_doubt_on_a_kubelet_and_finish_ends_the_pod() {
    for node in [
        RunsOn::default(),
        RunsOn::named(Some("linux"), None),
        RunsOn::named(None, Some("amd64")),
    ] {
        assert!(!is_swapped(node, &json!({})), "{node:?}");
        let (_, decision) = on(node, &json!({}), false);
        assert_eq!(
            (decision.action, decision.reason),
            (None, Reason::NotSwappable)
        );
        assert!(
            decision.reports[0].note.contains("kubernetes.io/arch"),
            "{:?}",
            decision.reports
        );
    }
}

#[test]
fn a_virtual_node_that_replaces_containers_need_not_say_it() {
    let mut pod = ready().read();
    pod.node_runs_on = RunsOn::default();
    let mut life = Life {
        node: NodeClass::VirtualUpdates,
        ..Life::new()
    };
    assert_eq!(life.sees_pod(&pod).reason, Reason::SidecarSwapped);
}

/// As where no node may be read.
#[test]
fn u123_a_node_that_may_be_a_kubelet_has_to_say_it_where_the_phase_ends_the_pod() {
    let mut pod = ready().read();
    pod.node_runs_on = RunsOn::default();
    for finish in [true, false] {
        let mut life = Life {
            node: NodeClass::VirtualUpdates,
            ..Life::new()
        };
        life.facts.may_be_kubelet = true;
        life.allowed.finish = finish;
        let is_swapped = life.sees_pod(&pod).reason == Reason::SidecarSwapped;
        assert_eq!(is_swapped, !finish);
    }
}

#[test]
fn the_pod_says_it_where_its_node_does_not() {
    let both = |system: &str, processor: &str| json!({"kubernetes.io/os": system, "kubernetes.io/arch": processor});
    let unknown = RunsOn::default();
    for (spec, swapped) in [
        (json!({"nodeSelector": both("linux", "arm64")}), true),
        (json!({"nodeSelector": both("linux", "riscv64")}), false),
        (
            json!({"affinity": required(&json!([expressions("linux", &["amd64", "arm64"])]))}),
            true,
        ),
        (
            json!({"affinity": required(&json!([expressions("linux", &["amd64", "s390x"])]))}),
            false,
        ),
        // One of the terms has to match, not all.
        (
            json!({"affinity": required(&json!([expressions("linux", &["amd64"]), expressions("windows", &["amd64"])]))}),
            false,
        ),
        (
            json!({"affinity": required(&json!([expressions("linux", &["amd64"]), {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]))}),
            false,
        ),
        // The first that says it counts.
        (
            json!({"os": {"name": "windows"}, "nodeSelector": both("linux", "amd64")}),
            false,
        ),
        (
            json!({"affinity": required(&json!([expressions("linux", &["amd64"])])), "nodeSelector": both("windows", "amd64")}),
            true,
        ),
    ] {
        assert_eq!(is_swapped(unknown, &spec), swapped, "{spec}");
    }
}

#[test]
fn the_node_outranks_what_the_pod_says() {
    let node = RunsOn::named(Some("linux"), Some("amd64"));
    let spec =
        json!({"nodeSelector": {"kubernetes.io/os": "windows", "kubernetes.io/arch": "s390x"}});
    assert!(is_swapped(node, &spec));
    let node = RunsOn::named(Some("windows"), Some("amd64"));
    assert!(!is_swapped(node, &json!({"os": {"name": "linux"}})));
}

#[test]
fn wishes_that_are_null_say_nothing() {
    for wrong in [json!(null), json!({"nodeAffinity": null})] {
        assert!(!is_swapped(RunsOn::default(), &json!({"affinity": wrong})));
        let node = RunsOn::named(Some("linux"), Some("amd64"));
        assert!(is_swapped(node, &json!({"affinity": wrong})));
    }
}
