//! How many instructions a pod event takes, as valgrind's callgrind counts them, against how many
//! it did take: a change that makes them more has to say so in `counts.txt`.
//!
//! They are counted in the program that `./test` builds, so without optimisation and by clippy's
//! compiler: a count is no time, but it is the same on each machine with processors of this kind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod counted;
#[path = "../../bench/figures.rs"]
mod figures;
#[path = "../../bench/one_pod.rs"]
#[expect(
    dead_code,
    reason = "what is kept of a pod is measured by another test"
)]
mod one_pod;

use std::collections::BTreeMap;
use std::process::Command;

use swaplet_controller::terminate::index::Write;
use swaplet_core::report::decision::Action;

use self::figures::Figures;
use self::one_pod::{decode, index, see, watch_event};

const COUNTS: Figures = Figures {
    file: "tests/instructions/counts.txt",
    about: "Instructions for one watch event of bench/pod.json on x86_64",
    higher: 0.05,
    lower: 0.10,
};
/// So many pods have an event each: where their uids come to lie in hash tables is another place in
/// each process.
const PODS: usize = 20;
/// The test that callgrind looks at.
const WORK: &str = "each_pod_is_swapped_when_its_mains_are_done_and_not_before";
/// It counts in these functions, and writes a file after each. Where both patterns are the same, it
/// takes the second for all there is (3.19).
const COUNT: &str = "--toggle-collect=*::counted::*";
const WRITE: &str = "--dump-after=instructions::counted::*";
/// How callgrind tells after which function a file of counts was written.
const TRIGGER: &str = "desc: Trigger: --dump-after=";

fn events(done: bool) -> Vec<String> {
    (0..PODS).map(|number| watch_event(number, done)).collect()
}

#[test]
fn each_pod_is_swapped_when_its_mains_are_done_and_not_before() {
    let (running, done) = (events(false), events(true));
    let mut index = index();
    // What is made once for all pods is made before anything is counted.
    let other = watch_event(PODS, true);
    see(&mut index, &other);
    let write = index.next_write(counted::NOW);
    assert_swap(&write.unwrap());
    running.iter().for_each(|event| see(&mut index, event));

    let pods = counted::decode(&running);
    assert_eq!(counted::decide_that_mains_run(&mut index, pods), None);
    let pods = done.iter().map(|event| decode(event).read().unwrap());
    let writes = counted::decide_to_swap(&mut index, pods.collect());
    assert_eq!(writes.len(), PODS);
    writes.iter().for_each(assert_swap);
}

fn assert_swap(write: &Write) {
    assert!(matches!(write.action, Action::Swap(_)), "{write:?}");
}

/// Instructions for an event, by the function in which they were counted.
fn counts() -> BTreeMap<String, usize> {
    let folder = tempfile::tempdir().unwrap();
    let files = format!(
        "--callgrind-out-file={}",
        folder.path().join("counts").display()
    );
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", &files])
        .args([COUNT, WRITE])
        .arg(std::env::current_exe().unwrap())
        .args([WORK, "--exact", "--test-threads=1"])
        .output()
        .expect("valgrind, which Debian has in a package of its name");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let files = std::fs::read_dir(folder.path()).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let counts: BTreeMap<_, _> = texts.filter_map(|text| count(&text)).collect();
    assert_eq!(counts.len(), 3, "{words}");
    counts
}

/// What a file of counts says, if it was written after a function that is counted.
fn count(text: &str) -> Option<(String, usize)> {
    let of = |key| text.lines().find_map(|line| line.strip_prefix(key));
    let function = of(TRIGGER)?.rsplit("::").next()?;
    let total: usize = of("totals: ")?.trim().parse().unwrap();
    Some((function.replace('_', " "), total / PODS))
}

#[test]
fn instructions_for_an_event_are_those_that_are_written_down() {
    COUNTS.hold(&counts());
}
