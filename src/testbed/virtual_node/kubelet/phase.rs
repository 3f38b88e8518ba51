//! The phase of a pod, by the rules of the kubelet's `getPhase`.

use super::Kubelet;
use super::state::unit::Unit;
use super::state::work::Work;
use crate::virtual_node::pod::{Policy, is_terminal};

/// The container counts that decide the phase.
#[derive(Default)]
struct Tally {
    waiting: usize,
    running: usize,
    stopped: usize,
    succeeded: usize,
    restarting: usize,
}

impl Kubelet {
    /// Returns the phase that follows from the containers; `ended` is true if none will restart.
    pub(super) fn phase(&self, ended: bool) -> String {
        self.computed(ended).to_owned()
    }

    fn computed(&self, ended: bool) -> &'static str {
        if self.policy() == Policy::Never && self.units.iter().any(failed_init) {
            return "Failed";
        }
        let tally = self.tally();
        if !self.is_initialized() && !ended || tally.waiting > 0 {
            return "Pending";
        }
        match tally {
            Tally { running: 1.., .. } => "Running",
            Tally { stopped: 0, .. } => "Pending",
            Tally {
                restarting: 1.., ..
            } if !ended => "Running",
            Tally {
                stopped, succeeded, ..
            } if stopped == succeeded => "Succeeded",
            _ => "Failed",
        }
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for unit in self.units.iter().filter(|unit| !unit.init) {
            match unit.end() {
                Some(end) => {
                    tally.stopped += 1;
                    tally.succeeded += usize::from(end.code == 0);
                    tally.restarting += usize::from(unit.spec.restarts(self.policy(), end.code));
                }
                None if unit.is_running() => tally.running += 1,
                None => tally.waiting += 1,
            }
        }
        tally
    }

    /// Returns the phase to report. A final one is held back until all containers have ended for
    /// certain; one that somebody else wrote is kept once the pod is being ended, and not before.
    pub(super) fn phase_to_report(&self) -> String {
        let ending = matches!(
            self.work,
            Work::Terminating(_) | Work::Settling(_) | Work::Terminated
        );
        if ending && self.pod.is_terminal() {
            return self.pod.status.phase.clone();
        }
        let ended = matches!(self.work, Work::Terminated);
        if ended && self.status.out_of_time {
            return "Failed".to_owned();
        }
        let phase = self.phase(ended);
        if ended || !is_terminal(&phase) {
            return phase;
        }
        if self.status.phase.is_empty() {
            "Pending".to_owned()
        } else {
            self.status.phase.clone()
        }
    }
}

fn failed_init(unit: &Unit) -> bool {
    unit.init && !unit.is_native_sidecar() && unit.end().is_some_and(|end| end.code != 0)
}
