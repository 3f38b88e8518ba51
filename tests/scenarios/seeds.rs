//! What is tried for many seeds: on all processors, and none of it for ever.

use std::collections::BTreeSet;
use std::iter::repeat_n;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// After so long without a result a loop is taken for one that does not come back: each seed takes a
/// fraction of a second, on a machine that is not loaded.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(300);

/// The number of this variable of the environment, or the usual one.
pub fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Calls this for each number, in threads that are left alone where they do not come back; returns
/// what it returned. One that panics does not come back.
pub fn each(numbers: impl Iterator<Item = u64>, of: fn(u64) -> Option<String>) -> Vec<String> {
    let all: Vec<_> = numbers.collect();
    let (sender, results) = channel();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = Arc::new(Mutex::new(all.clone().into_iter()));
    for (sender, work) in repeat_n((sender, work), threads) {
        thread::spawn(move || {
            loop {
                let next = work.lock().unwrap().next();
                let Some(number) = next else { return };
                if sender.send((number, of(number))).is_err() {
                    return;
                }
            }
        });
    }
    let (mut told, mut open) = (Vec::new(), all.iter().copied().collect::<BTreeSet<_>>());
    while !open.is_empty() {
        match results.recv_timeout(COMES_BACK_WITHIN) {
            Ok((number, result)) => {
                open.remove(&number);
                told.extend(result);
            }
            Err(error) => {
                let first: Vec<_> = open.iter().take(threads).collect();
                told.insert(0, format!("{first:?} do not come back: {error}"));
                break;
            }
        }
    }
    told
}
