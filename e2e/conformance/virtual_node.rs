//! The mock node's virtual profiles against the real virtual-kubelet library.
//!
//! A sequence is a pod on a node of one of the [`profile`]s and up to three operations on it. The
//! real side is a program on the real library (`e2e/virtual-kubelet-mock`) at the real API server,
//! in real time; the fake is ours at the embedded one, in virtual time. The same code plays both.
//! What the containers do stands in their arguments; operations are placed far from all that
//! happens by itself.

mod differences;
mod fake;
mod plan;
mod play;
mod profile;
mod real;
mod sequence;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::Value;

use crate::shared::compare::{Difference, differences};
use crate::shared::known::KnownList;
use crate::shared::random::{Random, numbers, only, seed};
use crate::shared::runner::{Pair, run};
use differences::VIRTUAL_NODE;
use play::Outcome;
use profile::PROFILES;
use real::Real;
use sequence::Sequence;

/// Pods at once.
const PLACES: usize = 32;
/// An operation that is later than this says nothing, and the sequence is played again.
const LATE: Duration = Duration::from_millis(400);
const TRIES: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_nodes() {
    let numbers = numbers();
    let cases = made(&numbers);
    let nodes = Nodes {
        cases,
        real: Real::start().await,
        runs: AtomicUsize::new(0),
    };
    let known = KnownList::new(VIRTUAL_NODE);
    let report = AssertUnwindSafe(run(&nodes, &numbers, PLACES.min(numbers.len()), &known))
        .catch_unwind()
        .await;
    nodes.real.clean().await;
    let report = report.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    report.print("virtual nodes", seed(), &known);
    assert!(
        report.is_clean(),
        "the mock node differs from the real virtual-kubelet"
    );
}

/// All sequences, made before the first is played: whoever is busy sees everything late.
fn made(numbers: &[usize]) -> HashMap<usize, Sequence> {
    let made = |number: &usize| {
        (
            *number,
            Sequence::new(
                &mut Random::of_sequence(seed(), *number),
                number % PROFILES.len(),
            ),
        )
    };
    numbers.iter().map(made).collect()
}

struct Nodes {
    cases: HashMap<usize, Sequence>,
    real: Real,
    /// Runs so far: each has a pod of its own.
    runs: AtomicUsize,
}

impl Pair for Nodes {
    type Case = Sequence;

    const ATTEMPTS: usize = 60;

    fn case(&self, number: usize) -> Sequence {
        self.cases[&number].clone()
    }

    fn size(case: &Sequence) -> usize {
        case.operations.len()
    }

    fn smaller(case: &Sequence) -> Vec<Sequence> {
        case.smaller()
    }

    async fn run(&self, case: &Sequence, _: usize) -> Vec<Difference> {
        let real = self.play(case).await;
        let of_fake = case.clone();
        let fake = tokio::task::spawn_blocking(move || fake::play(&of_fake))
            .await
            .unwrap();
        if only().is_some() {
            println!("{case}real {:#}\nfake {:#}", real.seen, fake.seen);
        }
        let difference = |(path, real, fake): (String, Value, Value)| {
            let path = path.trim_start_matches('.').to_owned();
            Difference {
                step: 0,
                operation: PROFILES[case.profile].name.to_owned(),
                path,
                real,
                fake,
            }
        };
        differences("", &real.seen, &fake.seen)
            .into_iter()
            .map(difference)
            .collect()
    }
}

impl Nodes {
    /// On the real library; once more where the machine was too slow for the times to mean
    /// anything.
    async fn play(&self, case: &Sequence) -> Outcome {
        let node = self.real.node(case.profile);
        let mut tries = 0;
        loop {
            tries += 1;
            let name = format!("pod-{}", self.runs.fetch_add(1, Ordering::Relaxed));
            let outcome = play::play(
                self.real.client.clone(),
                &self.real.namespace,
                &name,
                &node,
                case,
            )
            .await;
            if outcome.late < LATE || tries == TRIES {
                return outcome;
            }
        }
    }
}
