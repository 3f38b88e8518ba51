//! All small Jobs, as a controller that has just started finds them: each ends within a number of
//! steps that is linear in its pods, or says why not.
//!
//! A Job is a word, with a letter for each pod in the order in which the main containers ended:
//! `n` nothing was swapped, `s` the first sidecar was swapped and has ended, `c` nothing was
//! swapped and the first sidecar has failed once by itself, `r` the main container runs.

use super::objects::{Container, EXIT, Job, Kind, Pod, State};
use super::options::Options;
use super::wire::annotate;
use super::world::{Event, World};
use crate::seeds::{each, number};

const LETTERS: [char; 4] = ['n', 's', 'c', 'r'];
const MOST_PODS: u32 = 6;
const MOST_LIMIT: u64 = 6;
/// So many are tried each day, spread evenly over all; `SWAPLET_SEEDS` says another number.
const TRIED: u64 = 150;
/// A prime number that does not divide their number, so that each is met once.
const STRIDE: u64 = 100_003;
/// When the controller starts, and the first of the main containers ends that still run.
const STARTS: u64 = 20_000;
const LAST_MAINS_END: u64 = 100_000;
/// So long a Job is watched: it ends in much less, or waits for ever.
const WATCHED: u64 = 30 * 60 * 1000;
/// The most calls and effects of the index, and the most time, in milliseconds: for the Job, and
/// for each of its pods.
const STEPS: (u64, u64) = (200, 200);
const TIME: (u64, u64) = (150_000, 60_000);

#[derive(Clone, Debug)]
struct Small {
    word: String,
    sidecars: usize,
    limit: u32,
    in_order: bool,
    finish: bool,
}

impl Small {
    /// How many there are.
    fn number() -> u64 {
        let words: u64 = (1..=MOST_PODS).map(|pods| 4u64.pow(pods)).sum();
        words * 2 * MOST_LIMIT * 2 * 2
    }

    /// The one of this number.
    fn of(mut number: u64) -> Self {
        let mut digit = |base: u64| {
            let digit = number % base;
            number /= base;
            digit
        };
        let (in_order, finish) = (digit(2) == 0, digit(2) == 0);
        let (sidecars, limit) = (2 + digit(2) as usize, 1 + digit(MOST_LIMIT) as u32);
        let mut pods = 1;
        while number >= 4u64.pow(pods) {
            number -= 4u64.pow(pods);
            pods += 1;
        }
        let letter = |place| LETTERS[(number / 4u64.pow(place) % 4) as usize];
        Self {
            word: (0..pods).map(letter).collect(),
            sidecars,
            limit,
            in_order,
            finish,
        }
    }

    fn pod(&self, at: usize, letter: char) -> Pod {
        let ended = 1000 * (at as u64 + 1);
        let mut main = Container::new("main", Kind::Main);
        if letter != 'r' {
            main.state = State::ended(0, 0, ended);
        }
        let sidecar = |place: usize| Container {
            order: self.in_order.then_some(place as i32),
            ..Container::new(&format!("side{place}"), Kind::Plain)
        };
        let mut containers = vec![main];
        containers.extend((0..self.sidecars).map(sidecar));
        let first = &mut containers[1];
        if letter == 's' {
            first.image = EXIT.to_owned();
            first.run_image = EXIT.to_owned();
            first.swapped_at = Some(ended);
            first.state = State::ended(0, ended, ended);
        }
        if matches!(letter, 's' | 'c') {
            (first.id, first.restarts, first.last_code) = (2, 1, Some(143));
        }
        if letter == 'c' {
            first.crashed.push(0);
        }
        let mut pod = Pod {
            mains_done: (letter != 'r').then_some(ended),
            ..Pod::new(at, 0, containers)
        };
        annotate(&mut pod);
        pod
    }

    fn world(&self, is_traced: bool) -> World {
        let mut world = World::empty(Options::calm(1, self.finish), is_traced);
        world.jobs.push(Job {
            namespace: 0,
            uid: "job".to_owned(),
            limit: self.limit,
            failed: None,
            told: Vec::new(),
        });
        for (at, letter) in self.word.chars().enumerate() {
            world.pods.push(self.pod(at, letter));
            if letter == 'r' {
                let when = LAST_MAINS_END + 1000 * at as u64;
                world.at(when, Event::MainEnds(at, 0, 0));
            }
        }
        world.at(STARTS, Event::ControllerStarts);
        world
    }

    /// The restarts that its pods show have not failed the Job.
    fn can_be(&self) -> bool {
        let restarts = self
            .word
            .chars()
            .filter(|letter| matches!(letter, 's' | 'c'));
        (restarts.count() as u32) < self.limit
    }

    /// Runs it; returns its problems with what led to them.
    fn problems(&self) -> Option<String> {
        if !self.can_be() {
            return None;
        }
        let run = |is_traced| {
            let mut world = self.world(is_traced);
            world.run(WATCHED);
            self.check(&mut world);
            world
        };
        let first = run(false);
        if first.problems.is_empty() {
            return None;
        }
        let trace = run(true).trace.join("\n");
        Some(format!("{self:?}: {:#?}\n{trace}", first.problems))
    }

    fn check(&self, world: &mut World) {
        let pods = self.word.len() as u64;
        let (steps, most) = (world.steps, STEPS.0 + STEPS.1 * pods);
        if steps > most {
            world.problem(format!("{steps} steps, at most {most} were expected"));
        }
        let last = world.pods.iter().filter_map(|pod| pod.ended_at).max();
        let (last, most) = (last.unwrap_or(0), TIME.0 + TIME.1 * pods);
        if last > most {
            world.problem(format!("it ended after {last} ms, in {most} was expected"));
        }
    }
}

fn assert_none(problems: &[String], tried: u64) {
    assert!(
        problems.is_empty(),
        "{} of {tried} small Jobs have problems: {}",
        problems.len(),
        problems[..problems.len().min(super::SHOWN)].join("\n\n")
    );
}

#[test]
fn t1_g1_every_small_job_ends_within_steps_that_are_linear_in_its_pods() {
    let all = Small::number();
    let tried = number("SWAPLET_SEEDS", TRIED).min(all);
    let numbers = (0..tried).map(|place| place * STRIDE % all);
    let problems = each(numbers, |number| Small::of(number).problems());
    assert_none(&problems, tried);
}

/// Shapes of which it is known that the loop did not come back, and those beside them.
const KNOWN: [(&str, usize, u32); 20] = [
    ("nnss", 3, 4),
    ("nnsc", 3, 4),
    ("nscn", 3, 4),
    ("nsnc", 3, 4),
    ("cnsn", 3, 4),
    ("nnsnc", 3, 4),
    ("nnnnsc", 3, 4),
    ("nnsss", 3, 5),
    ("nnssss", 3, 6),
    ("nnsccc", 3, 6),
    ("nnsss", 2, 4),
    ("nnssc", 2, 4),
    ("nnscc", 2, 4),
    ("ns", 3, 4),
    ("nns", 3, 4),
    ("nss", 3, 4),
    ("nncc", 3, 4),
    ("ssnn", 3, 4),
    ("snnc", 3, 4),
    ("nnss", 3, 5),
];

#[test]
fn g1_the_shapes_that_stood_still_end() {
    let all = KNOWN.len() as u64 * 4;
    let problems = each(0..all, |number| {
        let (word, sidecars, limit) = KNOWN[(number / 4) as usize];
        let small = Small {
            word: word.to_owned(),
            sidecars,
            limit,
            in_order: number % 2 == 0,
            finish: number / 2 % 2 == 0,
        };
        small.problems()
    });
    assert_none(&problems, all);
}
