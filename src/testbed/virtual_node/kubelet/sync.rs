//! A sync: the kills and starts that are needed, one step after another.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use super::Kubelet;
use super::state::unit::Unit;
use super::state::work::{Doing, Step, Work};
use crate::virtual_node::action::PodEvent;
use crate::virtual_node::images::Images;
use crate::virtual_node::pod::{Policy, is_terminal};
use crate::virtual_node::times::later;

impl Kubelet {
    pub(super) fn sync(&mut self, at: Timestamp) {
        self.sync_due = None;
        if !matches!(self.work, Work::Idle | Work::Syncing { .. }) {
            // A pod that is being ended reacts to nothing but a deletion.
            return self.terminate(at);
        }
        self.take_over();
        if self.must_end() {
            return self.terminate(at);
        }
        self.started.get_or_insert(at);
        if let (None, Some(seconds)) = (self.deadline, self.synced.spec.active_deadline_seconds) {
            self.deadline = self
                .started
                .map(|started| later(started, Duration::from_secs(seconds)));
        }
        self.report(at);
        if is_terminal(&self.phase(false)) {
            return self.terminate(at);
        }
        let rest = self.plan();
        self.work = Work::Syncing {
            rest,
            now: Doing::Nothing,
            failed: false,
        };
    }

    /// Hands the newest pod to the worker.
    fn take_over(&mut self) {
        self.synced = self.pod.clone();
        let specs = self
            .pod
            .spec
            .init_containers
            .iter()
            .chain(&self.pod.spec.containers);
        for (unit, spec) in self.units.iter_mut().zip(specs) {
            unit.spec = spec.clone();
        }
    }

    pub(super) fn policy(&self) -> Policy {
        self.synced.spec.restart_policy
    }

    fn plan(&self) -> VecDeque<Step> {
        let (mut kills, mut starts) = (Vec::new(), Vec::new());
        if !self.has_sandbox {
            starts.push(Step::Sandbox);
        }
        if self.plan_init(&mut kills, &mut starts) {
            self.plan_regular(&mut kills, &mut starts);
        }
        kills.into_iter().chain(starts).collect()
    }

    /// Plans the init containers; returns true if the regular containers may run.
    fn plan_init(&self, kills: &mut Vec<Step>, starts: &mut Vec<Step>) -> bool {
        let initialized = self.is_initialized();
        for (index, unit) in self.units.iter().enumerate().filter(|(_, unit)| unit.init) {
            if unit.is_native_sidecar() {
                if unit.is_outdated() && self.options.restarts_native_sidecars {
                    kills.push(Step::Kill(index));
                    starts.push(Step::Restart(index));
                    continue;
                } else if unit.is_running() {
                    continue;
                }
            } else if initialized || unit.end().is_some_and(|end| end.code == 0) {
                continue;
            } else if unit.is_running() || !unit.should_start(self.policy()) {
                return false;
            }
            starts.push(Step::Start(index));
            // One at a time: the next one waits until this one has ended, or runs if it is a
            // sidecar.
            if !initialized {
                return false;
            }
        }
        true
    }

    /// Plans the regular containers. A running one with a changed image is killed and started
    /// whatever its policy; an ended one follows its policy; one that has never run starts.
    fn plan_regular(&self, kills: &mut Vec<Step>, starts: &mut Vec<Step>) {
        for (index, unit) in self.units.iter().enumerate().filter(|(_, unit)| !unit.init) {
            if unit.is_outdated() {
                kills.push(Step::Kill(index));
                starts.push(Step::Restart(index));
            } else if unit.should_start(self.policy()) {
                starts.push(Step::Start(index));
            }
        }
    }

    /// Returns true if the pod is initialised: for good, once a regular container has run.
    pub(super) fn is_initialized(&self) -> bool {
        let done = |unit: &Unit| {
            unit.end().is_some_and(|end| end.code == 0)
                || (unit.is_native_sidecar() && unit.is_running())
        };
        let ran = self
            .units
            .iter()
            .any(|unit| !unit.init && unit.last().is_some());
        ran || self.units.iter().filter(|unit| unit.init).all(done)
    }

    /// Returns when the current step is done; now if there is none and another one waits.
    pub(super) fn step_due(&self) -> Option<Timestamp> {
        let Work::Syncing { now, .. } = &self.work else {
            return None;
        };
        match now {
            Doing::Nothing => Some(self.latest),
            // The end of the container brings it forward.
            Doing::Killing(index) if self.units[*index].is_running() => None,
            Doing::Killing(_) => Some(self.latest),
            Doing::Sandbox(until) => Some(*until),
            Doing::Starting(_, starting) => Some(starting.until()),
        }
    }

    pub(super) fn step(&mut self, at: Timestamp, images: &mut Images) {
        let Work::Syncing { rest, now, .. } = &mut self.work else {
            return;
        };
        match std::mem::replace(now, Doing::Nothing) {
            Doing::Starting(index, starting) => self.go_on_starting(index, starting, at, images),
            Doing::Sandbox(_) => {
                self.has_sandbox = true;
                self.container_changed(at);
            }
            Doing::Killing(_) => (),
            Doing::Nothing => match rest.pop_front() {
                Some(step) => self.begin(step, at, images),
                None => self.synced(at),
            },
        }
    }

    fn begin(&mut self, step: Step, at: Timestamp, images: &mut Images) {
        match step {
            Step::Kill(index) => {
                let name = self.units[index].spec.name.clone();
                let kind = if self.units[index].init {
                    "Init container"
                } else {
                    "Container"
                };
                self.container_event(
                    index,
                    PodEvent::normal(
                        "Killing",
                        format!("{kind} {name} definition changed, will be restarted"),
                    ),
                );
                let grace = self.synced.grace();
                self.units[index].stop(grace, at);
                self.doing(Doing::Killing(index));
            }
            Step::Sandbox => self.doing(Doing::Sandbox(later(at, self.options.sandbox))),
            Step::Start(index) if self.backs_off(index, 0, at) => (),
            // The sync has not seen the end of the container that it has just stopped.
            Step::Restart(index) if self.backs_off(index, 1, at) => (),
            Step::Start(index) | Step::Restart(index) => self.begin_starting(index, at, images),
        }
    }

    pub(super) fn doing(&mut self, doing: Doing) {
        if let Work::Syncing { now, .. } = &mut self.work {
            *now = doing;
        }
    }

    fn synced(&mut self, at: Timestamp) {
        let failed = matches!(self.work, Work::Syncing { failed: true, .. });
        self.work = Work::Idle;
        self.synced_at = Some(at);
        if failed {
            self.want_sync(later(at, self.options.retry));
        }
    }
}
