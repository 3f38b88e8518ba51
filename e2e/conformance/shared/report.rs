//! What a run has found, for people.

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
    pub failures: Vec<Failure>,
}

impl Report {
    /// Prints everything.
    pub fn print(&self, pair: &str, seed: u64, known: &KnownList) {
        for failure in &self.failures {
            println!("\n{pair}: SWAPLET_SEED={seed} SWAPLET_SEQUENCE={}, made small:\n{}", failure.number, failure.case);
            failure.differences.iter().for_each(|difference| println!("  ! {difference}"));
        }
        let (met, stale) = known.by_use();
        met.iter().for_each(|(count, known)| println!("  known, {count} times: {} {}: {}", known.operation, known.path, known.why));
        stale.iter().for_each(|known| println!("  STALE: {} {} was not met: {}", known.operation, known.path, known.why));
        let (sequences, operations, failed) = (self.sequences, self.operations, self.failures.len());
        println!("conformance: {pair}: {sequences} sequences, {operations} operations, {failed} differences, {} known", known.count());
    }

    /// Whether there is nothing to tell but what is known.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }
}
