//! A pod as read by a node.

mod mounts;
mod volumes;

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use swaplet_core::objects::values::env::{WHEN_JOB_EXIT, WITH_IMAGE};
use swaplet_core::policies::presets;

use super::behaviour::{BadWord, Behaviour, Role, sleep_time};
use super::images::{ImageKind, Images};
use volumes::{Mount, Volume};

/// The default grace period of Kubernetes in seconds.
const DEFAULT_GRACE: u64 = 30;

/// The restart policy of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Policy {
    /// Restarts after every end.
    #[default]
    Always,
    /// Restarts after an exit code other than 0.
    OnFailure,
    /// Never restarts.
    Never,
}

/// The `imagePullPolicy` of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Pull {
    /// Pulls before every start.
    Always,
    /// Never pulls.
    Never,
    /// Pulls if the node does not have the image.
    #[default]
    IfNotPresent,
}

/// The fields of a pod that a node reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSeen {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub generation: Option<i64>,
    pub deletion_timestamp: Option<String>,
    pub deletion_grace_period_seconds: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub restart_policy: Policy,
    pub termination_grace_period_seconds: Option<u64>,
    pub active_deadline_seconds: Option<u64>,
    pub init_containers: Vec<Container>,
    pub containers: Vec<Container>,
    pub volumes: Vec<Volume>,
    pub image_pull_secrets: Vec<Named>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub phase: String,
    pub start_time: Option<String>,
    pub container_statuses: Vec<SeenStatus>,
    pub init_container_statuses: Vec<SeenStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeenStatus {
    pub name: String,
    pub state: Value,
    pub image: String,
    #[serde(rename = "imageID")]
    pub image_id: String,
    #[serde(rename = "containerID")]
    pub container_id: Option<String>,
    pub restart_count: usize,
}

impl SeenStatus {
    /// Returns when the container started, if it runs.
    pub fn running_since(&self) -> Option<Timestamp> {
        self.state["running"]["startedAt"].as_str()?.parse().ok()
    }

    /// Returns start, end and exit code, if the container has ended.
    pub fn ended(&self) -> Option<(Timestamp, Timestamp, i32)> {
        let ended = &self.state["terminated"];
        let time = |field: &str| {
            ended[field]
                .as_str()
                .and_then(|text| text.parse().ok())
                .unwrap_or(Timestamp::UNIX_EPOCH)
        };
        let code = i32::try_from(ended["exitCode"].as_i64()?).ok()?;
        Some((time("startedAt"), time("finishedAt"), code))
    }
}

/// A container of the spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    pub name: String,
    pub image: String,
    pub image_pull_policy: Pull,
    pub restart_policy: Option<Policy>,
    pub restart_policy_rules: Vec<Rule>,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub env: Vec<Env>,
    pub volume_mounts: Vec<Mount>,
    pub lifecycle: Lifecycle,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rule {
    action: String,
    exit_codes: ExitCodes,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ExitCodes {
    operator: String,
    values: Vec<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Env {
    name: String,
    value: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Lifecycle {
    pre_stop: Option<Hook>,
    post_start: Option<Hook>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Hook {
    sleep: Option<Sleep>,
    exec: Option<Exec>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Sleep {
    seconds: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Exec {
    command: Vec<String>,
}

impl PodSeen {
    /// Reads a pod. An invalid one has no containers, so nothing happens to it.
    pub fn read(pod: &Value) -> Self {
        let mut seen = Self::deserialize(pod).unwrap_or_default();
        seen.spec.join();
        if seen.metadata.uid.is_empty() {
            seen.metadata.uid = pod["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
        }
        seen
    }

    /// Returns true if the phase is final.
    pub(super) fn is_terminal(&self) -> bool {
        is_terminal(&self.status.phase)
    }

    pub(super) const fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns the grace period of the containers.
    pub(super) fn grace(&self) -> Duration {
        let own = self.spec.termination_grace_period_seconds;
        let deletion = self
            .is_deleting()
            .then_some(self.metadata.deletion_grace_period_seconds)
            .flatten();
        Duration::from_secs(deletion.or(own).unwrap_or(DEFAULT_GRACE))
    }
}

pub(super) fn is_terminal(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

impl Policy {
    pub(super) const fn restarts(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

impl Container {
    /// Returns true if it restarts after this exit code: its own rules and policy take precedence
    /// over the pod's.
    pub fn restarts(&self, pod: Policy, code: i32) -> bool {
        self.restart_policy_rules
            .iter()
            .any(|rule| rule.restarts(code))
            || self.restart_policy.unwrap_or(pod).restarts(code)
    }

    /// Returns true if its environment marks it as a sidecar.
    pub fn is_marked(&self) -> bool {
        let on = |env: &Env| {
            let value = env.value.as_deref().unwrap_or_default();
            (env.name == WHEN_JOB_EXIT && value.eq_ignore_ascii_case("true"))
                || (env.name == WITH_IMAGE && !value.is_empty())
        };
        self.env.iter().any(on)
    }

    /// Returns the behaviour of the container with its image; exit images run for the given time.
    pub fn behaviour(
        &self,
        images: &Images,
        pod: Policy,
        exit_runs: Duration,
    ) -> Result<Behaviour, BadWord> {
        match images.kind(&self.image) {
            ImageKind::Exit if !self.command_is_on_a_volume() => {
                Ok(Behaviour::ending_after(exit_runs))
            }
            ImageKind::Park if self.copies_itself() => Ok(Behaviour::ending_after(Duration::ZERO)),
            ImageKind::Park => Ok(Behaviour::parked()),
            _ => Behaviour::of(&self.command, &self.args, self.role(pod)),
        }
    }

    /// Returns true if the park program only copies itself, and then ends at once.
    fn copies_itself(&self) -> bool {
        self.command
            .iter()
            .chain(&self.args)
            .any(|word| word == "--copy-self")
    }

    fn role(&self, pod: Policy) -> Role {
        let stays = self.is_marked()
            || presets::of_container(&self.name).is_some()
            || self.restart_policy.unwrap_or(pod) == Policy::Always;
        if stays { Role::Stays } else { Role::Main }
    }

    pub fn pre_stop(&self) -> Duration {
        self.lifecycle
            .pre_stop
            .as_ref()
            .map(Hook::time)
            .unwrap_or_default()
    }

    pub fn post_start(&self) -> Duration {
        self.lifecycle
            .post_start
            .as_ref()
            .map(Hook::time)
            .unwrap_or_default()
    }
}

impl Hook {
    /// Returns the time that a hook takes: only sleeping takes any here.
    fn time(&self) -> Duration {
        if let Some(sleep) = &self.sleep {
            return Duration::from_secs(sleep.seconds);
        }
        let words: Vec<&str> = self
            .exec
            .iter()
            .flat_map(|exec| &exec.command)
            .flat_map(|word| word.split_whitespace())
            .collect();
        let sleep = words
            .iter()
            .position(|word| word.rsplit('/').next() == Some("sleep"));
        sleep
            .and_then(|at| sleep_time(words.get(at + 1)?))
            .unwrap_or_default()
    }
}

impl Rule {
    fn restarts(&self, code: i32) -> bool {
        let listed = self.exit_codes.values.contains(&code);
        let matches = match self.exit_codes.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        matches && self.action == "Restart"
    }
}
