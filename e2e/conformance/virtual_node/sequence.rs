//! A pod and what happens to it at which time.

use std::fmt::{self, Display};
use std::time::Duration;

use serde_json::{Value, json};

use super::plan::{self, Change};
use super::profile::PROFILES;
use crate::shared::random::Random;

/// What is far enough from any change to be before or after it on a busy machine, too.
const MARGIN: Duration = Duration::from_millis(700);
/// How long a start takes: where the end of a container is not shown, its next start tells.
const START: Duration = Duration::from_millis(200);
/// Changes of different containers are at one moment or so far apart.
const ONE_MOMENT: Duration = Duration::from_millis(60);
const APART: Duration = Duration::from_millis(350);
/// Operations and the end are at multiples of this.
const GRID: Duration = Duration::from_millis(100);
/// How long after the last operation something may still happen that is looked at.
const AFTER: Duration = Duration::from_secs(5);
/// A pod goes on for so long after the last operation, at least.
const SETTLE: Duration = Duration::from_millis(1500);

pub const WORK: &str = "example.com/work:1";

#[derive(Clone, Debug)]
pub enum Operation {
    Image(usize, &'static str),
    Label(usize),
    Delete(u32),
    Phase(&'static str),
}

/// Times count from the moment when all containers are seen running.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Which of [`PROFILES`].
    pub profile: usize,
    pub policy: &'static str,
    pub words: Vec<Vec<&'static str>>,
    pub operations: Vec<(Duration, Operation)>,
    /// When it is looked at for the last time.
    pub end: Duration,
}

impl Sequence {
    /// Operations are placed where the fake has nothing else to do, so that no order depends on who
    /// is faster.
    pub fn new(random: &mut Random, profile: usize) -> Self {
        loop {
            let mut made = Self::pod(random, profile);
            let wanted = 1 + random.below(3);
            for _ in 0..wanted * 3 {
                if made.operations.len() == wanted || made.is_over() {
                    break;
                }
                made.add(random);
            }
            if made.operations.is_empty() {
                continue;
            }
            let changes = made.look();
            let earliest = made.last() + SETTLE;
            if let Some(end) =
                grid(earliest, made.last() + AFTER).find(|end| is_clear(*end, &changes))
            {
                made.end = end;
                return made;
            }
        }
    }

    fn pod(random: &mut Random, profile: usize) -> Self {
        let count = random.weighted(&[(2, 1), (4, 2), (2, 3)]);
        let words = (0..count).map(|_| words(random)).collect();
        let policy = random.weighted(&[(3, "Never"), (3, "OnFailure"), (2, "Always")]);
        Self {
            profile,
            policy,
            words,
            operations: Vec::new(),
            end: Duration::ZERO,
        }
    }

    fn add(&mut self, random: &mut Random) {
        let operation = self.operation(random);
        let changes = self.look();
        // A library that is told of something else while it tries a refused status again waits for
        // its next try with that as well.
        if changes.iter().any(|change| change.is_refused) {
            return;
        }
        // The start is a change as well.
        let earliest = self.last() + MARGIN;
        let free: Vec<_> = grid(earliest, earliest + AFTER)
            .filter(|at| is_clear(*at, &changes))
            .take(8)
            .collect();
        if free.is_empty() {
            return;
        }
        self.operations.push((random.pick(&free), operation));
        if is_crowded(&self.look()) {
            self.operations.pop();
        }
    }

    fn operation(&self, random: &mut Random) -> Operation {
        match random.below(100) {
            0..60 => {
                let container = random.below(self.words.len());
                let image = random.weighted(&[
                    (5, "example.com/exit:1"),
                    (2, "example.com/park:1"),
                    (2, "example.com/work:2"),
                    (1, WORK),
                ]);
                Operation::Image(container, image)
            }
            60..75 => Operation::Label(random.below(3)),
            // Whoever is killed at the end of the grace period may be shown before the pod is gone
            // or not, so nobody is.
            75..88 if !self.ignores_sigterm() => Operation::Delete(random.pick(&[3, 4])),
            _ => Operation::Phase(random.pick(&["Succeeded", "Failed", "Pending", "Running"])),
        }
    }

    fn look(&self) -> Vec<Change> {
        plan::changes(self, self.last() + AFTER * 2)
    }

    fn last(&self) -> Duration {
        self.operations.last().map_or(Duration::ZERO, |(at, _)| *at)
    }

    fn ignores_sigterm(&self) -> bool {
        self.words
            .iter()
            .flatten()
            .any(|word| *word == "term=ignore")
    }

    /// Whether the pod is deleted.
    pub fn is_over(&self) -> bool {
        matches!(self.operations.last(), Some((_, Operation::Delete(_))))
    }

    /// The same without one of its operations; what stays keeps its time.
    pub fn smaller(&self) -> Vec<Self> {
        let without = |index| {
            let mut smaller = self.clone();
            smaller.operations.remove(index);
            smaller
        };
        (0..self.operations.len()).map(without).collect()
    }

    pub fn body(&self, name: &str, node: &str) -> Value {
        let container = |(index, words): (usize, &Vec<&str>)| json!({"name": container_name(index), "image": WORK, "args": words});
        let containers: Vec<Value> = self.words.iter().enumerate().map(container).collect();
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"a": "0"}},
            "spec": {"nodeName": node, "restartPolicy": self.policy, "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false, "containers": containers}})
    }
}

pub fn container_name(index: usize) -> String {
    format!("c{index}")
}

impl Display for Sequence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "  {}, restartPolicy {}",
            PROFILES[self.profile].name, self.policy
        )?;
        for (index, words) in self.words.iter().enumerate() {
            writeln!(out, "  {}: {}", container_name(index), words.join(" "))?;
        }
        for (at, operation) in &self.operations {
            writeln!(out, "  {:.1} s: {operation:?}", at.as_secs_f64())?;
        }
        writeln!(out, "  {:.1} s: end", self.end.as_secs_f64())
    }
}

fn words(random: &mut Random) -> Vec<&'static str> {
    let run = random.weighted(&[
        (5, "run=forever"),
        (2, "run=500ms"),
        (1, "run=800ms"),
        (1, "run=1s"),
        (2, "run=1.5s"),
    ]);
    let mut words = vec![run];
    if random.percent(35) {
        words.push(random.pick(&["exit=1", "exit=3"]));
    }
    if random.percent(60) {
        words.push(random.pick(&["term=0", "term=0", "term=7", "term=ignore"]));
    }
    if random.percent(30) {
        words.push(random.pick(&["term-after=400ms", "term-after=1500ms"]));
    }
    words
}

fn grid(from: Duration, to: Duration) -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(from), |at| Some(*at + GRID)).take_while(move |at| *at <= to)
}

fn is_clear(at: Duration, changes: &[Change]) -> bool {
    let far = |change: Duration| at.abs_diff(change) >= MARGIN;
    // What is seen at zero is what times count from.
    changes
        .iter()
        .filter(|change| !change.at.is_zero())
        .all(|change| far(change.at) && far(change.at.saturating_sub(START)))
}

/// Whether the order of two changes could be another one on a busy machine.
fn is_crowded(changes: &[Change]) -> bool {
    let close = |one: &Change, other: &Change| {
        let related = one.containers.is_subset(&other.containers)
            || other.containers.is_subset(&one.containers);
        let apart = one.at.abs_diff(other.at);
        !related && apart > ONE_MOMENT && apart < APART
    };
    changes
        .iter()
        .enumerate()
        .any(|(index, one)| changes[index + 1..].iter().any(|other| close(one, other)))
}
