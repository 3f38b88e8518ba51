//! The nodes: they stop and start containers whose image has changed, back off, and show what
//! they did some time later.

use super::objects::{Place, State};
use super::world::{Event, World};

/// No node of a world tries an image more often.
const TRIES: u32 = 100;

/// The containers that a node is about to stop, one after the other, and then to start.
#[derive(Clone, Debug, Default)]
pub struct Work {
    stop: Vec<usize>,
    start: Vec<usize>,
}

impl World {
    pub fn main_ends(&mut self, at: usize, place: usize, code: i32) {
        let (now, pod) = (self.now, &mut self.pods[at]);
        if pod.dead || pod.gone {
            return;
        }
        let State::Running(since) = pod.containers[place].state else {
            return self.after(5000, Event::MainEnds(at, place, code));
        };
        pod.containers[place].state = State::ended(code, since, now);
        if pod.mains_are_over() {
            pod.mains_done = Some(now);
            let ends = |(place, one): (usize, &super::objects::Container)| {
                let ms = one.ends_itself.filter(|_| one.is_sidecar())?;
                Some((ms, Event::Fails(at, place, one.id, 0)))
            };
            let ends: Vec<_> = pod.containers.iter().enumerate().filter_map(ends).collect();
            ends.into_iter()
                .for_each(|(ms, event)| self.after(ms, event));
        }
        self.touch(at);
    }

    /// A container ends by itself.
    pub fn fails(&mut self, at: usize, place: usize, id: u32, code: i32) {
        let (now, longest) = (self.now, self.options.longest_back_off);
        let pod = &mut self.pods[at];
        let (is_idle, never) = (!(pod.dead || pod.gone || pod.busy), pod.never);
        let one = &mut pod.containers[place];
        let is_same = one.id == id && !one.stopping && one.run_image == one.own_image;
        let State::Running(since) = one.state else {
            return;
        };
        if !is_idle || !is_same {
            return;
        }
        one.state = State::ended(code, since, now);
        one.crashes += 1;
        if !never && code != 0 {
            let back_off = 10_000 << (one.crashes - 1).min(4);
            self.after(1000, Event::BacksOff(at, place, id));
            self.after(longest.min(back_off), Event::Retries(at, place, id));
        }
        self.touch(at);
    }

    pub fn backs_off(&mut self, at: usize, place: usize, id: u32) {
        let pod = &mut self.pods[at];
        if pod.dead || pod.gone || pod.containers[place].id != id {
            return;
        }
        if let Some(code) = pod.containers[place].code() {
            let words = "back-off restarting failed container".to_owned();
            pod.containers[place].last_code = Some(code);
            pod.containers[place].state = State::Waiting("CrashLoopBackOff", words);
            self.touch(at);
        }
    }

    pub fn retries(&mut self, at: usize, place: usize, id: u32) {
        let pod = &self.pods[at];
        let one = &pod.containers[place];
        let runs = matches!(one.state, State::Running(_)) || one.is_over(pod.never);
        if !(pod.dead || pod.gone || pod.busy || one.id != id || runs) {
            self.start(at, place);
            self.touch(at);
        }
    }

    /// The node looks at the spec.
    pub fn syncs(&mut self, at: usize) {
        let pod = &self.pods[at];
        if pod.dead || pod.gone {
            return;
        }
        if pod.busy {
            return self.after(1000, Event::Syncs(at));
        }
        let mut work = Work::default();
        for (place, one) in pod.containers.iter().enumerate() {
            let waits = matches!(one.state, State::Waiting(..));
            if one.image == one.run_image && !waits {
                continue;
            }
            let runs = matches!(one.state, State::Running(_));
            work.stop.extend(runs.then_some(place));
            work.start
                .extend((!one.is_over(pod.never)).then_some(place));
        }
        if !work.start.is_empty() {
            self.pods[at].busy = true;
            self.stop_next(at, work);
        }
    }

    fn stop_next(&mut self, at: usize, mut work: Work) {
        if work.stop.is_empty() {
            let pull = self.dice.between(50, 2000);
            return self.after(pull, Event::Starts(at, work));
        }
        let place = work.stop.remove(0);
        let pod = &mut self.pods[at];
        let one = &mut pod.containers[place];
        one.stopping = true;
        let (ms, id) = (one.stop_ms.min(pod.grace * 1000), one.id);
        self.after(ms + 10, Event::Stopped(at, place, id, work));
    }

    pub fn stopped(&mut self, at: usize, place: usize, id: u32, work: Work) {
        let (now, pod) = (self.now, &mut self.pods[at]);
        if pod.gone || pod.dead {
            return;
        }
        let (grace, one) = (pod.grace * 1000, &mut pod.containers[place]);
        if one.id == id {
            one.stopping = false;
            if let State::Running(since) = one.state {
                let code = if one.stop_ms > grace {
                    137
                } else {
                    one.stop_code
                };
                one.state = State::ended(code, since, now);
            }
        }
        if self.dice.chance(500) {
            self.touch(at);
        }
        self.stop_next(at, work);
    }

    pub fn starts(&mut self, at: usize, mut work: Work) {
        if self.pods[at].gone || self.pods[at].dead {
            return;
        }
        if let Some(place) = work.start.pop() {
            self.start(at, place);
            let ms = self.dice.between(20, 500);
            if !work.start.is_empty() {
                return self.after(ms, Event::Starts(at, work));
            }
        }
        self.pods[at].busy = false;
        self.touch(at);
    }

    /// Starts the image of the spec in a container that does not run.
    fn start(&mut self, at: usize, place: usize) {
        let (now, longest) = (self.now, self.options.longest_back_off);
        let pod = &mut self.pods[at];
        let (never, pull_fails) = (pod.never, pod.pull_fails);
        let one = &mut pod.containers[place];
        let (old, id) = (one.code(), one.id);
        if one.image != one.own_image && pull_fails {
            if never || old == Some(0) {
                return;
            }
            one.last_code = old.or(one.last_code);
            one.attempts += 1;
            let reasons = ["ImagePullBackOff", "ErrImagePull"];
            let words = format!("failed to pull image \"{}\"", one.image);
            one.state = State::Waiting(reasons[one.attempts as usize % 2], words);
            let wait = 10_000 << one.attempts.min(5);
            return self.after(wait, Event::Retries(at, place, id));
        }
        one.last_code = old.or(one.last_code);
        one.id += 1;
        one.restarts += 1;
        one.run_image.clone_from(&one.image);
        if one.image == one.own_image {
            one.crashed.push(now);
            one.state = State::Running(now);
            return;
        }
        if one.exit_starts {
            one.state = State::ended(0, now, now);
            return;
        }
        one.attempts += 1;
        one.state = State::Ended {
            code: 128,
            reason: "StartError",
            started: now,
            finished: now,
        };
        let (id, attempts) = (one.id, one.attempts);
        self.check_attempt(at, place);
        if never || attempts >= TRIES {
            return;
        }
        let back_off = match attempts {
            1 => 1000,
            2 => 11_000,
            more => 20_000 << (more - 3).min(4),
        };
        self.after(700, Event::BacksOff(at, place, id));
        self.after(longest.min(back_off), Event::Retries(at, place, id));
    }

    /// The node will show the state of the pod.
    pub fn touch(&mut self, at: usize) {
        if !self.pods[at].publishes {
            self.pods[at].publishes = true;
            let lag = self.dice.between(20, 900);
            self.after(lag, Event::Publishes(at));
        }
    }

    pub fn publishes(&mut self, at: usize) {
        let (now, pod) = (self.now, &mut self.pods[at]);
        pod.publishes = false;
        if pod.gone {
            return;
        }
        pod.shown.clone_from(&pod.containers);
        let are_over = pod.containers.iter().all(|one| one.is_over(pod.never));
        if pod.phase == "Running" && are_over && !pod.busy {
            let all_good = pod.containers.iter().all(|one| one.code() == Some(0));
            pod.phase = if all_good { "Succeeded" } else { "Failed" };
            pod.ended_at = Some(now);
        }
        self.changed(at);
        self.check_end(at);
    }

    /// The node takes a pod down whose phase was written, or that is deleted.
    pub fn is_taken_down(&mut self, at: usize) {
        let pod = &mut self.pods[at];
        if pod.gone || pod.dead {
            return;
        }
        pod.dead = true;
        // Nothing that is written reaches the provider.
        if pod.place == Place::Virtual && !pod.deleting {
            return;
        }
        let grace = pod.grace * 1000;
        let left = |(place, one): (usize, &super::objects::Container)| match one.state {
            State::Running(_) => Some((one.stop_ms.min(grace) + 50, place)),
            State::Waiting(..) => Some((100, place)),
            State::Ended { .. } => None,
        };
        let left: Vec<_> = pod.containers.iter().enumerate().filter_map(left).collect();
        left.into_iter()
            .for_each(|(ms, place)| self.after(ms, Event::IsDown(at, place)));
        self.touch(at);
    }

    pub fn is_down(&mut self, at: usize, place: usize) {
        let now = self.now;
        let one = &mut self.pods[at].containers[place];
        let keeps_code = one.attempts > 0 || one.image == one.own_image;
        let (since, code) = match one.state {
            State::Running(since) => (since, one.stop_code),
            _ => (now, one.last_code.filter(|_| keeps_code).unwrap_or(137)),
        };
        one.state = State::Ended {
            code,
            reason: "Error",
            started: since,
            finished: now,
        };
        self.touch(at);
    }

    pub fn is_deleted(&mut self, at: usize) {
        let pod = &mut self.pods[at];
        if pod.gone || pod.deleting {
            return;
        }
        pod.deleting = true;
        let grace = pod.grace * 1000;
        self.changed(at);
        self.after(100, Event::IsTakenDown(at));
        self.after(grace + 2000, Event::IsGone(at));
    }

    pub fn is_gone(&mut self, at: usize) {
        self.pods[at].gone = true;
        self.pods[at].version += 1;
        self.show_gone(at);
    }
}
