//! The end of a pod: because it is deleted, its phase is final, or its deadline has passed.

use jiff::Timestamp;

use super::Kubelet;
use super::state::unit::Unit;
use super::state::work::Work;
use crate::virtual_node::action::{Action, PodEvent};
use crate::virtual_node::times::{later, next_tick};

impl Kubelet {
    /// Stops all containers at once, native sidecars after the others.
    pub(super) fn terminate(&mut self, at: Timestamp) {
        self.sync_due = None;
        match self.work {
            Work::Idle | Work::Syncing { .. } => {
                self.work = Work::Terminating(at);
                self.report(at);
                self.terminate_further(at);
            }
            // A deletion may have brought a shorter grace period.
            Work::Terminating(since) => self.stop_running(since, at),
            Work::Settling(_) | Work::Gone => (),
            Work::Terminated => self.delete(),
        }
    }

    pub(super) fn terminate_further(&mut self, at: Timestamp) {
        let Work::Terminating(since) = self.work else {
            return;
        };
        self.stop_running(since, at);
        if !self.units.iter().any(Unit::is_running) {
            self.report(at);
            self.work = Work::Settling(next_tick(at, self.options.relist));
        }
    }

    /// Stops the regular containers in parallel, then native sidecars one by one from the last.
    fn stop_running(&mut self, since: Timestamp, at: Timestamp) {
        let running = |native: bool, this: &Self| {
            let units = this.units.iter().enumerate();
            units
                .filter(|(_, unit)| unit.is_running() && unit.is_native_sidecar() == native)
                .map(|(index, _)| index)
                .collect::<Vec<_>>()
        };
        let regular = running(false, self);
        let turn = if regular.is_empty() {
            running(true, self)
                .into_iter()
                .next_back()
                .into_iter()
                .collect()
        } else {
            regular
        };
        // The grace period is that of the whole pod.
        let over = later(since, self.pod.grace());
        let grace = std::time::Duration::try_from(over.duration_since(at)).unwrap_or_default();
        for index in turn {
            if !self.units[index].is_stopping() {
                let message = format!("Stopping container {}", self.units[index].spec.name);
                self.container_event(index, PodEvent::normal("Killing", message));
            }
            self.units[index].stop(grace, at);
        }
    }

    pub(super) fn settled_due(&self) -> Option<Timestamp> {
        match self.work {
            Work::Settling(until) => Some(until),
            _ => None,
        }
    }

    pub(super) fn settle(&mut self, at: Timestamp) {
        // The phase is written separately, after all other changes.
        self.report(at);
        self.send();
        self.work = Work::Terminated;
        self.deadline = None;
        self.report(at);
        if self.pod.is_deleting() {
            self.delete();
        }
    }

    fn delete(&mut self) {
        if self.pod.is_deleting() {
            self.send();
            self.out.push(Action::Delete);
            self.work = Work::Gone;
        }
    }

    pub(super) fn deadline_exceeded(&mut self, at: Timestamp) {
        self.deadline = None;
        if matches!(self.work, Work::Idle | Work::Syncing { .. }) {
            self.status.out_of_time = true;
            self.event(PodEvent::normal(
                "DeadlineExceeded",
                "Pod was active on the node longer than the specified deadline".to_owned(),
            ));
            self.terminate(at);
        }
    }
}
