//! The ways to restart pods: by requests, where the API server serves them, or directly.

pub(super) mod asked;
pub(super) mod direct;
pub(super) mod strategy;

use std::time::Duration;

use self::asked::Asked;
use self::direct::Direct;
use super::member::{Member, Outcome};
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

/// One of the two ways.
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
