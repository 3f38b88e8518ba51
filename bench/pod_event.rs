//! What one pod event costs: `cargo bench --bench pod_event`.
//!
//! Prints the time to decode a watch event of a realistic pod and decide about it, on one core, and
//! the heap that is kept per pod. The budgets (design: 20 microseconds, 4 KB) are printed beside
//! them, not asserted: machines are shared and noisy.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark stops where its fixture is broken"
)]

use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

use kube::api::WatchEvent;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use swaplet::image::reference::ImageReference;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::terminate::index::Index;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::job::Job;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A pod of a Job as the API server sends it: two containers, a projected token, 3 KB of
/// managedFields.
const POD: &str = include_str!("pod.json");
/// The uid of its Job.
const JOB: &str = "cbb4fc4d-a65f-47e9-b514-eea737667987";
const PODS: usize = 10_000;
const EVENTS: u32 = 20_000;
const ROUNDS: u32 = 5;

fn main() {
    let event = watch_event(&pod(0, false));
    let done = watch_event(&pod(0, true));
    println!("one watch event: {} bytes of JSON", event.len());
    let mut index = index();
    println!(
        "reading past it (the floor):          {}",
        micros(best_of(|| skip(&event)))
    );
    println!(
        "decode alone:                         {}",
        micros(best_of(|| drop(black_box(decode(&event)))))
    );
    println!(
        "decode + decide, mains running:       {}  (budget 20 us)",
        micros(best_of(|| see(&mut index, &event)))
    );
    println!(
        "decode + decide, sidecar to be ended: {}  (budget 20 us)",
        micros(best_of(|| see(&mut index, &done)))
    );
    println!(
        "heap kept per pod, mains running:       {}  (budget 4096 B)",
        kept(false)
    );
    println!(
        "heap kept per pod, sidecar to be ended: {}  (budget 4096 B)",
        kept(true)
    );
}

fn index() -> Index {
    let exit_image =
        ImageReference::parse("registry.example.com/swaplet/exit:v1").expect("a reference");
    let mut index = Index::new(Rules {
        exit_images: ExitImages::new(Some(exit_image), Vec::new()),
        allowed: AllowedMethods::default(),
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    });
    let node = pod(0, false)["spec"]["nodeName"].clone();
    let node: NodeWire =
        serde_json::from_value(json!({"metadata": {"name": node, "uid": "1"}})).expect("a node");
    index.nodes.apply(&node.read().expect("a node"));
    // The Job of all pods is known, and none of them has to wait.
    let job = Job {
        uid: JOB.into(),
        backoff_limit: u32::MAX,
    };
    index.jobs(|headroom| headroom.job(&job), Duration::ZERO);
    index.list_ends(Duration::ZERO);
    index
}

fn decode(event: &str) -> PodWire {
    match serde_json::from_str(event) {
        Ok(WatchEvent::Modified(pod)) => pod,
        other => panic!("{other:?}"),
    }
}

fn skip(event: &str) {
    black_box(serde_json::from_str::<serde::de::IgnoredAny>(event).expect("JSON"));
}

fn see(index: &mut Index, event: &str) {
    let pod = decode(event).read().expect("a pod");
    black_box(index.apply(pod, Duration::from_secs(1)));
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn best_of(mut action: impl FnMut()) -> Duration {
    let round = |action: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..EVENTS).for_each(|_| action());
        start.elapsed() / EVENTS
    };
    (0..ROUNDS)
        .map(|_| round(&mut action))
        .min()
        .unwrap_or_default()
}

fn micros(time: Duration) -> String {
    format!("{:6.2} us", time.as_secs_f64() * 1e6)
}

fn kept(done: bool) -> String {
    let events: Vec<_> = (0..PODS)
        .map(|number| watch_event(&pod(number, done)))
        .collect();
    let mut index = index();
    let region = Region::new(ALLOCATOR);
    events.iter().for_each(|event| see(&mut index, event));
    let change = region.change();
    let bytes = change.bytes_allocated as isize + change.bytes_reallocated
        - change.bytes_deallocated as isize;
    assert_eq!(index.len(), PODS);
    format!("{:5} B", bytes / PODS as isize)
}

fn pod(number: usize, done: bool) -> Value {
    let mut pod: Value = serde_json::from_str(POD).expect("bench/pod.json");
    pod["metadata"]["name"] = json!(format!("nightly-report-{number:05}"));
    pod["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-{number:012}"));
    if !done {
        let statuses = pod["status"]["containerStatuses"]
            .as_array_mut()
            .expect("statuses");
        let main = statuses
            .iter_mut()
            .find(|status| status["name"] == "main")
            .expect("main");
        main["state"] = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    }
    pod
}

fn watch_event(pod: &Value) -> String {
    format!("{{\"type\":\"MODIFIED\",\"object\":{pod}}}")
}
