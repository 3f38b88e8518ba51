//! The Jobs and pods with which a random world begins, and what will befall them.

use super::objects::{Container, Job, Kind, Place, Pod, State};
use super::options::Dice;
use super::server::Answer;
use super::wire::annotate;
use super::world::{Event, World};

/// What the pods of a Job have in common.
struct Common {
    job: usize,
    never: bool,
    place: Place,
    template: Vec<Container>,
    /// All end within seconds.
    is_bunch: bool,
}

impl World {
    /// Makes the pods of this seed.
    pub fn populate(&mut self) {
        let jobs = self.dice.between(1, 4) as usize;
        for job in 0..jobs {
            let namespace = self.dice.place(self.namespaces.len());
            let limits = [0, 1, 2, 2, 3, 4, 5, 6, 6, 6, 8, 12, 50];
            let limit = *self.dice.one_of(&limits);
            self.jobs.push(Job {
                namespace,
                uid: format!("job-{job}"),
                limit,
                failed: None,
                told: Vec::new(),
            });
        }
        self.choose_answers();
        for job in 0..jobs {
            let pods = self.dice.between(1, 8);
            let common = self.common(job);
            for _ in 0..pods {
                let at = self.add(&common);
                self.befalls(at, common.is_bunch);
            }
        }
        self.befalls_the_controller();
    }

    fn choose_answers(&mut self) {
        for at in 0..self.namespaces.len() {
            let namespace = &mut self.namespaces[at];
            if self.options.denials && self.dice.chance(300) {
                namespace.to_swaps = Answer::Denied;
            }
            if self.options.denials && self.dice.chance(200) {
                namespace.to_finishes = Answer::Denied;
            }
            if self.options.webhooks && self.more.chance(600) {
                namespace.to_swaps = *self.more.one_of(&Answer::ALL);
            }
            if self.options.webhooks && self.more.chance(300) {
                let answers = [Answer::Denied, Answer::Failed, Answer::Silent];
                namespace.to_finishes = *self.more.one_of(&answers);
            }
        }
    }

    fn common(&mut self, job: usize) -> Common {
        let never = self.dice.chance(250);
        let mut template = template(&mut self.dice);
        if !self.dice.chance(500) {
            template.iter_mut().for_each(|one| one.order = None);
        }
        if !self.dice.chance(400) {
            for one in &mut template {
                (one.delay, one.wait) = (None, None);
            }
        }
        let is_virtual = self.options.virtual_nodes && self.more.chance(600);
        Common {
            job,
            never,
            place: if is_virtual {
                Place::Virtual
            } else {
                Place::Kubelet
            },
            template,
            is_bunch: self.dice.chance(500),
        }
    }

    fn add(&mut self, common: &Common) -> usize {
        let (at, start) = (self.pods.len(), self.dice.between(0, 3000));
        let mut containers = common.template.clone();
        let is_broken = self.options.broken_exits && self.more.chance(400);
        for container in &mut containers {
            container.state = State::Running(start);
            container.exit_starts &= !is_broken;
        }
        let pull_fails = self.options.pulls_fail && self.dice.chance(300);
        let grace = *self.dice.one_of(&[0, 5, 30, 30, 30, 60]);
        let mut pod = Pod {
            namespace: self.jobs[common.job].namespace,
            place: common.place,
            never: common.never,
            grace,
            pull_fails,
            ..Pod::new(at, common.job, containers)
        };
        annotate(&mut pod);
        self.pods.push(pod);
        at
    }

    /// What befalls a pod.
    fn befalls(&mut self, at: usize, is_bunch: bool) {
        let base = if is_bunch {
            20_000
        } else {
            self.dice.between(10_000, 300_000)
        };
        let (crashes, never) = (self.options.crashes, self.pods[at].never);
        for place in 0..self.pods[at].containers.len() {
            if self.pods[at].containers[place].is_sidecar() {
                if crashes && self.dice.chance(200) {
                    let when = self.dice.between(5000, base + 20_000);
                    self.at(when, Event::Fails(at, place, 1, 1));
                }
                continue;
            }
            let code = i32::from(never && self.dice.chance(150));
            let when = base + self.dice.between(0, 5000);
            if crashes && !never && self.dice.chance(200) {
                let when = self.dice.between(5000, when);
                self.at(when, Event::Fails(at, place, 1, 1));
            }
            let when = when + if crashes { 40_000 } else { 0 };
            self.at(when, Event::MainEnds(at, place, code));
        }
        if self.options.deletions && self.dice.chance(100) {
            let when = self.dice.between(base, base + 60_000);
            self.at(when, Event::Deleted(at));
        }
    }

    fn befalls_the_controller(&mut self) {
        self.at(500, Event::ControllerStarts);
        if self.options.deaths {
            for _ in 0..self.dice.between(1, 4) {
                let when = self.dice.between(5000, 400_000);
                self.at(when, Event::ControllerDies);
            }
        }
        if self.options.relists {
            for _ in 0..self.dice.between(1, 4) {
                let when = self.dice.between(5000, 400_000);
                if self.dice.chance(500) {
                    self.at(when, Event::Relist);
                } else {
                    let namespace = self.dice.place(self.namespaces.len());
                    self.at(when, Event::PartList(namespace));
                }
            }
        }
    }
}

/// The containers of the pods of a Job.
fn template(dice: &mut Dice) -> Vec<Container> {
    let mut containers = vec![container("main", Kind::Main, dice)];
    for number in 0..dice.between(1, 4) {
        let kind = *dice.one_of(&[
            Kind::Plain,
            Kind::Plain,
            Kind::Plain,
            Kind::Plain,
            Kind::Listed,
            Kind::Script,
            Kind::NeedsImage,
            Kind::Volume,
        ]);
        containers.push(container(&format!("side{number}"), kind, dice));
    }
    containers
}

fn container(name: &str, kind: Kind, dice: &mut Dice) -> Container {
    let is_sidecar = kind != Kind::Main;
    let mut made = Container {
        ignored: is_sidecar && dice.chance(70),
        order: dice.chance(700).then(|| dice.between(0, 3) as i32),
        delay: dice.chance(300).then(|| *dice.one_of(&[3, 10, 40, 90])),
        wait: dice.chance(200).then(|| *dice.one_of(&[5, 20, 60])),
        stop_code: *dice.one_of(&[0, 0, 143, 143, 137, 1]),
        stop_ms: *dice.one_of(&[0, 100, 2000, 10_000, 1_000_000]),
        ends_itself: dice.chance(120).then(|| *dice.one_of(&[500, 3000, 15_000])),
        ..Container::new(name, kind)
    };
    made.exit_starts = !made.is_doubtful() || dice.chance(600);
    made
}
