//! What is heard of a pod that is being restarted, by either way.

use swaplet_core::restart::request::RestartRequest;

use crate::cli::restart::member::Outcome;

/// The news of a pod that is being restarted.
pub(in crate::cli::restart) enum Heard {
    /// What was done for it, in words.
    News(String),
    /// Its request as it is now, and what was done for it after that, in words.
    Says(Box<RestartRequest>, Vec<String>),
    /// Nothing more is done for it.
    Over(Outcome),
}
