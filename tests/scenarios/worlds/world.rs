//! The world: its clock, and what happens in it next.

use std::collections::BTreeMap;

use super::controller::Controller;
use super::kubelet::Work;
use super::objects::{InFlight, Job, Pod};
use super::options::{Dice, Options};
use super::server::{Answer, Namespace};
use super::watch::Queue;

/// What happens: to a pod, to a container of it (and only if it still is the one of this number),
/// to a namespace, to a write, to the controller.
#[derive(Clone, Debug)]
pub enum Event {
    MainEnds(usize, usize, i32),
    Fails(usize, usize, u32, i32),
    BacksOff(usize, usize, u32),
    Retries(usize, usize, u32),
    Syncs(usize),
    Stopped(usize, usize, u32, Work),
    Starts(usize, Work),
    Publishes(usize),
    IsTakenDown(usize),
    IsDown(usize, usize),
    Deleted(usize),
    IsGone(usize),
    Delivers(usize),
    Applies(u64),
    Answers(u64),
    IsDerived(Vec<String>, bool),
    JobIsSeen(usize),
    JobsAreSeen,
    ControllerStarts,
    ControllerDies,
    Lists,
    Relist,
    PartList(usize),
    PartListEnds,
}

/// A world. Times are in milliseconds since it began.
pub struct World {
    pub options: Options,
    pub dice: Dice,
    /// For what came later to worlds: without it, a seed tells of the same world as before.
    pub more: Dice,
    pub now: u64,
    number: u64,
    events: BTreeMap<(u64, u64), Event>,
    pub namespaces: Vec<Namespace>,
    pub queues: Vec<Queue>,
    pub jobs: Vec<Job>,
    pub pods: Vec<Pod>,
    pub controller: Controller,
    /// How many lives and deaths there were.
    pub life: u64,
    pub writes: BTreeMap<u64, InFlight>,
    /// How often the controller was called, and what it did.
    pub steps: u64,
    pub problems: Vec<String>,
    pub trace: Vec<String>,
    is_traced: bool,
}

impl World {
    /// A world without pods.
    pub fn empty(options: Options, is_traced: bool) -> Self {
        let mut dice = Dice::new(options.seed.wrapping_mul(7919));
        let namespace = |number| Namespace {
            name: format!("ns{number}"),
            to_swaps: Answer::Applied,
            to_finishes: Answer::Applied,
        };
        let namespaces: Vec<_> = (0..dice.between(1, 4)).map(namespace).collect();
        Self {
            dice,
            more: Dice::new(options.seed ^ 0x5EED),
            now: 0,
            number: 0,
            events: BTreeMap::new(),
            queues: namespaces.iter().map(|_| Queue::default()).collect(),
            namespaces,
            jobs: Vec::new(),
            pods: Vec::new(),
            controller: Controller::new(&options, 0, false),
            life: 0,
            writes: BTreeMap::new(),
            steps: 0,
            problems: Vec::new(),
            trace: Vec::new(),
            is_traced,
            options,
        }
    }

    /// The world of a seed.
    pub fn random(options: Options, is_traced: bool) -> Self {
        let mut world = Self::empty(options, is_traced);
        world.populate();
        world
    }

    pub fn log(&mut self, text: impl FnOnce() -> String) {
        if self.is_traced {
            let line = format!("{:>9.3} {}", self.now as f64 / 1000.0, text());
            self.trace.push(line);
        }
    }

    pub fn problem(&mut self, text: String) {
        self.log(|| format!("PROBLEM {text}"));
        self.problems
            .push(format!("{:.3}: {text}", self.now as f64 / 1000.0));
    }

    /// A number that nothing else in this world has.
    pub fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub fn at(&mut self, when: u64, event: Event) {
        let number = self.number();
        self.events.insert((when.max(self.now), number), event);
    }

    pub fn after(&mut self, ms: u64, event: Event) {
        self.at(self.now + ms, event);
    }

    /// Goes on until all pods have ended for two minutes, or until this time.
    pub fn run(&mut self, limit: u64) {
        loop {
            let event = self.events.first_key_value().map(|((when, _), _)| *when);
            let woken = self.controller.next(self.moment());
            let Some(next) = event.into_iter().chain(woken).min() else {
                break;
            };
            let is_over = |pod: &Pod| {
                let ended = pod.ended_at.filter(|_| pod.phase != "Running");
                pod.gone || ended.is_some_and(|at| at + 120_000 < self.now)
            };
            if next > limit || self.pods.iter().all(is_over) || !self.comes_to_an_end() {
                break;
            }
            if event.is_none_or(|event| woken.is_some_and(|woken| woken < event)) {
                self.wakes(next);
            } else if let Some(((when, _), event)) = self.events.pop_first() {
                self.now = self.now.max(when);
                self.happens(event);
            }
        }
        self.check_ends();
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::MainEnds(at, place, code) => self.main_ends(at, place, code),
            Event::Fails(at, place, id, code) => self.fails(at, place, id, code),
            Event::BacksOff(at, place, id) => self.backs_off(at, place, id),
            Event::Retries(at, place, id) => self.retries(at, place, id),
            Event::Syncs(at) => self.syncs(at),
            Event::Stopped(at, place, id, work) => self.stopped(at, place, id, work),
            Event::Starts(at, work) => self.starts(at, work),
            Event::Publishes(at) => self.publishes(at),
            Event::IsTakenDown(at) => self.is_taken_down(at),
            Event::IsDown(at, place) => self.is_down(at, place),
            Event::Deleted(at) => self.is_deleted(at),
            Event::IsGone(at) => self.is_gone(at),
            Event::Delivers(namespace) => self.delivers(namespace),
            Event::Applies(id) => self.apply(id),
            Event::Answers(id) => self.answers(id),
            Event::IsDerived(paths, is_pushed) => self.is_derived(&paths, is_pushed),
            Event::JobIsSeen(job) => self.job_is_seen(job),
            Event::JobsAreSeen => self.jobs_are_seen(),
            Event::ControllerStarts => self.controller_starts(),
            Event::ControllerDies => self.controller_dies(),
            Event::Lists => self.lists(),
            Event::Relist => self.relists(),
            Event::PartList(namespace) => self.lists_part(namespace),
            Event::PartListEnds => self.part_list_ends(),
        }
    }

    /// The controller is woken at the time that it asked for, a millisecond late.
    fn wakes(&mut self, at: u64) {
        self.now = self.now.max(at) + 1;
        self.check_wake();
        self.with_index(|index, now| index.wake(now));
    }
}
