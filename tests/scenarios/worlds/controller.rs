//! The controller: the real index, what it writes, and its lives.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::watch;
use swaplet_controller::terminate::index::{Effect, Index, Write};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::exit_images::derived::{DerivedImages, Trouble};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;

use super::objects::{EPOCH, EXIT, InFlight, Place};
use super::options::Options;
use super::world::{Event, World};

/// The writes in flight at once.
const WRITES: usize = 4;

/// A life of the controller.
pub struct Controller {
    pub index: Index,
    pub start: u64,
    /// The pods of a list that are still to come.
    pub listing: Option<VecDeque<(usize, Value)>>,
    in_flight: usize,
    pub is_alive: bool,
    /// A second, and how often it woke in it.
    pub wakes: (u64, u32),
}

impl Controller {
    pub fn new(options: &Options, start: u64, is_alive: bool) -> Self {
        Self {
            index: Index::new(rules(options)),
            start,
            listing: None,
            in_flight: 0,
            is_alive,
            wakes: (0, 0),
        }
    }

    /// When it wants to be woken, if it does. A budget that is there already is used once a write
    /// has been answered.
    pub fn next(&self, now: Moment) -> Option<u64> {
        let budget = self.index.next_budget().filter(|at| *at > now);
        let times = [self.index.next_due(), budget];
        let next = times.into_iter().flatten().min()?;
        let next = u64::try_from(next.since_start().as_millis()).unwrap_or(u64::MAX / 2);
        Some(self.start.saturating_add(next)).filter(|_| self.is_alive)
    }
}

fn rules(options: &Options) -> Rules {
    let listed = vec!["registry.example/exit/*".parse().unwrap()];
    let mut exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), listed);
    if options.derives {
        let repository = "registry.example/swaplet/derived".parse().unwrap();
        exit_images = exit_images.with_derived(DerivedImages::new(repository));
    }
    Rules {
        exit_images,
        allowed: AllowedMethods {
            finish: options.finish,
            ..AllowedMethods::default()
        },
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    }
}

fn node(place: Place) -> NodeWire {
    let mut labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
    if place == Place::Virtual {
        labels["k8s.aliyun.com/vnode"] = "true".into();
    }
    let (name, uid) = (place.node(), format!("uid of {}", place.node()));
    let metadata = json!({"name": name, "uid": uid, "labels": labels});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

impl World {
    pub fn moment(&self) -> Moment {
        Moment::after_start(Duration::from_millis(self.now - self.controller.start))
    }

    /// Calls the index, and writes what it wants to write then.
    pub fn with_index(&mut self, call: impl FnOnce(&mut Index, Moment)) {
        if !self.controller.is_alive {
            return;
        }
        let now = self.moment();
        let milliseconds = EPOCH * 1000 + i64::try_from(self.now).unwrap();
        let today = jiff::Timestamp::from_millisecond(milliseconds).unwrap();
        self.steps += 1;
        self.controller.index.set_time(now, today);
        call(&mut self.controller.index, now);
        self.effects();
        while self.controller.is_alive && self.controller.in_flight < WRITES {
            self.steps += 1;
            let write = self.controller.index.next_write(now);
            self.effects();
            let Some(write) = write else { return };
            self.controller.in_flight += 1;
            self.sends(write);
        }
    }

    fn effects(&mut self) {
        let effects = self.controller.index.take_effects();
        self.steps += effects.len() as u64;
        for effect in effects {
            match effect {
                Effect::Notice(notice) => {
                    let text = format!("{}: {}", notice.report.reason, notice.report.note);
                    self.log(|| format!("  notice {} {text}", notice.target.name));
                    let uid = &*notice.target.uid;
                    if let Some(pod) = self.pods.iter_mut().find(|pod| pod.uid == uid) {
                        pod.told.push(text);
                    } else if let Some(job) = self.jobs.iter_mut().find(|job| job.uid == uid) {
                        job.told.push(text);
                    }
                }
                Effect::Derive(_, paths) => {
                    let is_pushed = self.dice.chance(700);
                    let ms = self.dice.between(500, 120_000);
                    self.after(ms, Event::IsDerived(paths, is_pushed));
                }
                Effect::Learned(learned) => self.check_proof(&learned),
                _ => {}
            }
        }
    }

    fn sends(&mut self, write: Write) {
        let id = self.number();
        let is_lost = self.options.losses && self.dice.chance(150);
        let applies = !is_lost || self.dice.chance(500);
        let life = self.life;
        self.log(|| {
            let (name, action) = (&write.target.name, &write.action);
            format!("  write {name} {action:?} lost {is_lost} applies {applies}")
        });
        self.check_try(&write);
        self.writes.insert(
            id,
            InFlight {
                write,
                life,
                outcome: None,
                is_lost,
            },
        );
        let delay = if self.dice.chance(100) {
            self.dice.between(0, 5000)
        } else {
            self.dice.between(1, 200)
        };
        if applies {
            self.after(delay, Event::Applies(id));
        }
        let answer = if is_lost {
            10_000
        } else {
            delay + self.dice.between(0, 300)
        };
        self.after(answer, Event::Answers(id));
    }

    /// The controller gets the answer to a write.
    pub fn answers(&mut self, id: u64) {
        let Some(one) = self.writes.remove(&id) else {
            return;
        };
        if one.life != self.life || !self.controller.is_alive {
            return;
        }
        self.controller.in_flight -= 1;
        let outcome = one.outcome.filter(|_| !one.is_lost).unwrap_or_else(|| {
            Err(WriteError::Failed {
                error: "no answer".to_owned(),
                retry_after: None,
            })
        });
        self.log(|| format!("  answer {} {outcome:?}", one.write.target.name));
        self.with_index(|index, now| index.written(one.write, &outcome, now));
    }

    /// The registry has taken a derived image, or not.
    pub fn is_derived(&mut self, paths: &[String], is_pushed: bool) {
        let sum = |sum: u64, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
        let digest = paths.join(",").bytes().fold(7, sum);
        let result = if is_pushed {
            Ok(format!("registry.example/swaplet/derived:{digest:x}").into())
        } else {
            Err(Trouble {
                words: "registry is away".into(),
                retry_after: None,
            })
        };
        self.with_index(|index, now| index.derived_came(paths, result, now));
    }

    pub fn controller_starts(&mut self) {
        self.life += 1;
        self.controller = Controller::new(&self.options, self.now, true);
        let nodes = &mut self.controller.index.nodes;
        for event in watch::Event::list_of([Place::Kubelet, Place::Virtual].map(node)) {
            nodes.observe(event);
        }
        self.log(|| "controller starts".to_owned());
        self.start_list();
        let ms = self.dice.between(0, 3000);
        // Draws as many numbers as it always did, so that old seeds tell of the same worlds.
        self.dice.chance(200);
        self.with_index(|index, now| index.jobs(|ledger| ledger.job_list_starts(), now));
        for job in 0..self.jobs.len() {
            self.after(ms, Event::JobIsSeen(job));
        }
        self.after(ms + 1, Event::JobsAreSeen);
    }

    /// Writes in flight are applied at once, or never.
    pub fn controller_dies(&mut self) {
        if !self.controller.is_alive {
            return;
        }
        self.log(|| "controller dies".to_owned());
        self.controller.is_alive = false;
        self.controller.listing = None;
        self.life += 1;
        for id in self.writes.keys().copied().collect::<Vec<_>>() {
            if self.dice.chance(500) {
                self.apply(id);
            }
            self.writes.remove(&id);
        }
        self.forget_tries();
        let ms = self.dice.between(100, 14_000);
        self.after(ms, Event::ControllerStarts);
    }
}
