//! The ways to restart pods: by requests, where the API server serves them, or directly.

pub(super) mod asked;
pub(super) mod direct;

use std::time::Duration;

use self::asked::Asked;
use self::direct::Direct;
use super::member::{Member, Outcome};
use crate::cli::duration::seconds;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use swaplet_core::restart::request::RestartRequest;

/// The news of a pod that is being restarted.
pub(super) enum Heard {
    /// The steps that were made for it, in words.
    News(String),
    /// Its current request, and the steps that were made after it, in words.
    Says(Box<RestartRequest>, Vec<String>),
    /// Nothing more is done for it.
    Over(Outcome),
}

pub(super) enum Way {
    Asked(Box<Asked>),
    Direct(Box<Direct>),
}

impl Way {
    /// Checks the restart of a pod without any effect.
    pub(super) async fn try_out(&mut self, member: &Member) -> anyhow::Result<()> {
        match self {
            Self::Asked(asked) => asked.try_out(member).await,
            Self::Direct(direct) => direct.try_out(member).await,
        }
    }

    /// Continues the restart of a pod that began `age` ago.
    pub(super) async fn follow(&mut self, member: &Member, age: Duration) -> anyhow::Result<Heard> {
        match self {
            Self::Asked(asked) => asked.follow(member, age).await,
            Self::Direct(direct) => direct.follow(member).await,
        }
    }

    /// Ends without waiting for a pod.
    pub(super) async fn stop(&self, member: &Member, why: &str) -> Heard {
        match self {
            Self::Asked(asked) => asked.stop(member, why).await,
            Self::Direct(direct) => Heard::Over(direct.stop(member, why)),
        }
    }
}

// The flags that become fields of a request.

/// How each pod is restarted.
#[derive(Clone, Debug, Args)]
pub struct StrategyArgs {
    /// Restart the containers of a pod one after another, in the order of -c: each waits until the
    /// one before it is ready
    #[arg(long)]
    pub ordered: bool,
    /// How long a container has to end. Without a daemon on the node only the pod's own time can be
    /// used; the request then says so [default: the pod's own]
    #[arg(long, value_name = "DURATION", value_parser = seconds(0..=u32::MAX))]
    pub grace_period: Option<u32>,
    /// How long a pod with the readiness gate KruisePodReady is kept not ready before its
    /// containers are stopped. Other pods stay ready, and are restarted so much later. Needs
    /// requests: not with --direct
    #[arg(long, value_name = "DURATION", value_parser = seconds(0..=u32::MAX))]
    pub unready_grace_period: Option<u32>,
    /// How long a container has to be ready to count as restarted; in seconds, or as 1m
    #[arg(long, value_name = "DURATION", default_value_t = 0, value_parser = seconds(0..=i32::MAX.unsigned_abs()))]
    pub min_started_seconds: u32,
    /// What happens when a container cannot be restarted: stop there, containers and pods alike, or
    /// go on with the others
    #[arg(long, value_enum, ignore_case = true, default_value_t = FailurePolicy::Fail)]
    pub failure_policy: FailurePolicy,
    /// Restart also what has restarted by itself in the meantime, and what might not come back
    /// (without it the reason is reported)
    #[arg(long)]
    pub force: bool,
    /// When to give up on the restart of a pod
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = seconds(3..=86_400))]
    pub timeout: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

impl StrategyArgs {
    /// Writes the fields into the spec of a request.
    pub fn write_into(&self, spec: &mut Value) {
        spec["activeDeadlineSeconds"] = self.timeout.into();
        let policy = if self.ignores_failures() {
            "Ignore"
        } else {
            "Fail"
        };
        let mut strategy = json!({
            "failurePolicy": policy, "orderedRecreate": self.ordered, "forceRecreate": self.force,
            "minStartedSeconds": self.min_started_seconds,
        });
        for (field, value) in [
            ("terminationGracePeriodSeconds", self.grace_period),
            ("unreadyGracePeriodSeconds", self.unready_grace_period),
        ] {
            if let Some(value) = value {
                strategy[field] = value.into();
            }
        }
        spec["strategy"] = strategy;
    }

    pub fn ignores_failures(&self) -> bool {
        self.failure_policy == FailurePolicy::Ignore
    }
}
