//! The news of a pod that is being restarted, by either way.

use swaplet_core::restart::request::RestartRequest;

use crate::cli::restart::member::Outcome;

/// The news of a pod that is being restarted.
pub(in crate::cli::restart) enum Heard {
    /// The steps that were made for it, in words.
    News(String),
    /// Its current request, and the steps that were made after it, in words.
    Says(Box<RestartRequest>, Vec<String>),
    /// Nothing more is done for it.
    Over(Outcome),
}
