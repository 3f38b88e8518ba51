//! What policies cost an event of a pod: `cargo bench --bench policies`.
//!
//! Prints the time to find the rules of a pod among 500 policies, also in the worst case in which
//! each of them is about its containers by name and none by its labels, beside the time to decode
//! the pod; what each of 10,000 pods with two marked sidecars takes more in memory; and, which does
//! not grow with the pods, what the policies and the answers that are kept of them take. The budgets
//! (50 microseconds, 256 bytes) are printed beside it, not asserted: machines are shared and noisy.

#![expect(
    clippy::expect_used,
    reason = "a benchmark stops where its fixture is broken"
)]

use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;
use swaplet_core::policies::set::Policies;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const POLICIES: usize = 500;
const PODS: u32 = 10_000;
const ROUNDS: u32 = 5;

/// `spec` of the policy of this number.
type Spec = fn(usize) -> Value;

fn main() {
    let pods: Vec<_> = (0..PODS).map(|nth| pod(nth).to_string()).collect();
    let floor = per_event(&pods, &mut policies(0, |_| json!({})));
    let kept_floor = kept(&pods, 0, |_| json!({}));
    println!("decode alone:                          {}", micros(floor));
    let rows: [(&str, Spec); 3] = [
        (
            "500 policies, the last is about it:   ",
            |nth| json!({"sidecars": [{"name": if nth + 1 == POLICIES { "log" } else { "other" }}]}),
        ),
        (
            "500 policies, none by its labels:     ",
            |nth| json!({"podSelector": {"matchLabels": {"team": format!("t{nth}")}}, "sidecars": [{"name": "l*"}, {"preset": "istio"}]}),
        ),
        ("500 policies with 32 patterns each:   ", |nth| {
            let rule = |rule: usize| json!({"name": format!("*x{nth}-{rule}*"), "image": "*/fluent-bit:*"});
            json!({"sidecars": (0..32).map(rule).collect::<Vec<_>>()})
        }),
    ];
    for (words, spec) in rows {
        let region = Region::new(ALLOCATOR);
        let all = policies(POLICIES, spec);
        let of_policies = bytes(&region) / 1024;
        drop(all);
        let with = per_event(&pods, &mut policies(POLICIES, spec));
        let kept = kept(&pods, POLICIES, spec);
        println!(
            "{words} {} more, {:.1} times the decoding (budget 50 us); {:3} B more per pod (budget 256 B); the policies {of_policies:5} KiB, answers {:5} KiB",
            micros(with.saturating_sub(floor)),
            with.as_secs_f64() / floor.as_secs_f64(),
            kept.per_pod - kept_floor.per_pod,
            kept.answers / 1024
        );
    }
}

fn policies(count: usize, spec: Spec) -> Policies {
    let mut policies = Policies::default();
    for nth in 0..count {
        let metadata = json!({"name": format!("p{nth:03}"), "uid": nth.to_string()});
        let object = BoundedObject::from(json!({"metadata": metadata, "spec": spec(nth)}));
        policies.apply(&SidecarPolicy::read(PolicyKind::Cluster, object).expect("it has a name"));
    }
    policies
}

/// Three containers and ten labels, in one of 50 namespaces.
fn pod(nth: u32) -> Value {
    let labels: serde_json::Map<_, _> = (0..10)
        .map(|label| {
            (
                format!("example.com/label-{label}"),
                json!(format!("v{nth}")),
            )
        })
        .collect();
    let metadata = json!({"name": format!("p{nth}"), "namespace": format!("ns{}", nth % 50), "uid": nth.to_string(), "labels": labels,
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]});
    let containers = ["main", "log", "proxy"].map(|name| {
        let mark = json!({"name": WHEN_JOB_EXIT, "value": (name != "main").to_string()});
        json!({"name": name, "image": format!("registry.example/team/{name}:v1"), "env": [mark]})
    });
    json!({"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": containers}})
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn per_event(pods: &[String], policies: &mut Policies) -> Duration {
    let round = |policies: &mut Policies| {
        let start = Instant::now();
        for pod in pods {
            let wire: PodWire = serde_json::from_str(pod).expect("it decodes");
            drop(black_box(wire.read_with(|pod, labels| {
                policies.mark(pod, labels, |_| false);
            })));
        }
        start.elapsed() / PODS
    };
    (0..ROUNDS)
        .map(|_| round(policies))
        .min()
        .unwrap_or_default()
}

/// What is kept.
struct Kept {
    /// Bytes of each pod.
    per_pod: isize,
    /// Bytes of the answers that policies keep.
    answers: isize,
}

/// Pods own what goes with them; what else has been allocated since is what policies keep.
fn kept(pods: &[String], count: usize, spec: Spec) -> Kept {
    let mut policies = policies(count, spec);
    let region = Region::new(ALLOCATOR);
    let read = |pod: &String| {
        let wire: PodWire = serde_json::from_str(pod).expect("it decodes");
        wire.read_with(|pod, labels| policies.mark(pod, labels, |_| false))
    };
    let all: Vec<_> = pods.iter().map(read).collect();
    let with_pods = bytes(&region);
    drop(black_box(all));
    let answers = bytes(&region);
    drop(black_box(policies));
    Kept {
        per_pod: (with_pods - answers) / pods.len().cast_signed(),
        answers,
    }
}

/// What has been allocated since then and is still there: what a reallocation adds counts as
/// allocated.
fn bytes(region: &Region<'_, System>) -> isize {
    let change = region.change();
    change.bytes_allocated.cast_signed() - change.bytes_deallocated.cast_signed()
}

fn micros(time: Duration) -> String {
    format!("{:6.1} us", time.as_secs_f64() * 1e6)
}
