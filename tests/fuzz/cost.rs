//! What a pod costs, against what it did cost: a change that makes the controller allocate more for
//! each event, or keep more of each pod, has to say so in `cost.txt`.
//!
//! Nothing here takes time: what is allocated is the same on each machine.
//! `SWAPLET_UPDATE_COSTS=1 cargo test --test fuzz costs` writes the file anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use stats_alloc::{Region, Stats};

use crate::one_pod::{decode, index, kept, see, watch_event};
use crate::{ALLOCATOR, ALONE};

const PODS: usize = 200;
/// Other threads of the test program may allocate as well: the least of so many tries is without.
const TRIES: usize = 5;
/// A figure may be higher by this share; one that is lower by more than the second is out of date.
const HIGHER: f64 = 0.03;
const LOWER: f64 = 0.10;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/cost.txt")
}

/// What an action allocates, at least.
fn least(mut action: impl FnMut()) -> Stats {
    let mut tries = (0..TRIES).map(|_| {
        let region = Region::new(ALLOCATOR);
        action();
        region.change()
    });
    let first = tries.next().unwrap();
    tries.fold(first, |least, other| {
        if other.bytes_allocated < least.bytes_allocated {
            other
        } else {
            least
        }
    })
}

fn costs() -> BTreeMap<String, usize> {
    let mut costs = BTreeMap::new();
    let mut add = |what: &str, value| {
        costs.insert(what.to_owned(), value);
    };
    let (runs, done) = (watch_event(0, false), watch_event(0, true));
    let mut seen = index();
    let mut event = |what: &str, stats: Stats| {
        add(
            &format!("{what}, allocations"),
            stats.allocations + stats.reallocations,
        );
        add(&format!("{what}, bytes"), stats.bytes_allocated);
    };
    event(
        "decode an event",
        least(|| drop(std::hint::black_box(decode(&runs)))),
    );
    event(
        "decode and decide, mains run",
        least(|| see(&mut seen, &runs)),
    );
    event(
        "decode and decide, a sidecar is to be ended",
        least(|| see(&mut seen, &done)),
    );
    add("kept of a pod, mains run, bytes", kept_per_pod(false));
    add(
        "kept of a pod, a sidecar is to be ended, bytes",
        kept_per_pod(true),
    );
    costs
}

fn kept_per_pod(done: bool) -> usize {
    let events: Vec<_> = (0..PODS).map(|number| watch_event(number, done)).collect();
    let mut index = index();
    let region = Region::new(ALLOCATOR);
    events.iter().for_each(|event| see(&mut index, event));
    let bytes = kept(&region.change());
    assert_eq!(index.len(), PODS);
    bytes / PODS
}

fn written(costs: &BTreeMap<String, usize>) -> String {
    let mut text = String::from(
        "# What one watch event of bench/pod.json takes, and what is kept of a pod: SWAPLET_UPDATE_COSTS=1 cargo test --test fuzz costs\n",
    );
    for (what, value) in costs {
        writeln!(text, "{what}: {value}").unwrap();
    }
    text
}

fn read(text: &str) -> BTreeMap<String, usize> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (what, value) = line.split_once(": ").unwrap();
            (what.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// What is wrong with a figure, if something is.
fn complaint(what: &str, was: usize, is: usize) -> Option<String> {
    let ratio = is as f64 / was as f64 - 1.0;
    let words = if ratio > HIGHER {
        "more than it was"
    } else if ratio < -LOWER {
        "so much less that the file no longer holds it"
    } else {
        return None;
    };
    Some(format!("{what}: {is}, and {was} in cost.txt: {words}"))
}

#[test]
fn costs_of_a_pod_are_those_that_are_written_down() {
    let _alone = ALONE.lock().unwrap();
    let costs = costs();
    if std::env::var_os("SWAPLET_UPDATE_COSTS").is_some() {
        std::fs::write(file(), written(&costs)).unwrap();
    }
    let known = read(&std::fs::read_to_string(file()).unwrap());
    assert!(
        known.keys().eq(costs.keys()),
        "cost.txt has other rows: {:?}",
        known.keys()
    );
    let complaints: Vec<_> = costs
        .iter()
        .filter_map(|(what, is)| complaint(what, known[what], *is))
        .collect();
    assert!(
        complaints.is_empty(),
        "{}\nSWAPLET_UPDATE_COSTS=1 writes the file anew; say in the commit why it costs what it does",
        complaints.join("\n")
    );
}

#[test]
fn costs_are_complained_about_in_both_directions() {
    assert_eq!(complaint("x", 1000, 1029), None);
    assert_eq!(complaint("x", 1000, 901), None);
    assert!(
        complaint("x", 1000, 1031)
            .unwrap()
            .contains("more than it was")
    );
    assert!(complaint("x", 1000, 899).unwrap().contains("less"));
}
