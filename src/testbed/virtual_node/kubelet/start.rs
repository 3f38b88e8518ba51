//! The start of a container: back-off, image, creation, start, hook.

use jiff::Timestamp;
use swaplet_core::image::ImageReference;

use super::Kubelet;
use super::options::{LONGEST_BACKOFF, Runtime};
use super::state::unit::{Record, State, Unit, Waiting};
use super::state::work::{Doing, Starting, Work};
use crate::virtual_node::action::PodEvent;
use crate::virtual_node::images::{ImageKind, Images, Local, hash};
use crate::virtual_node::life::Life;
use crate::virtual_node::pod::Pull;
use crate::virtual_node::times::later;

impl Kubelet {
    pub(super) fn begin_starting(&mut self, index: usize, at: Timestamp, images: &Images) {
        let unit = &self.units[index].spec;
        let (image, policy) = (unit.image.clone(), unit.image_pull_policy);
        if ImageReference::parse(&image).is_err() && images.local(&image).is_none() {
            return self.fail(
                index,
                "InvalidImageName",
                format!("Failed to apply default image tag {image:?}: couldn't parse image name"),
                true,
            );
        }
        let may_use = !self.options.checks_credentials || images.may_use(&image, &self.secrets());
        match (policy, images.local(&image).is_some() && may_use) {
            (Pull::IfNotPresent | Pull::Never, true) => {
                self.container_event(
                    index,
                    PodEvent::normal(
                        "Pulled",
                        format!("Container image {image:?} already present on machine"),
                    ),
                );
                self.create(index, at);
            }
            (Pull::Never, false) => {
                let message =
                    format!("Container image {image:?} is not present with pull policy of Never");
                self.container_event(
                    index,
                    PodEvent::warning("ErrImageNeverPull", message.clone()),
                );
                self.fail(index, "ErrImageNeverPull", message, true);
            }
            _ => self.begin_pull(index, &image, at, images),
        }
    }

    /// Returns the names of the pod's pull secrets.
    fn secrets(&self) -> Vec<String> {
        let secrets = self.synced.spec.image_pull_secrets.iter();
        secrets.map(|secret| secret.name.clone()).collect()
    }

    /// Returns true if the back-off of the name of the image is not over, which counts from the last
    /// end but this many.
    pub(super) fn backs_off(&mut self, index: usize, unseen: usize, at: Timestamp) -> bool {
        let unit = &self.units[index];
        let Some(end) = unit.records.iter().rev().nth(unseen).and_then(Record::end) else {
            return false;
        };
        let key = format!("{} {}", unit.spec.name, unit.spec.image);
        let longest = self.options.longest_backoff;
        let Some(wait) = self.restarts.waiting(&key, end.at, at, longest) else {
            self.restarts.next(&key, end.at, at, longest);
            return false;
        };
        let (name, pod) = (&unit.spec.name, &self.pod.metadata);
        let what = format!(
            "container {name} in pod {}_{}({})",
            pod.name, pod.namespace, pod.uid
        );
        let message = format!(
            "back-off {} restarting failed container={name} pod={}_{}({})",
            go_duration(wait),
            pod.name,
            pod.namespace,
            pod.uid
        );
        self.container_event(
            index,
            PodEvent::warning("BackOff", format!("Back-off restarting failed {what}")),
        );
        self.fail(index, "CrashLoopBackOff", message, false);
        true
    }

    fn begin_pull(&mut self, index: usize, image: &str, at: Timestamp, images: &Images) {
        if self.pulls.waiting_since_failure(image, at).is_some() {
            let message = format!("Back-off pulling image {image:?}");
            self.container_event(index, PodEvent::normal("BackOff", message.clone()));
            return self.fail(
                index,
                "ImagePullBackOff",
                format!("{message}: ErrImagePull: {}", pull_problem(image)),
                true,
            );
        }
        self.container_event(
            index,
            PodEvent::normal("Pulling", format!("Pulling image {image:?}")),
        );
        self.doing(Doing::Starting(
            index,
            Starting::Pulling(image.to_owned(), at, later(at, images.pull_time(image))),
        ));
    }

    pub(super) fn go_on_starting(
        &mut self,
        index: usize,
        starting: Starting,
        at: Timestamp,
        images: &mut Images,
    ) {
        match starting {
            Starting::Pulling(image, since, _) => self.pulled(index, &image, since, at, images),
            Starting::Creating(_) => self.run(index, at, images),
            Starting::Hook(_) => (),
        }
    }

    fn pulled(
        &mut self,
        index: usize,
        image: &str,
        since: Timestamp,
        at: Timestamp,
        images: &mut Images,
    ) {
        if images.pull_with(image, &self.secrets()) {
            let millis = at.as_millisecond() - since.as_millisecond();
            let message = format!(
                "Successfully pulled image {image:?} in {millis}ms ({millis}ms including waiting). Image size: 4096 bytes."
            );
            self.container_event(index, PodEvent::normal("Pulled", message));
            let is_its_own = self.units[index].spec.image == *image;
            return if is_its_own {
                self.create(index, at)
            } else {
                self.begin_starting(index, at, images)
            };
        }
        self.pulls.next(image, at, at, LONGEST_BACKOFF);
        let message = pull_problem(image);
        self.container_event(
            index,
            PodEvent::warning(
                "Failed",
                format!("Failed to pull image {image:?}: {message}"),
            ),
        );
        self.fail(index, "ErrImagePull", message, true);
    }

    fn create(&mut self, index: usize, at: Timestamp) {
        self.doing(Doing::Starting(
            index,
            Starting::Creating(later(at, self.options.start)),
        ));
    }

    fn run(&mut self, index: usize, at: Timestamp, images: &Images) {
        let unit = &self.units[index];
        let behaviour = match unit
            .spec
            .behaviour(images, self.policy(), self.options.exit_runs)
        {
            Ok(behaviour) => behaviour,
            Err(error) => {
                return self.fail(index, "CreateContainerConfigError", error.to_string(), true);
            }
        };
        let Some(local) = images.local(&unit.spec.image) else {
            return;
        };
        let problem = not_startable(unit, images);
        if let (Runtime::Crio, Some(problem)) = (self.options.runtime, &problem) {
            return self.fail(index, "CreateContainerError", problem.clone(), true);
        }
        self.container_event(
            index,
            PodEvent::normal(
                "Created",
                format!("Created container: {}", self.units[index].spec.name),
            ),
        );
        self.container_changed(at);
        if let Some(problem) = problem {
            self.record(index, local, State::NotStarted(at, problem.clone()));
            return self.fail(index, "RunContainerError", problem, true);
        }
        let life = Life::start(behaviour, self.units[index].records.len(), at);
        self.record(index, local, State::Running(at, life));
        self.units[index].waiting = None;
        self.container_event(
            index,
            PodEvent::normal(
                "Started",
                format!("Started container {}", self.units[index].spec.name),
            ),
        );
        let hook = self.units[index].spec.post_start();
        self.doing(Doing::Starting(index, Starting::Hook(later(at, hook))));
    }

    fn record(&mut self, index: usize, local: Local, state: State) {
        let uid = &self.pod.metadata.uid;
        let unit = &mut self.units[index];
        let restarts = unit.last().map_or(0, |last| last.restarts + 1);
        let runtime = match self.options.runtime {
            Runtime::Containerd => "containerd",
            Runtime::Crio => "cri-o",
        };
        let id = format!(
            "{runtime}://{}",
            hash(&format!("{uid}/{}/{restarts}", unit.spec.name))
        );
        unit.records.push(Record {
            wanted: unit.spec.image.clone(),
            local,
            id,
            restarts,
            state,
        });
    }

    /// Records why the container cannot be started now; the sync is retried.
    fn fail(&mut self, index: usize, reason: &'static str, message: String, event: bool) {
        if event {
            let text = if reason == "RunContainerError" {
                message.clone()
            } else {
                reason.to_owned()
            };
            self.container_event(index, PodEvent::warning("Failed", format!("Error: {text}")));
        }
        self.units[index].waiting = Some(Waiting { reason, message });
        if let Work::Syncing { failed, .. } = &mut self.work {
            *failed = true;
        }
    }
}

fn pull_problem(image: &str) -> String {
    format!(
        "failed to pull and unpack image {image:?}: failed to resolve reference {image:?}: not found"
    )
}

/// The longest file name of file systems, in bytes.
const LONGEST_NAME: usize = 255;

/// Returns why a container cannot start. Exit images have programs only at known paths; other
/// images are assumed to have what their containers call, if such a path is possible at all.
fn not_startable(unit: &Unit, images: &Images) -> Option<String> {
    let command = unit.spec.command.first()?;
    let is_possible = command.split('/').all(|name| name.len() <= LONGEST_NAME);
    let has_it = images.kind(&unit.spec.image) != ImageKind::Exit
        || unit.spec.command_is_on_a_volume()
        || unit.spec.command_is_a_script()
        || images.exit_image_has(command);
    let is_there = is_possible && has_it;
    let why = if !is_possible {
        format!("stat {command}: file name too long")
    } else if command.contains('/') {
        format!("stat {command}: no such file or directory")
    } else {
        "executable file not found in $PATH".to_owned()
    };
    let create = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed";
    (!is_there).then(|| format!("{create}: unable to start container process: error during container init: exec: {command:?}: {why}"))
}

/// Formats a duration like Go: `1m20s`.
fn go_duration(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{seconds}s")
    } else {
        format!("{}m{}s", seconds / 60, seconds % 60)
    }
}
