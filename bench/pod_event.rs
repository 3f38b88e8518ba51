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

#[path = "one_pod.rs"]
mod one_pod;

use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use one_pod::{decode, index, see, watch_event};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PODS: usize = 10_000;
const EVENTS: u32 = 20_000;
const ROUNDS: u32 = 5;

fn main() {
    let event = watch_event(0, false);
    let done = watch_event(0, true);
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

fn skip(event: &str) {
    black_box(serde_json::from_str::<serde::de::IgnoredAny>(event).expect("JSON"));
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
    let events: Vec<_> = (0..PODS).map(|number| watch_event(number, done)).collect();
    let mut index = index();
    let region = Region::new(ALLOCATOR);
    events.iter().for_each(|event| see(&mut index, event));
    let bytes = one_pod::kept(&region.change());
    assert_eq!(index.len(), PODS);
    format!("{:5} B", bytes / PODS)
}
