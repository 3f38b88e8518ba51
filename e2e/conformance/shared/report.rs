//! What a run has found, for people.

use std::collections::HashSet;

use super::compare::Difference;
use super::known::KnownList;

/// A sequence on which the two sides disagree.
pub struct Failure {
    pub number: usize,
    pub case: String,
    pub differences: Vec<Difference>,
}

#[derive(Default)]
pub struct Report {
    pub sequences: usize,
    pub operations: usize,
    /// Sequences on which the two sides disagree.
    pub failed: usize,
    /// Sequences on which they disagreed once and not again.
    pub unsteady: Vec<Failure>,
    /// One of each kind, made small.
    pub failures: Vec<Failure>,
    kinds: HashSet<(String, String)>,
}

impl Report {
    /// Counts a sequence; whether it fails in a way that none before it did.
    pub fn take(&mut self, operations: usize, differences: &[Difference], enough: usize) -> bool {
        self.sequences += 1;
        self.operations += operations;
        let Some(first) = differences.first() else {
            return false;
        };
        self.failed += 1;
        self.kinds.len() < enough
            && self
                .kinds
                .insert((first.operation.clone(), first.path.clone()))
    }

    /// Prints everything.
    pub fn print(&self, pair: &str, seed: u64, known: &KnownList) {
        for failure in &self.failures {
            println!(
                "\n{pair}: SWAPLET_SEED={seed} SWAPLET_SEQUENCE={}, made small:\n{}",
                failure.number, failure.case
            );
            failure
                .differences
                .iter()
                .for_each(|difference| println!("  ! {difference}"));
        }
        let (met, stale) = known.by_use();
        met.iter().for_each(|(count, known)| {
            println!(
                "  known, {count} times: {} {}: {}",
                known.operation, known.path, known.why
            )
        });
        stale.iter().for_each(|known| {
            println!(
                "  STALE: {} {} was not met: {}",
                known.operation, known.path, known.why
            )
        });
        for once in &self.unsteady {
            println!(
                "  differed once and not again: sequence {}: {}",
                once.number, once.differences[0]
            );
        }
        let Self {
            sequences,
            operations,
            failed,
            ..
        } = self;
        println!(
            "conformance: {pair}: {sequences} sequences, {operations} operations, {failed} differences, {} known",
            known.count()
        );
    }

    /// Whether there is nothing to tell but what is known.
    pub fn is_clean(&self) -> bool {
        self.failed == 0
    }
}
