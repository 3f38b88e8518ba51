//! A pod on a virtual-kubelet, as a state machine without I/O: the virtual-kubelet library's
//! control of a pod, and a provider under it.
//!
//! The library compares the pod with what it used last and with the provider's copy, calls the
//! provider for each difference in containers, labels or annotations, and writes the provider's
//! status. Its worst habits are simulated: a failed update makes the pod `Failed` (under Never) or
//! `Pending`; an update that does nothing gets a success event; a provider's old copy reverts
//! labels; a deleted pod is gone when its grace period is over, whatever the provider does.
//!
//! Not simulated: the limiter that all pods of a node share (10 per second after a burst of 100),
//! resolved environments (and updates because a ConfigMap changed), init containers, re-sending of
//! a status that was skipped, a restart of the virtual-kubelet.

mod group;
mod library;
mod options;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

pub use options::{Gap, OnUpdate, ProviderOptions, StatusMode};

use super::action::{Action, PodEvent};
use super::images::Images;
use super::pod::{PodSeen, is_terminal};
use super::times::{later, next_tick};
use group::Group;
use library::{compared, deletion, lost, runs, used};

/// The interval at which a provider that does not notify is polled.
const POLL: Duration = Duration::from_secs(5);
/// The first backoff after an error; each further error doubles it.
const RETRY: Duration = Duration::from_millis(5);
/// After this many errors in a row the pod is left alone until it changes.
const TRIES: u32 = 20;
/// A pod of this age that the provider does not know counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// A pod on a virtual-kubelet.
#[derive(Clone, Debug)]
pub struct VirtualKubelet {
    options: ProviderOptions,
    /// The pod as last shown by the API server.
    pod: Value,
    group: Option<Group>,
    /// The pod of the last reconcile without an error, without the parts that do not count.
    last_used: Option<Value>,
    handle_due: Option<Timestamp>,
    tries: u32,
    status_due: Option<Timestamp>,
    status_tries: u32,
    polled: Option<Value>,
    poll_due: Option<Timestamp>,
    delete_due: Option<Timestamp>,
    born: Timestamp,
    gone: bool,
    latest: Timestamp,
    out: Vec<Action>,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Group,
    Handle,
    Report,
    Poll,
    Delete,
}

impl VirtualKubelet {
    /// Returns the state of a pod that was just bound to the node.
    pub fn new(options: ProviderOptions, pod: &Value, now: Timestamp) -> Self {
        let poll_due = (options.status == StatusMode::Poll).then(|| next_tick(now, POLL));
        Self {
            options,
            pod: pod.clone(),
            group: None,
            last_used: None,
            handle_due: Some(now),
            tries: 0,
            status_due: None,
            status_tries: 0,
            polled: None,
            poll_due,
            delete_due: None,
            born: now,
            gone: false,
            latest: now,
            out: Vec::new(),
        }
    }

    /// Handles an update of the pod. Call `advance` first for what was due before.
    pub fn see(&mut self, pod: &Value, now: Timestamp) {
        let changed = compared(&self.pod) != compared(pod) || deletion(&self.pod) != deletion(pod);
        self.pod = pod.clone();
        if changed {
            // A change brings a pending retry forward, and revives a pod that was given up.
            self.handle_due = Some(now);
            self.tries = if self.tries > TRIES { 0 } else { self.tries };
        }
    }

    /// Returns the time of the next step, unless an event comes before.
    pub fn wake(&self) -> Option<Timestamp> {
        self.next().map(|(at, _)| at)
    }

    /// Performs all steps that are due, and returns the writes that follow.
    pub fn advance(&mut self, images: &mut Images, now: Timestamp) -> Vec<Action> {
        while let Some((at, next)) = self.next().filter(|(at, _)| *at <= now) {
            self.latest = at;
            self.happen(next, at, images);
        }
        std::mem::take(&mut self.out)
    }

    /// Schedules a retry of a status that could not be written, for example because of a conflict.
    pub fn not_written(&mut self, now: Timestamp) {
        if self.status_tries < TRIES {
            self.status_due = Some(later(now, wait(self.status_tries)));
            self.status_tries += 1;
        }
    }

    /// Drops the provider's containers of the pod.
    pub fn lose_instance(&mut self) {
        self.group = None;
    }

    /// Returns true once the node is done with the pod.
    pub const fn is_gone(&self) -> bool {
        self.gone
    }

    fn next(&self) -> Option<(Timestamp, Next)> {
        let all = [
            (self.group.as_ref().and_then(Group::wake), Next::Group),
            (self.handle_due, Next::Handle),
            (self.status_due, Next::Report),
            (self.poll_due, Next::Poll),
            (self.delete_due, Next::Delete),
        ];
        let all = all
            .into_iter()
            .filter_map(|(at, next)| Some((at?.max(self.latest), next)));
        all.filter(|_| !self.gone).min_by_key(|(at, _)| *at)
    }

    fn happen(&mut self, next: Next, at: Timestamp, images: &mut Images) {
        match next {
            Next::Group => {
                let seen = self
                    .group
                    .as_mut()
                    .is_some_and(|group| group.happen(at, images));
                self.changed(seen, at);
            }
            Next::Handle => self.handle(at, images),
            Next::Report => self.send(),
            Next::Poll => self.poll(at),
            Next::Delete => {
                self.out.push(Action::Delete);
                self.gone = true;
            }
        }
    }

    /// Notifies the library of a visible change, if the provider does so at all.
    fn changed(&mut self, seen: bool, at: Timestamp) {
        if seen && self.options.status == StatusMode::Notify {
            // A change brings a pending retry forward.
            let due = later(at, self.options.status_delay);
            self.status_due = Some(self.status_due.map_or(due, |known| known.min(due)));
            self.status_tries = 0;
        }
    }

    fn seen(&self) -> PodSeen {
        PodSeen::read(&self.pod)
    }

    fn handle(&mut self, at: Timestamp, images: &Images) {
        self.handle_due = None;
        let pod = self.seen();
        if pod.is_deleting() && !runs(&pod) {
            self.delete_due = Some(at);
            return;
        }
        let used = used(&self.pod);
        if self.last_used.as_ref() == Some(&used) {
            return;
        }
        let done = if pod.is_deleting() {
            self.delete(&pod, at);
            Ok(())
        } else if pod.is_terminal() {
            Ok(())
        } else {
            self.create_or_update(at, images)
        };
        match done {
            Ok(()) => {
                self.last_used = Some(used);
                self.tries = 0;
            }
            Err(problem) => self.failed(&problem, at),
        }
    }

    /// Deletes the pod. It goes from the API when its grace period is over, whether its containers
    /// have stopped or not.
    fn delete(&mut self, pod: &PodSeen, at: Timestamp) {
        let grace = pod.grace();
        if let Some(group) = &mut self.group {
            group.stop(grace, at);
            self.out.push(Action::Event(PodEvent::normal(
                "ProviderDeleteSuccess",
                "Delete pod in provider successfully".to_owned(),
            )));
        }
        self.delete_due = Some(later(at, grace));
    }

    fn create_or_update(&mut self, at: Timestamp, images: &Images) -> Result<(), String> {
        if self.group.is_none() {
            let created = Group::new(self.options, &self.pod, images, at);
            self.tell("Create", created.as_ref().err());
            self.group = Some(created?);
            self.changed(true, at);
            return Ok(());
        }
        let same = self
            .group
            .as_ref()
            .is_some_and(|group| compared(&group.pod) == compared(&self.pod));
        if same {
            return Ok(());
        }
        let updated = self.update(at, images);
        self.tell("Update", updated.as_ref().err());
        updated
    }

    fn update(&mut self, at: Timestamp, images: &Images) -> Result<(), String> {
        let Some(group) = &mut self.group else {
            return Ok(());
        };
        if self.options.on_update == OnUpdate::Fails {
            return Err("pods of this provider cannot be updated".to_owned());
        }
        if self.options.keeps_metadata {
            group.keep_metadata(&self.pod);
        }
        match self.options.on_update {
            OnUpdate::Replaces => group.update(&self.pod, images, at),
            OnUpdate::Nothing | OnUpdate::Fails => Ok(()),
        }
    }

    fn tell(&mut self, what: &str, problem: Option<&String>) {
        let event = match (what, problem) {
            ("Create", None) => PodEvent::normal(
                "ProviderCreateSuccess",
                "Create pod in provider successfully".to_owned(),
            ),
            ("Create", Some(problem)) => PodEvent::warning("ProviderCreateFailed", problem.clone()),
            (_, None) => PodEvent::normal(
                "ProviderUpdateSuccess",
                "Update pod in provider successfully".to_owned(),
            ),
            (_, Some(problem)) => PodEvent::warning("ProviderUpdateFailed", problem.clone()),
        };
        self.out.push(Action::Event(event));
    }

    /// Writes a failure. The library sets the phase itself, without regard to the containers or to
    /// the version of the pod.
    fn failed(&mut self, problem: &str, at: Timestamp) {
        let mut pod = self.pod.clone();
        let phase = if pod["spec"]["restartPolicy"] == "Never" {
            "Failed"
        } else {
            "Pending"
        };
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        pod["status"]["phase"] = phase.into();
        pod["status"]["reason"] = "ProviderFailed".into();
        pod["status"]["message"] = problem.into();
        self.out.push(Action::PutStatus(Box::new(pod)));
        self.tries += 1;
        if self.tries <= TRIES {
            self.handle_due = Some(later(at, wait(self.tries - 1)));
        }
    }

    /// Sends the status; a phase that is already final is never overwritten.
    fn send(&mut self) {
        self.status_due = None;
        if is_terminal(self.pod["status"]["phase"].as_str().unwrap_or_default()) {
            return;
        }
        let told = match self.options.status {
            StatusMode::Notify => self.group.as_ref().map(|group| group.pod.clone()),
            StatusMode::Poll => self.polled.clone(),
        };
        if let Some(mut pod) = told {
            pod["metadata"]["resourceVersion"] = self.pod["metadata"]["resourceVersion"].clone();
            self.out.push(Action::PutStatus(Box::new(pod)));
        }
    }

    fn poll(&mut self, at: Timestamp) {
        self.poll_due = Some(next_tick(at, POLL));
        let phase = self.pod["status"]["phase"].as_str().unwrap_or_default();
        if is_terminal(phase) {
            return;
        }
        let mut pod = self.pod.clone();
        match &self.group {
            Some(group) => pod["status"] = group.pod["status"].clone(),
            None if phase == "Running" || at > later(self.born, LOST_AFTER) => lost(&mut pod, at),
            None => return,
        }
        let told = self
            .polled
            .as_ref()
            .is_some_and(|told| told["status"] == pod["status"]);
        self.polled = Some(pod);
        if !told {
            self.status_tries = 0;
            self.send();
        }
    }
}

fn wait(tries: u32) -> Duration {
    RETRY * 2_u32.saturating_pow(tries.min(TRIES))
}
