//! What a pod costs, against what it did cost: a change that makes the controller allocate more for
//! each event, or keep more of each pod, has to say so in `cost.txt`.
//!
//! Nothing here takes time: what is allocated is the same on each machine.

use std::collections::BTreeMap;

use stats_alloc::{Region, Stats};

use crate::figures::Figures;
use crate::one_pod::{decode, index, kept, see, watch_event};
use crate::{ALLOCATOR, ALONE};

const COSTS: Figures = Figures {
    file: "tests/fuzz/cost.txt",
    about: "What one watch event of bench/pod.json takes, and what is kept of a pod",
    higher: 0.03,
    lower: 0.10,
};

const PODS: usize = 200;
/// Other threads of the test program may allocate as well: the least of so many tries is without.
const TRIES: usize = 5;

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

#[test]
fn costs_of_a_pod_are_those_that_are_written_down() {
    let _alone = ALONE.lock().unwrap();
    COSTS.hold(&costs());
}

#[test]
fn costs_are_complained_about_in_both_directions() {
    let complaint = |is| COSTS.complaint("x", 1000, is);
    assert_eq!(complaint(1029), None);
    assert_eq!(complaint(901), None);
    assert!(complaint(1031).unwrap().contains("3.1 % more than it was"));
    assert!(complaint(899).unwrap().contains("10.1 % less"));
}
