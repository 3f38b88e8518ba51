//! Jobs that allow few restarts: how long their pods take, and how many of one Job are ended at once.

use std::collections::HashMap;

use anyhow::{Context, Result};

use super::Session;
use crate::cluster::objects::{self, job_of, namespace};
use crate::cluster::seed;
use crate::cluster::server::User;
use crate::judge::audit::{Span, first_writes, last_writes};
use crate::metrics::{JOBS_AT_ONCE, Unit};

/// The default of Kubernetes: under `OnFailure` the sixth restart fails the Job.
const BACKOFF_LIMIT: u32 = 6;
const SET: &str = "jobs";

impl Session<'_> {
    /// As many pods as in the burst, of Jobs of 50 pods each.
    pub(super) async fn jobs(&mut self) -> Result<()> {
        let (count, writers) = (self.burst.uids.len(), self.options.writers);
        let pods = seed::pods(self.cluster, SET, count, BACKOFF_LIMIT, writers).await?;
        let entries = self.live(&pods, None).await?;
        let shown = first_writes(&entries, User::Node.name(), "pods/status", SET);
        let swaps = first_writes(&entries, self.contestant.user().name(), "pods", SET);
        let over = last_writes(&entries, User::Node.name(), "pods/status", SET);
        let first = shown.values().map(|span| span.received).min();
        let last = swaps.values().map(|span| span.answered).max();
        let micros = last.context("no swap")? - first.context("no status")?;
        self.record(
            "jobs: first status write to last swap",
            Unit::Seconds,
            micros as f64 / 1e6,
        );
        self.record(
            JOBS_AT_ONCE,
            Unit::Number,
            f64::from(at_once(&swaps, &over)),
        );
        Ok(())
    }
}

/// The most pods of one Job that were swapped and not over at any moment.
fn at_once(swaps: &HashMap<String, Span>, over: &HashMap<String, Span>) -> i32 {
    let mut jobs: HashMap<(String, String), Vec<(i64, i32)>> = HashMap::new();
    for (name, swap) in swaps {
        let Some((number, over)) = objects::number(name).zip(over.get(name)) else {
            continue;
        };
        jobs.entry((namespace(number), job_of(SET, number)))
            .or_default()
            .extend([(swap.received, 1), (over.received, -1)]);
    }
    let most_of = |mut steps: Vec<(i64, i32)>| {
        steps.sort_unstable();
        let under_way = steps.into_iter().scan(0, |under_way, (_, step)| {
            *under_way += step;
            Some(*under_way)
        });
        under_way.max().unwrap_or(0)
    };
    jobs.into_values().map(most_of).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_count_from_their_swap_to_their_end_and_by_their_job() {
        let span = |received| Span {
            received,
            answered: received,
        };
        // The first two are of one namespace and Job, the third is of another.
        let named = |times: [i64; 3]| {
            [0, 8, 1]
                .map(|number| objects::name(SET, number))
                .into_iter()
                .zip(times.map(span))
                .collect::<HashMap<_, _>>()
        };
        assert_eq!(at_once(&named([10, 20, 10]), &named([15, 25, 30])), 1);
        assert_eq!(at_once(&named([10, 20, 10]), &named([20, 25, 30])), 1);
        assert_eq!(at_once(&named([10, 20, 10]), &named([21, 25, 30])), 2);
    }
}
