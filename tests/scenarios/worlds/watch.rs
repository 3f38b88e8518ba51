//! What the controller sees: a watch for each namespace, in order and late, and lists.

use std::collections::VecDeque;

use serde_json::Value;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;

use super::wire::brief;
use super::world::{Event, World};

/// An event of a watch.
pub enum Delivery {
    Changed(usize, Value),
    Gone(Value),
}

/// The events of a namespace on their way, each with the time at which it comes.
#[derive(Default)]
pub struct Queue {
    events: VecDeque<(u64, Delivery)>,
    last: u64,
}

fn read(pod: Value) -> Pod {
    let wire: PodWire = serde_json::from_value(pod).unwrap();
    wire.read().unwrap()
}

impl World {
    /// The object of the pod has changed.
    pub fn changed(&mut self, at: usize) {
        self.pods[at].version += 1;
        let pod = self.json(at);
        self.enqueue(self.pods[at].namespace, Delivery::Changed(at, pod));
        self.count_restarts(self.pods[at].job);
    }

    pub fn show_gone(&mut self, at: usize) {
        let pod = self.json(at);
        self.enqueue(self.pods[at].namespace, Delivery::Gone(pod));
    }

    fn enqueue(&mut self, namespace: usize, delivery: Delivery) {
        let lag = if self.dice.chance(100) {
            self.dice.between(0, 8000)
        } else {
            self.dice.between(0, 300)
        };
        let queue = &mut self.queues[namespace];
        queue.last = queue.last.max(self.now + lag);
        queue.events.push_back((queue.last, delivery));
        let when = queue.last;
        self.at(when, Event::Delivers(namespace));
    }

    /// The controller gets the events of a namespace that have come.
    pub fn delivers(&mut self, namespace: usize) {
        if !self.controller.is_alive || self.controller.listing.is_some() {
            return;
        }
        let now = self.now;
        while let Some((_, delivery)) = self.queues[namespace]
            .events
            .pop_front_if(|(when, _)| *when <= now)
        {
            match delivery {
                Delivery::Changed(at, pod) => {
                    self.log(|| format!("deliver pod-{at} {}", brief(&pod)));
                    let pod = read(pod);
                    self.with_index(|index, now| index.apply(pod, now));
                }
                Delivery::Gone(pod) => {
                    let pod = read(pod);
                    self.with_index(|index, now| index.remove(&pod, now));
                }
            }
        }
    }

    /// Lists all pods, in any order.
    pub fn start_list(&mut self) {
        self.queues
            .iter_mut()
            .for_each(|queue| queue.events.clear());
        let mut all: Vec<_> = (0..self.pods.len())
            .filter(|at| !self.pods[*at].gone)
            .map(|at| (at, self.json(at)))
            .collect();
        for place in 0..all.len() {
            let other = self.dice.place(all.len());
            all.swap(place, other);
        }
        self.controller.listing = Some(all.into());
        self.controller.index.list_starts();
        let ms = self.dice.between(10, 2000);
        self.after(ms, Event::Lists);
    }

    pub fn lists(&mut self) {
        let Some(listing) = &mut self.controller.listing else {
            return;
        };
        if let Some((at, pod)) = listing.pop_front() {
            self.log(|| format!("listed pod-{at} {}", brief(&pod)));
            let pod = read(pod);
            self.with_index(|index, now| index.apply(pod, now));
            let ms = self.dice.between(0, 500);
            self.after(ms, Event::Lists);
            return;
        }
        self.controller.listing = None;
        self.log(|| "list ends".to_owned());
        self.with_index(|index, now| index.list_ends(now));
        (0..self.queues.len()).for_each(|namespace| self.delivers(namespace));
    }

    pub fn relists(&mut self) {
        if self.controller.is_alive && self.controller.listing.is_none() {
            self.log(|| "relist".to_owned());
            self.start_list();
        }
    }

    /// The pods of a namespace are listed again, behind all that was on its way.
    pub fn lists_part(&mut self, namespace: usize) {
        if !self.controller.is_alive || self.controller.listing.is_some() {
            return;
        }
        self.log(|| format!("part list {namespace}"));
        self.controller.index.part_list_starts();
        self.queues[namespace].events.clear();
        for at in 0..self.pods.len() {
            if !self.pods[at].gone && self.pods[at].namespace == namespace {
                let pod = self.json(at);
                self.enqueue(namespace, Delivery::Changed(at, pod));
            }
        }
        let queue = &mut self.queues[namespace];
        queue.last = queue.last.max(self.now) + 5;
        let end = queue.last;
        self.at(end, Event::PartListEnds);
    }

    pub fn part_list_ends(&mut self) {
        if self.controller.listing.is_none() {
            self.with_index(|index, now| index.part_list_ends(now));
        }
    }
}
