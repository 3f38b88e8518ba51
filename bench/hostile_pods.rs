//! What pods cost that are made to cost much: `cargo bench --bench hostile_pods`.
//!
//! 200 pods of 1.3 MB go through what the controller does with them: a list in pages, decoding, the
//! index, and a decision about each. Printed are the heap, the peak of the process and the longest
//! decision, with the ratio to an honest pod. Nothing is judged.

#![expect(
    clippy::expect_used,
    reason = "a benchmark stops where its fixture is broken"
)]

use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

use kube::api::ObjectList;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use swaplet::image::reference::ImageReference;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::watch::Event;
use swaplet_controller::terminate::index::Index;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PODS: usize = 200;
/// What an API server takes, nearly.
const SIZE: usize = 1_300_000;
/// So many of them are in the largest answer that is read.
const PAGE: usize = (8 << 20) / SIZE;
const ROUNDS: u32 = 100;
/// When the pods are seen.
const SEEN: Moment = Moment::after_start(Duration::from_secs(1));

/// A way to be large.
type Shape = (&'static str, fn() -> Value);

const SHAPES: [Shape; 9] = [
    ("an image", || {
        container("side", json!({"image": long("r.example/", "a")}))
    }),
    ("WITH_IMAGE", || {
        container(
            "side",
            json!({"env": [mark(), variable("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE", &long("r.example/", "a"))]}),
        )
    }),
    ("a command", || {
        container("side", json!({"command": [long("/x/", "a")]}))
    }),
    ("a PATH", || {
        container(
            "side",
            json!({"command": ["sleep"], "env": [mark(), variable("PATH", &long("", "/a:"))]}),
        )
    }),
    ("variables", || {
        let doubled = (1..20_000).map(|nth| {
            variable(
                &format!("A{nth:05}"),
                &format!("$(A{0:05})$(A{0:05})", nth - 1),
            )
        });
        let env: Vec<Value> = std::iter::once(mark()).chain(doubled).collect();
        container("side", json!({"command": ["$(A00500)"], "env": env}))
    }),
    ("8000 variables", || {
        let doubled = (1..8_000).map(|nth| {
            variable(
                &format!("A{nth:05}"),
                &format!("$(A{0:05})$(A{0:05}){1}", nth - 1, "a".repeat(90)),
            )
        });
        let env: Vec<Value> = std::iter::once(mark()).chain(doubled).collect();
        container("side", json!({"command": ["$(A07999)"], "env": env}))
    }),
    ("mounts", || {
        container("side", json!({"volumeMounts": mounts(30_000)}))
    }),
    ("1000 mounts", || {
        container(
            "side",
            json!({"volumeMounts": mounts(1_000), "args": [long("", "a")]}),
        )
    }),
    ("a PATH beside 900 mounts", || {
        let env = json!([mark(), variable("PATH", &"/aaaa:".repeat(99))]);
        container(
            "side",
            json!({"command": ["sleep"], "env": env, "volumeMounts": mounts(900), "args": [long("", "a")]}),
        )
    }),
];

fn main() {
    let honest = page(std::iter::once(container(
        "side",
        json!({"command": ["/bin/sh"]}),
    )));
    let (_, honest) = longest(&honest, ROUNDS);
    println!("an honest pod: {} to decide", micros(honest));
    for (name, shape) in SHAPES {
        let text = page(std::iter::once(shape()));
        let (decode, decide) = longest(&text, 3);
        let ratio = decide.as_secs_f64() / honest.as_secs_f64();
        println!(
            "{name:26} {:9} bytes: decode {}, decide {} ({ratio:.0} times an honest one)",
            text.len(),
            micros(decode),
            micros(decide)
        );
    }
    all();
}

/// All of them at once, as after the start.
fn all() {
    let region = Region::new(ALLOCATOR);
    let mut index = index();
    let (mut peak, mut longest) = (0, Duration::ZERO);
    for first in (0..PODS).step_by(PAGE) {
        let text = page((first..PODS.min(first + PAGE)).map(|nth| SHAPES[nth % SHAPES.len()].1()));
        let pods: ObjectList<PodWire> = serde_json::from_str(&text).expect("a list");
        peak = peak.max(now(&region));
        for pod in pods.items {
            let pod = pod.read().expect("a pod");
            longest = longest.max(time(|| decided(&mut index, |index| index.apply(pod, SEEN))));
        }
    }
    let all = time(|| {
        decided(&mut index, |index| {
            index.wake(SEEN + Duration::from_secs(99))
        })
    });
    println!("{PODS} of them: {} kept", mib(now(&region)));
    println!(
        "peak heap, the text of a page included: {} (as seen between the steps)",
        mib(peak)
    );
    println!("longest decision: {}  (goal 10 ms)", micros(longest));
    println!(
        "a look at all of them, one after the other: {}",
        micros(all)
    );
    println!("peak of the process: {}  (goal 128 MiB)", peak_of_process());
}

fn index() -> Index {
    let exit_image =
        ImageReference::parse("registry.example.com/swaplet/exit:v1").expect("a reference");
    let mut index = Index::new(Rules {
        exit_images: ExitImages::new(Some(exit_image), Vec::new()).said_public(Public::Yes),
        allowed: AllowedMethods::default(),
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    });
    let node: NodeWire =
        serde_json::from_value(json!({"metadata": {"name": "n", "uid": "1", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}})).expect("a node");
    index.nodes.observe(Event::Applied(node));
    index.list_ends(Moment::START);
    index
}

/// The longest of some rounds through a page with one pod: to decode it, and to decide.
fn longest(text: &str, rounds: u32) -> (Duration, Duration) {
    let (mut decode, mut decide) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..rounds {
        let mut index = index();
        let mut list: Option<ObjectList<PodWire>> = None;
        decode = decode.max(time(|| list = serde_json::from_str(text).ok()));
        let pod = list.expect("a list").items.remove(0).read().expect("a pod");
        decide = decide.max(time(|| decided(&mut index, |index| index.apply(pod, SEEN))));
    }
    (decode, decide)
}

/// Calls the index, and takes what it has left to do.
fn decided(index: &mut Index, call: impl FnOnce(&mut Index)) {
    call(index);
    drop(black_box(index.take_effects()));
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn time(action: impl FnOnce()) -> Duration {
    let start = Instant::now();
    action();
    start.elapsed()
}

fn now(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated)
}

fn peak_of_process() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or_else(
            || "not known here".to_owned(),
            |text| text.trim().to_owned(),
        )
}

fn page(sidecars: impl Iterator<Item = Value>) -> String {
    let mut text = String::from(
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[",
    );
    for (nth, sidecar) in sidecars.enumerate() {
        if nth > 0 {
            text.push(',');
        }
        text.push_str(&pod(&sidecar).to_string());
    }
    text.push_str("]}");
    text
}

fn pod(sidecar: &Value) -> Value {
    // Another one each time.
    let uid =
        format!("{:p}", std::ptr::from_ref(sidecar)) + &ALLOCATOR.stats().allocations.to_string();
    let ended = json!({"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}});
    json!({"metadata": {"name": uid, "namespace": "ns", "uid": uid, "resourceVersion": "1"},
        "spec": {"restartPolicy": "Never", "nodeName": "n", "containers": [{"name": "main", "image": "main:1"}, sidecar], "volumes": [{"name": "v", "emptyDir": {}}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": ended}, {"name": "side", "state": {"running": {}}}]}})
}

fn container(name: &str, more: Value) -> Value {
    let mut container =
        json!({"name": name, "image": "side:1", "command": ["/bin/sleep"], "env": [mark()]});
    if let (Some(container), Value::Object(more)) = (container.as_object_mut(), more) {
        container.extend(more);
    }
    container
}

fn mark() -> Value {
    variable("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "true")
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn mounts(count: usize) -> Value {
    (0..count)
        .map(|nth| json!({"name": "v", "mountPath": format!("/data/a/{nth}")}))
        .collect()
}

fn long(start: &str, unit: &str) -> String {
    format!("{start}{}", unit.repeat(SIZE / unit.len()))
}

fn micros(time: Duration) -> String {
    format!("{:.0} us", time.as_secs_f64() * 1e6)
}

fn mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
