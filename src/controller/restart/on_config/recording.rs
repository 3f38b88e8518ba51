//! Records what pods have observed, before anything is done for their group.

use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::on_config::annotation::RESTART_ON;

use super::{DENIED_RETRY, RETRY, Run};
use crate::frame::isolated::defects::{log, note};
use crate::frame::isolated::isolated;
use crate::frame::serve::rights::Right;
use crate::restart::on_config::state::{Group, MOST_OBJECTS};

impl Run {
    /// Returns the enqueued groups whose records are up to date.
    pub(super) fn recorded(&mut self, now: Moment) -> Vec<Group> {
        let mut recorded = Vec::new();
        for group in self.state.fresh(now) {
            if let Some(again) = self.defects.left_alone_until(&group, now) {
                self.state.reconciled(&group, Some(again));
                continue;
            }
            match isolated(&group.1, || self.record(&group, now)) {
                Ok(()) => recorded.push(group),
                Err(defect) => self.undecided(&group, &defect, now),
            }
        }
        recorded
    }

    /// Handles a panic: the pods of this owner are left alone for a while, and all others continue.
    pub(super) fn undecided(&mut self, group: &Group, defect: &str, now: Moment) {
        let again = self.defects.meet(group.clone(), now);
        self.state.reconciled(group, Some(again));
        self.metrics.decisions_failed(1);
        match self.state.first(group).cloned() {
            Some(pod) => drop(self.report_once(
                &pod,
                Report {
                    reason: Reason::DecisionFailed,
                    note: note("pod", defect),
                },
            )),
            None => log("owner of pods", &group.0, &group.1, defect),
        }
    }

    fn record(&mut self, group: &Group, now: Moment) {
        for (pod, object) in self.state.unwatched(group) {
            let note = format!(
                "pods name more than {MOST_OBJECTS} objects, the limit of watches, and this namespace uses more than its share: \
                 nothing is restarted for {object}; name fewer objects in {RESTART_ON}"
            );
            self.report(
                &pod,
                Report {
                    reason: Reason::RestartOnInvalid,
                    note,
                },
            );
        }
        let mut without_room = Vec::new();
        for member in self
            .state
            .members(group, &self.records, self.settings.mount_delay, now)
        {
            if !member.standing.record.is_empty()
                && !self.records.keep(member.pod, &member.standing.record)
            {
                without_room.push(member.pod.clone());
            }
        }
        for pod in without_room {
            let note = "too many pods request restarts when objects change, and this namespace has used its share of the records: none is \
                        left for this pod, so none of its containers is restarted";
            self.report(
                &pod,
                Report {
                    reason: Reason::RestartOnInvalid,
                    note: note.to_owned(),
                },
            );
        }
    }

    pub(super) fn records_failed(&mut self, error: &WriteError) {
        let wait = match error {
            WriteError::Denied(_) => DENIED_RETRY,
            WriteError::Failed { retry_after, .. } => self
                .wait_after_failure()
                .max(retry_after.unwrap_or_default()),
            WriteError::Conflict | WriteError::Gone => RETRY.first,
        };
        self.not_before = self.clock.now() + wait;
        let namespace = &self.settings.state_namespace;
        match error {
            WriteError::Denied(words) => {
                self.health
                    .note_denial(Right::WriteRecords, namespace, words)
            }
            _ => tracing::warn!(
                namespace,
                ?error,
                "{}; trying again",
                Right::WriteRecords.without()
            ),
        }
    }

    pub(super) fn wait_after_failure(&mut self) -> Duration {
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        wait
    }
}
