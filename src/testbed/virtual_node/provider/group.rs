//! The containers that a provider runs for one pod.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use swaplet_core::image::ImageReference;

use super::options::{Gap, ProviderOptions};
use crate::virtual_node::images::{ImageKind, Images, digest_of, hash};
use crate::virtual_node::life::Life;
use crate::virtual_node::pod::{Container, PodSeen, Policy, is_terminal};
use crate::virtual_node::times::{later, time};

/// The wait before a failed pull is retried.
const AGAIN: Duration = Duration::from_secs(10);

/// The containers of a pod.
#[derive(Clone, Debug)]
pub(super) struct Group {
    options: ProviderOptions,
    /// The provider's copy of the pod, with its status.
    pub pod: Value,
    policy: Policy,
    containers: Vec<Run>,
    /// True once no container may start any more.
    stopped: bool,
    started: Timestamp,
}

/// A container: its next run, and its current or last one.
#[derive(Clone, Debug)]
struct Run {
    spec: Container,
    lives: usize,
    life: Option<(Timestamp, Life)>,
    starts_at: Option<Timestamp>,
    /// True while this run is ended for another image.
    replacing: bool,
    /// True if this run has ended, and it is shown that another one follows.
    follows: bool,
    status: Value,
    terminated: Option<i32>,
}

impl Group {
    /// Creates the group; arguments of containers that cannot be parsed are an error.
    pub fn new(
        options: ProviderOptions,
        pod: &Value,
        images: &Images,
        now: Timestamp,
    ) -> Result<Self, String> {
        let seen = PodSeen::read(pod);
        check(&seen, images)?;
        let starts_at = Some(later(now, options.start_delay));
        let run = |spec: &Container| Run {
            status: json!({"name": spec.name, "image": spec.image, "imageID": "", "ready": false, "started": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}}),
            spec: spec.clone(),
            lives: 0,
            life: None,
            starts_at,
            replacing: false,
            follows: false,
            terminated: None,
        };
        let containers = seen
            .spec
            .containers
            .iter()
            .map(run)
            .map(|run| run.adopted(&seen, pod, images, options))
            .collect();
        let mut group = Self {
            options,
            pod: pod.clone(),
            policy: seen.spec.restart_policy,
            containers,
            stopped: false,
            started: now,
        };
        group.write_status(now);
        Ok(group)
    }

    /// Adopts the images of a pod; a container that has ended stays so.
    pub fn update(&mut self, pod: &Value, images: &Images, now: Timestamp) -> Result<(), String> {
        let seen = PodSeen::read(pod);
        check(&seen, images)?;
        self.pod["spec"] = pod["spec"].clone();
        let term = later(now, self.options.update_latency);
        let kill = later(term, seen.grace());
        for (run, spec) in self.containers.iter_mut().zip(seen.spec.containers) {
            let changed = run.spec.image != spec.image;
            run.spec = spec;
            if let (true, false, Some((_, life))) = (changed, run.replacing, &mut run.life) {
                run.replacing = true;
                life.stop(term, kill);
            }
        }
        Ok(())
    }

    /// Adopts the metadata of a pod.
    pub fn keep_metadata(&mut self, pod: &Value) {
        self.pod["metadata"] = pod["metadata"].clone();
    }

    /// Ends all containers for good.
    pub fn stop(&mut self, grace: Duration, now: Timestamp) {
        self.stopped = true;
        for run in &mut self.containers {
            run.starts_at = None;
            if let Some((_, life)) = &mut run.life {
                life.stop(now, later(now, grace));
            }
        }
    }

    /// Returns the time of the next step.
    pub fn wake(&self) -> Option<Timestamp> {
        self.containers.iter().filter_map(Run::wake).min()
    }

    /// Performs the next step; returns true if it is visible.
    pub fn happen(&mut self, at: Timestamp, images: &mut Images) -> bool {
        let Some(index) = self
            .containers
            .iter()
            .position(|run| run.wake().is_some_and(|due| due <= at))
        else {
            return false;
        };
        let seen = if self.containers[index].life.is_some() {
            self.end(index, at)
        } else {
            self.begin(index, at, images)
        };
        if seen {
            self.write_status(at);
        }
        seen
    }

    fn begin(&mut self, index: usize, at: Timestamp, images: &mut Images) -> bool {
        let (options, policy) = (self.options, self.policy);
        let uid = self.pod["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let run = &mut self.containers[index];
        if images.local(&run.spec.image).is_none() && !images.pull(&run.spec.image) {
            run.starts_at = Some(later(at, AGAIN));
            if run.lives == 0 {
                run.status["state"] = json!({"waiting": {"reason": "ImagePullBackOff", "message": format!("Back-off pulling image {:?}", run.spec.image)}});
            }
            return run.lives == 0;
        }
        let Ok(behaviour) = run.spec.behaviour(images, policy, options.exit_runs) else {
            return false;
        };
        run.life = Some((at, Life::start(behaviour, run.lives, at)));
        run.lives += 1;
        (run.starts_at, run.replacing, run.follows, run.terminated) = (None, false, false, None);
        run.status = run.running(&options, &uid, at);
        true
    }

    /// Handles the end of a container, like the mock on the real library.
    fn end(&mut self, index: usize, at: Timestamp) -> bool {
        let (policy, stopped, gap, start) = (
            self.policy,
            self.stopped,
            self.options.gap,
            later(at, self.options.start_delay),
        );
        let run = &mut self.containers[index];
        let Some((started, code)) = run
            .life
            .take()
            .and_then(|(started, life)| Some((started, life.end()?.code)))
        else {
            return false;
        };
        let replaced = run.replacing && !stopped;
        if replaced && gap == Gap::Hidden {
            run.starts_at = Some(start);
            return false;
        }
        run.ended(started, code, at, self.options.completed_as_running);
        run.follows =
            !stopped && (run.spec.restarts(policy, code) || (replaced && gap == Gap::Reported));
        let follows = run.follows;
        // A judged phase does not change any more.
        self.stopped |= is_terminal(self.phase());
        if !self.stopped && (follows || replaced) {
            self.containers[index].starts_at = Some(start);
        }
        true
    }

    fn phase(&self) -> &'static str {
        if self.containers.iter().any(|run| run.lives == 0) {
            return "Pending";
        }
        let over = |run: &Run| run.terminated.filter(|_| !run.follows);
        let codes: Vec<i32> = self.containers.iter().filter_map(over).collect();
        match codes.len() < self.containers.len() {
            true => "Running",
            false if codes.iter().any(|code| *code != 0) => "Failed",
            false => "Succeeded",
        }
    }

    fn write_status(&mut self, at: Timestamp) {
        let statuses: Vec<Value> = self
            .containers
            .iter()
            .map(|run| run.status.clone())
            .collect();
        let ready = statuses.iter().all(|status| status["ready"] == true);
        let phase = self.phase();
        let status = &mut self.pod["status"];
        status["phase"] = phase.into();
        status["startTime"] = time(self.started).into();
        status["containerStatuses"] = statuses.into();
        set_condition(status, "Initialized", true, at);
        set_condition(status, "ContainersReady", ready, at);
        set_condition(status, "Ready", ready, at);
    }
}

impl Run {
    /// Adopts containers that ran before this virtual-kubelet started.
    fn adopted(
        mut self,
        seen: &PodSeen,
        pod: &Value,
        images: &Images,
        options: ProviderOptions,
    ) -> Self {
        let Some(status) = seen
            .status
            .container_statuses
            .iter()
            .find(|status| status.name == self.spec.name)
        else {
            return self;
        };
        let (since, ended) = (status.running_since(), status.ended());
        if since.is_none() && ended.is_none() {
            return self;
        }
        let all = pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten();
        self.status = all
            .into_iter()
            .find(|one| one["name"] == status.name.as_str())
            .cloned()
            .unwrap_or_default();
        self.lives = status.restart_count + 1;
        self.starts_at = None;
        self.terminated = ended.map(|(_, _, code)| code);
        let spec = Container {
            image: status.image.clone(),
            ..self.spec.clone()
        };
        let behaviour = spec
            .behaviour(images, seen.spec.restart_policy, options.exit_runs)
            .ok();
        self.life = since
            .zip(behaviour)
            .map(|(since, behaviour)| (since, Life::start(behaviour, status.restart_count, since)));
        self
    }

    fn wake(&self) -> Option<Timestamp> {
        match &self.life {
            Some((_, life)) => life.end().map(|end| end.at),
            None => self.starts_at,
        }
    }

    fn running(&self, options: &ProviderOptions, uid: &str, at: Timestamp) -> Value {
        let life = if options.new_container_ids {
            format!("/{}", self.lives)
        } else {
            String::new()
        };
        let restarts = if options.counts_restarts {
            self.lives - 1
        } else {
            0
        };
        let image_id = if options.reports_image_id {
            image_id(&self.spec.image)
        } else {
            String::new()
        };
        json!({"name": self.spec.name, "image": self.spec.image, "imageID": image_id, "ready": true, "started": true, "restartCount": restarts,
            "containerID": format!("mock://{}", hash(&format!("{uid}/{}{life}", self.spec.name))),
            "state": {"running": {"startedAt": time(at)}}, "lastState": {}})
    }

    fn ended(&mut self, started: Timestamp, code: i32, at: Timestamp, completed_as_running: bool) {
        self.terminated = Some(code);
        if code == 0 && completed_as_running {
            return;
        }
        let reason = if code == 0 { "Completed" } else { "Error" };
        let id = self.status["containerID"].clone();
        self.status["ready"] = false.into();
        self.status["started"] = false.into();
        self.status["state"] = json!({"terminated": {"exitCode": code, "reason": reason, "containerID": id, "startedAt": time(started), "finishedAt": time(at)}});
    }
}

fn check(pod: &PodSeen, images: &Images) -> Result<(), String> {
    for container in &pod.spec.containers {
        if images.kind(&container.image) == ImageKind::Workload {
            let read = container.behaviour(images, pod.spec.restart_policy, Duration::ZERO);
            read.map_err(|error| format!("container {}: {error}", container.name))?;
        }
    }
    Ok(())
}

fn image_id(image: &str) -> String {
    let Ok(reference) = ImageReference::parse(image) else {
        return String::new();
    };
    format!(
        "{}/{}@{}",
        reference.registry(),
        reference.repository(),
        digest_of(&reference)
    )
}

fn set_condition(status: &mut Value, kind: &str, on: bool, at: Timestamp) {
    let wanted = json!({"type": kind, "status": if on { "True" } else { "False" }, "lastTransitionTime": time(at)});
    let Some(conditions) = list(status, "conditions") else {
        return;
    };
    match conditions
        .iter_mut()
        .find(|condition| condition["type"] == kind)
    {
        Some(known) if known["status"] == wanted["status"] => (),
        Some(known) => *known = wanted,
        None => conditions.push(wanted),
    }
}

/// Returns a list in an object; it is created if it is missing.
fn list<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Vec<Value>> {
    if !object[field].is_array() {
        object[field] = json!([]);
    }
    object[field].as_array_mut()
}
