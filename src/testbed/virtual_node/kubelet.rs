//! A pod on a kubelet, as a state machine without I/O.
//!
//! The pod worker does one thing at a time: a *sync* looks at the containers, reports the status as
//! it is then, kills what must be killed one after another, and starts what must be started one
//! after another; only then comes the next. What happens to containers in between is noticed when
//! the runtime is listed the next time, once per second. That is where most of what one can see of
//! a kubelet comes from: an old container that stays "running" until the new one has ended, the
//! second between the last end and the phase.
//!
//! Not played: probes (a started container is ready), resources, volumes, hooks other than
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

pub use options::{KubeletOptions, KubeletVersion};

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
    /// The pod as the API server showed it last.
    pod: PodSeen,
    /// The parts of it whose change makes the worker act.
    acted_on: Value,
    /// The pod as the worker knows it.
    synced: PodSeen,
    /// Init containers first.
    units: Vec<Unit>,
    work: Work,
    /// When the worker is wanted next.
    sync_due: Option<Timestamp>,
    /// When the worker was done last: it wants a newer list of the containers before it begins
    /// again.
    synced_at: Option<Timestamp>,
    relist_due: Option<Timestamp>,
    reconcile_due: Option<Timestamp>,
    deadline: Option<Timestamp>,
    /// The kubelet itself is not there until then.
    down_until: Option<Timestamp>,
    has_sandbox: bool,
    started: Option<Timestamp>,
    restarts: Backoffs,
    pulls: Backoffs,
    status: Reported,
    /// What ran before has been taken over.
    adopted: bool,
    /// When the latest thing happened.
    latest: Timestamp,
    out: Vec<Action>,
}

/// What happens next.
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
    /// A pod that was just bound to the node.
    #[must_use]
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

    /// The API server shows the pod. What was due before is to be let happen first.
    pub fn see(&mut self, pod: &Value, now: Timestamp) {
        self.pod = PodSeen::read(pod);
        let acted_on = acted_on(pod);
        if acted_on != self.acted_on {
            self.acted_on = acted_on;
            self.want_sync(later(now, self.options.notice));
        } else if self.pod.status.phase != self.status.phase {
            // Nobody is told of a change of the status alone; it is compared from time to time.
            self.reconcile_due
                .get_or_insert(next_tick(now, self.options.reconcile));
        }
    }

    /// When something happens next if nothing more is seen.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        self.next().map(|(at, _)| at)
    }

    /// Lets everything happen that is due, and tells what is to be done for it.
    pub fn advance(&mut self, images: &mut Images, now: Timestamp) -> Vec<Action> {
        self.adopt(images);
        while let Some((at, next)) = self.next().filter(|(at, _)| *at <= now) {
            self.latest = at;
            self.happen(next, at, images);
        }
        std::mem::take(&mut self.out)
    }

    /// A status could not be written; it is tried again when statuses are compared.
    pub fn not_written(&mut self, now: Timestamp) {
        self.reconcile_due
            .get_or_insert(next_tick(now, self.options.reconcile));
        self.status.lost = true;
    }

    /// The kubelet dies and comes back; its containers go on, and one that was told to stop does.
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

    /// Whether the pod is nothing to the node any more.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!(self.work, Work::Gone)
    }

    /// What happens next; never before what has happened.
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

    /// Something happened in the runtime, which is seen at the next look.
    fn container_changed(&mut self, at: Timestamp) {
        self.relist_due
            .get_or_insert(next_tick(at, self.options.relist));
    }

    fn relist(&mut self, at: Timestamp) {
        self.relist_due = None;
        if !self.options.keeps_last_state {
            self.drop_records(at);
        }
        if matches!(self.work, Work::Idle | Work::Syncing { .. }) {
            self.want_sync(at);
        }
    }

    /// When a container has ended, the ones before it under its name are removed; the next look
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

    /// When the worker may begin: not while it is busy, except to end the pod, and not before it
    /// knows what its last work did.
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

/// What makes the worker act when it changes: everything but the status and what servers keep.
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
