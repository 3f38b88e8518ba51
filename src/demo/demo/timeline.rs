//! The story of the demo, line by line: who did what, when, and why. It is read from the API alone,
//! as a user could.

use std::collections::HashMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus, Event, Pod};
use kube::ResourceExt as _;
use swaplet_controller::frame::writer::report::REPORTING_CONTROLLER;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::env::{WHEN_JOB_EXIT, WITH_IMAGE};
use swaplet_core::policies::presets;
use swaplet_testbed::job_controller::{is_left_alone, unsupported};

use super::{EXIT_IMAGE, RUNNING, Results, Row, job_state};

/// Returns one line: when, by the clock that starts with the demo; who: `job controller`, `node` or
/// `swaplet`; about which Job, or pod with its container; and what happened.
fn line(at: Moment, who: &str, what: &str, text: &str) -> String {
    let at = at.since_start().as_secs_f64();
    format!("{at:>6.1}s  {who:<14}  {what:<32}  {text}")
}

/// Compares the state of the cluster with the state before.
#[derive(Debug, Default)]
pub struct Timeline {
    pods: HashMap<String, Pod>,
    /// The results so far.
    pub results: Results,
    inert: bool,
}

impl Timeline {
    /// Returns a new timeline. `inert` means that the node does not react to changed images.
    pub fn of(inert: bool) -> Self {
        Self {
            inert,
            ..Self::default()
        }
    }

    /// Returns what is new about a pod.
    pub fn pod(&mut self, at: Moment, pod: Pod) -> Vec<String> {
        let name = placed(pod.namespace(), &pod.name_any());
        self.note(at, &name, &pod);
        let before = self
            .pods
            .insert(name.clone(), pod.clone())
            .unwrap_or_default();
        let mut lines = self.swaps(at, &name, &before, &pod);
        for status in statuses(&pod) {
            let old = statuses(&before).find(|old| old.name == status.name);
            if let Some(text) = change(old, status) {
                let what = format!("{name}/{}", status.name);
                lines.push(line(at, "node", &what, &text));
            }
        }
        let phase = phase(&pod);
        if phase != self::phase(&before) && matches!(phase, "Succeeded" | "Failed") {
            lines.push(line(at, "node", &name, &format!("pod is {phase}")));
        }
        lines
    }

    /// Returns lines for the exit images that are new in a pod: only swaplet writes them.
    fn swaps(&self, at: Moment, name: &str, before: &Pod, pod: &Pod) -> Vec<String> {
        let line = |text: &str| line(at, "swaplet", name, text);
        let mut lines: Vec<_> = containers(pod)
            .filter(|now| now.image.as_deref() == Some(EXIT_IMAGE))
            .filter_map(|now| {
                let old = containers(before).find(|old| old.name == now.name)?;
                let image = old.image.as_deref().filter(|image| *image != EXIT_IMAGE)?;
                let container = &now.name;
                Some(line(&format!("swaps {container}: {image} -> {EXIT_IMAGE}")))
            })
            .collect();
        if self.inert && !lines.is_empty() {
            lines.push(line(WAITS));
        }
        lines
    }

    /// Returns what is new about a Job.
    pub fn job(&mut self, at: Moment, job: &Job) -> Vec<String> {
        let name = placed(job.namespace(), &job.name_any());
        let state = if is_left_alone(job) {
            LEFT_ALONE.to_owned()
        } else {
            job_state(job)
        };
        let before = self.results.jobs.insert(name.clone(), state.clone());
        if before.as_ref() == Some(&state) {
            return Vec::new();
        }
        let texts = match before {
            None => [Some(created(job)), unsupported(job)],
            Some(_) => [Some(state), None],
        };
        let line = |text: String| line(at, "job controller", &format!("job/{name}"), &text);
        texts.into_iter().flatten().map(line).collect()
    }

    /// Returns a line for an Event of swaplet.
    pub fn event(&self, at: Moment, event: &Event) -> Vec<String> {
        if event.reporting_component.as_deref() != Some(REPORTING_CONTROLLER) {
            return Vec::new();
        }
        let object = &event.involved_object;
        let name = object.name.as_deref().unwrap_or_default();
        let what = placed(object.namespace.clone(), name);
        let reason = event.reason.as_deref().unwrap_or_default();
        let message = event.message.as_deref().unwrap_or_default();
        vec![line(at, "swaplet", &what, &format!("{reason}: {message}"))]
    }

    /// Returns why pods that have not started are waiting, one sentence each.
    pub fn waiting(&self) -> Vec<String> {
        let pending = self.pods.iter().filter(|(_, pod)| phase(pod) == "Pending");
        let mut lines: Vec<_> = pending
            .filter_map(|(name, pod)| Some(format!("pod {name} is Pending: {}", why_pending(pod)?)))
            .collect();
        lines.sort_unstable();
        lines
    }

    /// Returns how many Jobs, and pods without a Job, have ended.
    pub fn ended(&self) -> usize {
        let jobs = self
            .results
            .jobs
            .values()
            .filter(|state| *state != RUNNING)
            .count();
        jobs + self
            .results
            .pods
            .values()
            .filter(|row| row.job.is_empty() && row.finished.is_some())
            .count()
    }

    fn note(&mut self, at: Moment, name: &str, pod: &Pod) {
        let row = self
            .results
            .pods
            .entry(name.to_owned())
            .or_insert_with(|| new_row(pod));
        phase(pod).clone_into(&mut row.phase);
        if mains_ended(pod) {
            row.mains_ended.get_or_insert(at);
        }
        if matches!(phase(pod), "Succeeded" | "Failed") {
            row.finished.get_or_insert(at);
        }
    }
}

/// Returns the name of an object, after its namespace unless that is the default one.
pub(super) fn placed(namespace: Option<String>, name: &str) -> String {
    let namespace = namespace.filter(|namespace| namespace != "default");
    namespace.map_or_else(
        || name.to_owned(),
        |namespace| format!("{namespace}/{name}"),
    )
}

/// The state of a Job that another controller manages.
const LEFT_ALONE: &str = "Left alone";

const WAITS: &str =
    "waits a minute and the grace period: does the node react to the changed image?";

fn created(job: &Job) -> String {
    let mut owners = job.metadata.owner_references.iter().flatten();
    match owners.find(|owner| owner.kind == "CronJob") {
        Some(cron_job) => format!(
            "created once, now, from cronjob/{}: the demo keeps to no schedule",
            cron_job.name
        ),
        None => "created".to_owned(),
    }
}

/// Returns the reason that the scheduler or the node reports; `None` if there is none.
fn why_pending(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let unscheduled = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False");
    let waiting = statuses(pod).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let (reason, message) = (waiting.reason.as_deref()?, waiting.message.as_deref());
        let words = message.map_or_else(String::new, |message| format!(": {message}"));
        Some(format!("{} waits: {reason}{words}", status.name))
    });
    unscheduled
        .and_then(|condition| condition.message.clone())
        .or(waiting)
}

fn new_row(pod: &Pod) -> Row {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let job = owners.find(|owner| owner.kind == "Job");
    let job = job.map(|owner| placed(pod.namespace(), &owner.name));
    Row {
        job: job.unwrap_or_default(),
        sidecars: containers(pod)
            .filter(|c| is_sidecar(c))
            .map(|c| c.name.clone())
            .collect(),
        ..Row::default()
    }
}

fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| spec.containers.iter())
}

/// Returns true for containers that are sidecars by their mark, or by a name that policies know.
fn is_sidecar(container: &Container) -> bool {
    let mut env = container.env.iter().flatten();
    env.any(|env| env.name == WHEN_JOB_EXIT || env.name == WITH_IMAGE)
        || presets::of_container(&container.name).is_some()
}

fn mains_ended(pod: &Pod) -> bool {
    containers(pod)
        .filter(|container| !is_sidecar(container))
        .all(|main| {
            let status = statuses(pod).find(|status| status.name == main.name);
            status
                .and_then(|status| status.state.as_ref())
                .is_some_and(|state| state.terminated.is_some())
        })
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
}

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// Describes the change of a container's status; `None` if it is of no interest.
fn change(old: Option<&ContainerStatus>, new: &ContainerStatus) -> Option<String> {
    let before = old.and_then(|old| old.state.clone()).unwrap_or_default();
    let restarted = old.is_some_and(|old| old.restart_count != new.restart_count);
    match new.state.as_ref()? {
        ContainerState {
            terminated: Some(end),
            ..
        } if before.terminated.is_none() || restarted => Some(format!(
            "ended with exit code {}{}",
            end.exit_code,
            real_end(new)
        )),
        ContainerState {
            running: Some(_), ..
        } if before.running.is_none() || restarted => Some(format!("runs {}", new.image)),
        ContainerState {
            waiting: Some(waiting),
            ..
        } if before.waiting.as_ref().map(|w| &w.reason) != Some(&waiting.reason) => waiting
            .reason
            .as_ref()
            .filter(|reason| *reason != "ContainerCreating")
            .map(|reason| format!("waits: {reason}")),
        _ => None,
    }
}

/// Describes how the previous container ended, if this one is an exit image and the node shows it.
fn real_end(status: &ContainerStatus) -> String {
    let last = status
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let last = last.filter(|_| status.image == EXIT_IMAGE);
    last.map_or_else(String::new, |last| {
        format!(" (exit image); its own program with {}", last.exit_code)
    })
}
