//! The status that is reported.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Kubelet;
use super::state::unit::{Record, State, Unit, Waiting};
use super::state::work::Work;
use crate::virtual_node::action::Action;
use crate::virtual_node::images::hash;
use crate::virtual_node::pod::is_terminal;
use crate::virtual_node::times::{later, time};

impl Kubelet {
    /// Schedules a report of the current status, if it is new.
    pub(super) fn report(&mut self, at: Timestamp) {
        let phase = self.phase_to_report();
        let mut status = self.make_status(&phase, at);
        keep_transitions(&mut status, &self.status.status);
        if status != self.status.status {
            self.status.phase = phase;
            self.status.status = status;
            self.status
                .due
                .get_or_insert(later(at, self.options.status_delay));
        }
    }

    pub(super) fn send(&mut self) {
        if self.status.due.take().is_some() {
            self.out
                .push(Action::PatchStatus(self.status.status.clone()));
        }
    }

    /// Reports a status again that somebody else has changed.
    pub(super) fn reconcile(&mut self, at: Timestamp) {
        self.reconcile_due = None;
        let differs = self.status.lost || self.pod.status.phase != self.status.phase;
        if differs && !self.status.phase.is_empty() && !matches!(self.work, Work::Gone) {
            self.status.lost = false;
            self.status.due = Some(at);
        }
    }

    fn make_status(&self, phase: &str, at: Timestamp) -> Value {
        let ip = format!("10.244.{}.{}", self.byte(0) % 250, self.byte(2) % 250 + 2);
        let mut regular = self.statuses(false, at);
        regular.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
        let (reason, message) = match (self.status.out_of_time, phase) {
            (true, "Failed") => (
                json!("DeadlineExceeded"),
                json!("Pod was active on the node longer than the specified deadline"),
            ),
            _ => (Value::Null, Value::Null),
        };
        let mut status = json!({
            "phase": phase, "reason": reason, "message": message, "hostIP": HOST_IP, "hostIPs": [{"ip": HOST_IP}],
            "startTime": self.started.map(time), "conditions": self.conditions(phase, at), "containerStatuses": regular,
        });
        if self.has_sandbox {
            status["podIP"] = json!(ip);
            status["podIPs"] = json!([{"ip": ip}]);
        }
        if self.units.iter().any(|unit| unit.init) {
            status["initContainerStatuses"] = self.statuses(true, at).into();
        }
        if let (true, Some(generation)) = (
            self.options.observed_generation,
            self.synced.metadata.generation,
        ) {
            status["observedGeneration"] = generation.into();
        }
        status
    }

    fn byte(&self, at: usize) -> u8 {
        let id = hash(&self.pod.metadata.uid);
        id.get(at..at + 2)
            .and_then(|text| u8::from_str_radix(text, 16).ok())
            .unwrap_or(1)
    }

    fn statuses(&self, init: bool, at: Timestamp) -> Vec<Value> {
        self.units
            .iter()
            .filter(|unit| unit.init == init)
            .map(|unit| self.container_status(unit, at))
            .collect()
    }

    fn container_status(&self, unit: &Unit, at: Timestamp) -> Value {
        let (last, before) = unit.kept(at);
        let running = unit.is_running();
        let mut state = last.map(record_state);
        let mut last_state = match (last, before) {
            (_, Some(before)) => record_state(before),
            (Some(last), None) => self.carried_last_state(unit, last),
            (None, None) => json!({}),
        };
        // The reason of a failed start is shown where another start may follow: not in a pod that
        // is deleted (`ShouldContainerBeRestarted` in pkg/kubelet/container/helpers.go).
        let waiting = unit
            .waiting
            .as_ref()
            .filter(|_| !self.pod.is_deleting() && unit.should_start(self.policy()));
        if let Some(waiting) = waiting {
            if let Some(ended) = state.take() {
                last_state = ended;
            }
            state = Some(waiting_state(waiting));
        }
        let state = state.unwrap_or_else(|| self.never_ran());
        let completed =
            unit.init && !unit.is_native_sidecar() && unit.end().is_some_and(|end| end.code == 0);
        json!({
            "name": unit.spec.name, "image": last.map_or(&unit.spec.image, |record| &record.local.image),
            "imageID": last.map_or("", |record| &record.local.image_id), "containerID": last.map(|record| &record.id),
            "restartCount": last.map_or(0, |record| record.restarts), "ready": running || completed, "started": running,
            "state": state, "lastState": last_state,
        })
    }

    /// Returns the `lastState` of a container of which the runtime has only this record: from 1.36 on
    /// what its status before says (`convertContainerStatus` in pkg/kubelet/kubelet_pods.go). That
    /// can be the end of this very record, if the container has waited for a start that never came.
    fn carried_last_state(&self, unit: &Unit, last: &Record) -> Value {
        if !self.options.keeps_last_state {
            return json!({});
        }
        let list = if unit.init {
            "initContainerStatuses"
        } else {
            "containerStatuses"
        };
        let mut statuses = self.status.status[list].as_array().into_iter().flatten();
        let Some(before) = statuses.find(|before| before["name"] == unit.spec.name.as_str()) else {
            return json!({});
        };
        if before["containerID"] != last.id.as_str() && before["state"]["terminated"].is_object() {
            before["state"].clone()
        } else {
            before["lastState"].clone()
        }
    }

    fn never_ran(&self) -> Value {
        if matches!(self.work, Work::Terminated) {
            let message = "The container could not be located when the pod was terminated";
            return json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}});
        }
        let reason = if self.units.iter().any(|unit| unit.init) {
            "PodInitializing"
        } else {
            "ContainerCreating"
        };
        json!({"waiting": {"reason": reason}})
    }

    fn conditions(&self, phase: &str, at: Timestamp) -> Value {
        let computed = self.phase(matches!(self.work, Work::Terminated));
        let over = is_terminal(phase) || is_terminal(&computed);
        let unready: Vec<&str> = self
            .units
            .iter()
            .filter(|unit| !unit.init && !unit.is_running())
            .map(|unit| unit.spec.name.as_str())
            .collect();
        let ready = unready.is_empty() && !over;
        let (reason, message) = match (ready, phase == "Succeeded" || computed == "Succeeded") {
            (true, _) => (None, None),
            (false, true) => (Some("PodCompleted"), None),
            (false, false) if over => (Some("PodFailed"), None),
            _ => (
                Some("ContainersNotReady"),
                Some(format!(
                    "containers with unready status: [{}]",
                    unready.join(" ")
                )),
            ),
        };
        let generation = self
            .synced
            .metadata
            .generation
            .filter(|_| self.options.observed_generation);
        let condition = |kind: &str, on: bool, reason: Option<&str>, message: Option<&str>| {
            json!({"type": kind, "status": if on { "True" } else { "False" }, "lastProbeTime": null, "lastTransitionTime": time(at),
                "reason": reason, "message": message, "observedGeneration": generation})
        };
        json!([
            condition(
                "PodReadyToStartContainers",
                self.has_sandbox && !matches!(self.work, Work::Terminated),
                None,
                None
            ),
            condition("Initialized", self.is_initialized(), None, None),
            condition("Ready", ready, reason, message.as_deref()),
            condition("ContainersReady", ready, reason, message.as_deref()),
            condition("PodScheduled", true, None, None),
        ])
    }
}

const HOST_IP: &str = "10.0.0.1";

/// Keeps the transition time of unchanged conditions.
fn keep_transitions(status: &mut Value, before: &Value) {
    let old = before["conditions"].as_array().cloned().unwrap_or_default();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let same = old
            .iter()
            .find(|old| old["type"] == condition["type"] && old["status"] == condition["status"]);
        if let Some(same) = same {
            condition["lastTransitionTime"] = same["lastTransitionTime"].clone();
        }
    }
}

fn waiting_state(waiting: &Waiting) -> Value {
    json!({"waiting": {"reason": waiting.reason, "message": waiting.message}})
}

fn record_state(record: &Record) -> Value {
    match &record.state {
        State::Running(since, _) => json!({"running": {"startedAt": time(*since)}}),
        State::Ended(since, end) => {
            let reason = if end.code == 0 { "Completed" } else { "Error" };
            json!({"terminated": {"exitCode": end.code, "reason": reason, "startedAt": time(*since), "finishedAt": time(end.at), "containerID": record.id}})
        }
        State::NotStarted(at, message) => {
            json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": message,
            "startedAt": time(Timestamp::UNIX_EPOCH), "finishedAt": time(*at), "containerID": record.id}})
        }
    }
}
