//! Every decoder, on objects that somebody has made to end the controller: none panics, and none
//! takes more memory than its input is worth.
//!
//! What it does follows from its seed, which it prints: `SWAPLET_SEED=NUMBER cargo test --test
//! fuzz` does the same again, for `SWAPLET_FUZZ_SECONDS` (10).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod corpus;
mod cost;
#[path = "../../bench/figures.rs"]
mod figures;
mod hot_upgrade;
mod mutate;
#[path = "../../bench/one_pod.rs"]
mod one_pod;
mod random;
mod registry;
mod targets;

use std::alloc::System;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use self::corpus::{Kind, Sample};
use self::random::Random;
use self::targets::Target;

/// Counts what is allocated. One test alone runs at a time, so all of it is for what it decodes.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
static ALONE: Mutex<()> = Mutex::new(());

/// What a decoder and the decisions about what it has read may allocate in all, so at once as well:
/// so much for each byte of the input.
const PER_BYTE: usize = 128;
/// And so much besides.
const BESIDES: usize = 2 << 20;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {value}"))
    })
}

/// Does one thing with a text, and fails where that takes too much.
fn check(target: &Target, text: &str) {
    let region = Region::new(ALLOCATOR);
    (target.run)(text);
    let taken = region.change().bytes_allocated;
    let most = target.most.unwrap_or(PER_BYTE * text.len() + BESIDES);
    let start: String = text.chars().take(2_000).collect();
    assert!(
        taken <= most,
        "{}: {taken} bytes for {} bytes of input: {start}",
        target.name,
        text.len()
    );
}

fn check_all(kind: Kind, text: &str) {
    targets::of(kind)
        .iter()
        .for_each(|target| check(target, text));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it ends after so many seconds")]
fn no_decoder_panics_or_takes_more_memory_than_its_input_is_worth() {
    let _alone = ALONE.lock().unwrap();
    let (seconds, seed) = (
        number("SWAPLET_FUZZ_SECONDS", 10),
        number("SWAPLET_SEED", u64::from(std::process::id())),
    );
    println!("SWAPLET_SEED={seed} for {seconds} s");
    let (start, mut random, mut count) = (Instant::now(), Random::new(seed), 0_u64);
    let samples = &*corpus::ALL;
    for Sample { kind, text } in samples {
        check_all(*kind, text);
    }
    while start.elapsed() < Duration::from_secs(seconds) {
        let sample = random.one_of(samples);
        let text = mutate::mutated(&sample.text, &mut random);
        assert!(text.len() <= mutate::LONGEST, "{} bytes", text.len());
        // The last thing printed is what has ended the process, where one did.
        if std::env::var_os("SWAPLET_FUZZ_SHOW").is_some() {
            println!(
                "{count} {:?} {}",
                sample.kind,
                text.chars().take(400).collect::<String>()
            );
        }
        check_all(sample.kind, &text);
        count += 1;
    }
    println!("{count} inputs, none of them too much");
    assert!(count > 0);
}
