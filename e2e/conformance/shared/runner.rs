//! Runs many cases with a bound on how many at once, and makes those that fail small.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Mutex;

use super::compare::Difference;
use super::known::KnownList;
use super::report::{Failure, Report};

/// A fake and the real thing that it stands for.
pub trait Pair {
    /// What runs on both: a sequence of operations, a pod with its changes.
    type Case: Clone + Display;

    /// Runs that a failed case is worth in order to become small.
    const ATTEMPTS: usize;

    /// The case of this number.
    fn case(&self, number: usize) -> Self::Case;

    /// How many operations it has.
    fn size(case: &Self::Case) -> usize;

    /// The same case without one of its operations, for every operation that can be missing.
    fn smaller(case: &Self::Case) -> Vec<Self::Case>;

    /// Runs it on both sides in the place of this number, which nobody else uses meanwhile.
    async fn run(&self, case: &Self::Case, place: usize) -> Vec<Difference>;
}

/// After so many kinds of failures there is enough to look at.
const ENOUGH: usize = 20;

/// Runs these cases, `places` at once.
pub async fn run<P: Pair>(pair: &P, numbers: &[usize], places: usize, known: &KnownList) -> Report {
    let next = AtomicUsize::new(0);
    let report = Mutex::new(Report::default());
    let place = |place| work(pair, numbers, &next, &report, place, known);
    futures::future::join_all((0..places).map(place)).await;
    report.into_inner()
}

async fn work<P: Pair>(
    pair: &P,
    numbers: &[usize],
    next: &AtomicUsize,
    report: &Mutex<Report>,
    place: usize,
    known: &KnownList,
) {
    while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
        let case = pair.case(*number);
        let mut differences = unknown(pair, &case, place, known).await;
        if !differences.is_empty() {
            // The real side has a life of its own; what is a rule shows again.
            let once =
                std::mem::replace(&mut differences, unknown(pair, &case, place, known).await);
            if differences.is_empty() {
                report.lock().await.unsteady.push(Failure {
                    number: *number,
                    case: case.to_string(),
                    differences: once,
                });
            }
        }
        let fresh = report
            .lock()
            .await
            .take(P::size(&case), &differences, ENOUGH);
        if fresh {
            let (case, differences) = shrunk(pair, &case, differences, place, known).await;
            report.lock().await.failures.push(Failure {
                number: *number,
                case: case.to_string(),
                differences,
            });
        }
    }
}

async fn unknown<P: Pair>(
    pair: &P,
    case: &P::Case,
    place: usize,
    known: &KnownList,
) -> Vec<Difference> {
    let mut differences = pair.run(case, place).await;
    differences.retain(|difference| !known.has(difference));
    // What comes after the first one is mostly its consequence.
    let first = differences.iter().map(|difference| difference.step).min();
    differences.retain(|difference| Some(difference.step) == first);
    differences
}

/// The shortest case that still shows the same difference: what cannot be left out is what it
/// takes.
async fn shrunk<P: Pair>(
    pair: &P,
    case: &P::Case,
    differences: Vec<Difference>,
    place: usize,
    known: &KnownList,
) -> (P::Case, Vec<Difference>) {
    let (mut best, mut attempts) = ((case.clone(), differences), 0);
    'smaller: loop {
        for candidate in P::smaller(&best.0) {
            attempts += 1;
            if attempts > P::ATTEMPTS {
                return best;
            }
            let differences = unknown(pair, &candidate, place, known).await;
            if differences
                .iter()
                .any(|difference| same(difference, &best.1))
            {
                best = (candidate, differences);
                continue 'smaller;
            }
        }
        return best;
    }
}

fn same(one: &Difference, others: &[Difference]) -> bool {
    others
        .iter()
        .any(|other| one.operation == other.operation && one.path == other.path)
}
