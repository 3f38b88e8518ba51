//! A pod on a kubelet, as a state machine without I/O.
//!
//! The pod worker does one thing at a time: a *sync* reads the states of the containers, reports
//! the status as it is then, kills what must be killed one after another, and starts what must be
//! started one after another; only then comes the next. What happens to containers in between is
//! noticed when the runtime is listed the next time, once per second. This explains most of what
//! can be observed of a kubelet: an old container that stays "running" until the new one has ended,
//! the second between the last end and the phase.
//!
//! Not simulated: probes (a started container is ready), resources, volumes, hooks other than
//! sleeping, restarts of the whole pod on failure, ephemeral containers, jitter.

mod adopt;
mod options;
mod phase;
mod start;
mod state;
mod status;
mod sync;
mod terminate;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

pub use options::{KubeletOptions, KubeletVersion, Runtime};

use super::action::{Action, PodEvent};
use super::images::Images;
use super::pod::PodSeen;
use super::times::{later, next_tick};
use state::backoff::Backoffs;
use state::reported::Reported;
use state::unit::Unit;
use state::work::Work;

/// A pod on a kubelet.
#[derive(Clone, Debug)]
pub struct Kubelet {
    options: KubeletOptions,
    /// The pod as last shown by the API server.
    pod: PodSeen,
    /// The parts of it whose change makes the worker act.
    acted_on: Value,
    /// The pod as the worker knows it.
    synced: PodSeen,
    /// The containers, init containers first.
    units: Vec<Unit>,
    work: Work,
    /// When the worker is next due.
    sync_due: Option<Timestamp>,
    /// When the worker last finished: it waits for a newer list of the containers before it starts
    /// again.
    synced_at: Option<Timestamp>,
    relist_due: Option<Timestamp>,
    reconcile_due: Option<Timestamp>,
    deadline: Option<Timestamp>,
    /// The time until which the kubelet is down.
    down_until: Option<Timestamp>,
    has_sandbox: bool,
    started: Option<Timestamp>,
    restarts: Backoffs,
    pulls: Backoffs,
    status: Reported,
    /// Set once earlier containers were adopted.
    adopted: bool,
    /// The time of the latest step.
    latest: Timestamp,
    out: Vec<Action>,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    End(usize),
    Step,
    Relist,
    Settled,
    Deadline,
    Sync,
    Reconcile,
    Report,
}

impl Kubelet {
    /// Returns the state of a pod that was just bound to the node.
    pub fn new(options: KubeletOptions, pod: &Value, now: Timestamp) -> Self {
        let seen = PodSeen::read(pod);
        let init = seen
            .spec
            .init_containers
            .iter()
            .map(|spec| Unit::new(spec.clone(), true));
        let regular = seen
            .spec
            .containers
            .iter()
            .map(|spec| Unit::new(spec.clone(), false));
        let mut machine = Self {
            options,
            acted_on: acted_on(pod),
            synced: seen.clone(),
            units: init.chain(regular).collect(),
            pod: seen,
            work: Work::Idle,
            sync_due: Some(later(now, options.notice)),
            synced_at: None,
            relist_due: None,
            reconcile_due: None,
            deadline: None,
            down_until: None,
            has_sandbox: false,
            started: None,
            restarts: Backoffs::default(),
            pulls: Backoffs::default(),
            status: Reported::default(),
            adopted: false,
            latest: now,
            out: Vec::new(),
        };
        if machine.pod.is_terminal() {
            machine.work = Work::Terminated;
        }
        machine
    }

    /// Handles an update of the pod. Call `advance` first for what was due before.
    pub fn see(&mut self, pod: &Value, now: Timestamp) {
        self.pod = PodSeen::read(pod);
        let acted_on = acted_on(pod);
        if acted_on != self.acted_on {
            self.acted_on = acted_on;
            self.want_sync(later(now, self.options.notice));
        } else if self.pod.status.phase != self.status.phase {
            // A change of the status alone causes no event; statuses are compared regularly.
            self.reconcile_due
                .get_or_insert(next_tick(now, self.options.reconcile));
        }
    }

    /// Returns the time of the next step, unless an event comes before.
    pub fn wake(&self) -> Option<Timestamp> {
        self.next().map(|(at, _)| at)
    }

    /// Performs all steps that are due, and returns the writes that follow.
    pub fn advance(&mut self, images: &mut Images, now: Timestamp) -> Vec<Action> {
        self.adopt(images);
        while let Some((at, next)) = self.next().filter(|(at, _)| *at <= now) {
            self.latest = at;
            self.happen(next, at, images);
        }
        std::mem::take(&mut self.out)
    }

    /// Records that a status could not be written; the next comparison of statuses retries it.
    pub fn not_written(&mut self, now: Timestamp) {
        self.reconcile_due
            .get_or_insert(next_tick(now, self.options.reconcile));
        self.status.lost = true;
    }

    /// Restarts the kubelet; its containers continue, and stopping ones stop.
    pub fn restart(&mut self, now: Timestamp, down: std::time::Duration) {
        let back = later(now, down);
        self.down_until = Some(back);
        self.restarts = Backoffs::default();
        self.pulls = Backoffs::default();
        self.units.iter_mut().for_each(|unit| unit.waiting = None);
        if !matches!(self.work, Work::Terminated | Work::Gone) {
            self.work = Work::Idle;
            self.sync_due = Some(back);
        }
        self.relist_due = Some(back);
        self.status.due = None;
    }

    /// Returns true once the node is done with the pod.
    pub const fn is_gone(&self) -> bool {
        matches!(self.work, Work::Gone)
    }

    /// Returns the next step; never before the latest one.
    fn next(&self) -> Option<(Timestamp, Next)> {
        let ends = self
            .units
            .iter()
            .enumerate()
            .filter_map(|(index, unit)| Some((unit.will_end()?.at, Next::End(index))));
        let up = |at: Timestamp| self.down_until.map_or(at, |until| at.max(until));
        let own = [
            (self.step_due(), Next::Step),
            (self.relist_due, Next::Relist),
            (self.settled_due(), Next::Settled),
            (self.deadline, Next::Deadline),
            (self.may_sync(), Next::Sync),
            (self.reconcile_due, Next::Reconcile),
            (self.status.due, Next::Report),
        ];
        let own = own
            .into_iter()
            .filter_map(|(at, next)| Some((up(at?).max(self.latest), next)));
        // The first of those at one time: the order above is the order of causes.
        ends.chain(own).min_by_key(|(at, _)| *at)
    }

    fn happen(&mut self, next: Next, at: Timestamp, images: &mut Images) {
        match next {
            Next::End(index) => self.ended(index, at),
            Next::Step => self.step(at, images),
            Next::Relist => self.relist(at),
            Next::Settled => self.settle(at),
            Next::Deadline => self.deadline_exceeded(at),
            Next::Sync => self.sync(at),
            Next::Reconcile => self.reconcile(at),
            Next::Report => self.send(),
        }
    }

    fn ended(&mut self, index: usize, at: Timestamp) {
        self.units[index].finish();
        self.container_changed(at);
        if matches!(self.work, Work::Terminating(_)) {
            self.terminate_further(at);
        }
    }

    /// Schedules a list of the containers, because one has changed.
    fn container_changed(&mut self, at: Timestamp) {
        self.relist_due
            .get_or_insert(next_tick(at, self.options.relist));
    }

    fn relist(&mut self, at: Timestamp) {
        self.relist_due = None;
        self.drop_records(at);
        if matches!(self.work, Work::Idle | Work::Syncing { .. }) {
            self.want_sync(at);
        }
    }

    /// Drops the earlier records of containers that have ended; the next list of the containers
    /// shows it.
    fn drop_records(&mut self, at: Timestamp) {
        let gone = next_tick(at, self.options.relist);
        for unit in self.units.iter_mut().filter(|unit| unit.end().is_some()) {
            let last = unit.records.len().saturating_sub(1);
            if last > 0 && unit.dropped.is_none_or(|(first, _)| first < last) {
                unit.dropped = Some((last, gone));
            }
        }
    }

    fn want_sync(&mut self, at: Timestamp) {
        self.sync_due = Some(self.sync_due.map_or(at, |due| due.min(at)));
    }

    /// Returns when the worker may start: not while it is busy, except to end the pod, and not
    /// before it knows the result of its last work.
    fn may_sync(&self) -> Option<Timestamp> {
        let due = self.sync_due?;
        match self.work {
            Work::Idle => Some(
                self.synced_at
                    .map_or(due, |done| due.max(next_tick(done, self.options.relist))),
            ),
            Work::Syncing { .. } if !self.must_end() => None,
            _ => Some(due),
        }
    }

    fn must_end(&self) -> bool {
        self.pod.is_deleting() || self.pod.is_terminal()
    }

    fn event(&mut self, event: PodEvent) {
        self.out.push(Action::Event(event));
    }

    fn container_event(&mut self, index: usize, event: PodEvent) {
        let unit = &self.units[index];
        let list = if unit.init {
            "initContainers"
        } else {
            "containers"
        };
        let field = Some(format!("spec.{list}{{{}}}", unit.spec.name));
        self.event(PodEvent { field, ..event });
    }
}

/// Returns the parts whose change makes the worker act: not the status and server fields.
fn acted_on(pod: &Value) -> Value {
    let metadata = &pod["metadata"];
    serde_json::json!([
        pod["spec"],
        metadata["labels"],
        metadata["annotations"],
        metadata["deletionTimestamp"],
        metadata["deletionGracePeriodSeconds"]
    ])
}
