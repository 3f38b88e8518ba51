//! The facts that can be proved on a node, and how long each counts.

use std::fmt;
use std::time::Duration;

use super::{FAILURE_LASTS, VERDICT_LASTS};
use crate::cluster::node_class::NodeClass;

/// A fact that a pod has proved about its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proved {
    /// A swap took effect.
    Updates,
    /// A swap had no effect until its timeout.
    Inert,
    /// A swap was answered with `ProviderFailed`.
    Rejects,
    /// A pod under `Never` has succeeded after a swap.
    UpdatesUnderNever,
    /// A pod under `Never` has failed after a swap, although its main containers had succeeded.
    FailsUnderNever,
}

impl Proved {
    /// All facts, in the order of the enum.
    pub const ALL: [Self; 5] = [
        Self::Updates,
        Self::Inert,
        Self::Rejects,
        Self::UpdatesUnderNever,
        Self::FailsUnderNever,
    ];

    /// Returns the word for the fact.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Updates => "Updates",
            Self::Inert => "Inert",
            Self::Rejects => "Rejects",
            Self::UpdatesUnderNever => "UpdatesUnderNever",
            Self::FailsUnderNever => "FailsUnderNever",
        }
    }

    /// Returns true if the fact is about pods under `Never` only.
    #[must_use]
    pub const fn is_under_never(self) -> bool {
        matches!(self, Self::UpdatesUnderNever | Self::FailsUnderNever)
    }

    /// Returns how long a verdict with this fact counts at most.
    #[must_use]
    pub const fn lasts(self) -> Duration {
        match self {
            Self::FailsUnderNever => FAILURE_LASTS,
            Self::Updates | Self::Inert | Self::Rejects | Self::UpdatesUnderNever => VERDICT_LASTS,
        }
    }

    /// Parses a word of [`as_str`](Self::as_str); `None` for any other.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proved| proved.as_str() == word)
    }

    /// Returns the class of a node on which this was proved, and which is otherwise `taken_for`.
    #[must_use]
    pub const fn class(self, taken_for: NodeClass) -> NodeClass {
        match self {
            Self::Updates | Self::UpdatesUnderNever | Self::FailsUnderNever
                if taken_for.updates() =>
            {
                taken_for
            }
            Self::Updates | Self::UpdatesUnderNever | Self::FailsUnderNever => {
                NodeClass::VirtualUpdates
            }
            Self::Inert => NodeClass::VirtualInert,
            Self::Rejects => NodeClass::VirtualRejects,
        }
    }
}

impl fmt::Display for Proved {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
