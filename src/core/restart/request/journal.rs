//! What is written down in a request before anything is done to its pod, so that a new life knows
//! what the one before may have done.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::objects::pod::{ContainerState, ContainerStatus};
use crate::objects::recreate_request::RequestPhase;

/// The annotation of a request that holds its [`Journal`].
pub const JOURNAL: &str = "swaplet.io/restart-journal";

/// By container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Journal(pub BTreeMap<Box<str>, Mark>);

/// The container that is to be replaced: another one is the proof of a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mark {
    /// `containerID`; constant on some virtual nodes, or empty.
    #[serde(rename = "containerID")]
    pub container_id: Box<str>,
    /// `restartCount`; always 0 on some virtual nodes.
    pub restart_count: i64,
    /// When it was started, by the node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<jiff::Timestamp>,
    /// The change of its image that is, or may be, made; `None` before its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
}

/// A change of an image that is to be made once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Intent {
    /// The image before.
    pub from: Box<str>,
    /// Its alias, or the park image.
    pub to: Box<str>,
    /// `metadata.generation` of the pod before, where the API server counts it: it tells a change
    /// that was not made from one that was made and undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Why the image before is put back; `None` where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Box<str>>,
    /// How far it is, where `to` is the park image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parking: Option<Parking>,
}

/// The two halves of a restart by the park image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Parking {
    /// The container is to be parked.
    Out,
    /// The image before is to be put back; the container of the [`Mark`] is the parked one.
    Back,
}

impl Journal {
    /// From the value of the annotation. `None` where it is none that this version writes.
    #[must_use]
    pub fn read(value: &str) -> Option<Self> {
        serde_json::from_str(value).ok()
    }

    /// Whether it is one that swaplet has written, as far as the rest of the request tells: whoever
    /// makes a request may give it any text. A change of an image is written down only after the
    /// status has said `Recreating`, and before that a journal comes with the labels.
    #[must_use]
    pub fn is_taken_up(&self, phase: RequestPhase, has_labels: bool) -> bool {
        match phase {
            RequestPhase::Unanswered | RequestPhase::Pending => {
                has_labels && self.0.values().all(|mark| mark.intent.is_none())
            }
            RequestPhase::Recreating | RequestPhase::Completed => true,
        }
    }

    /// As the value of the annotation.
    #[must_use]
    pub fn as_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Mark {
    /// The container that a status shows.
    #[must_use]
    pub(crate) fn of(status: &ContainerStatus) -> Self {
        let started_at = match &status.state {
            ContainerState::Running { started_at } => *started_at,
            ContainerState::Terminated(end) => end.started_at,
            ContainerState::Waiting { .. } | ContainerState::Unreported => None,
        };
        Self {
            container_id: status.container_id.clone(),
            restart_count: status.restart_count,
            started_at,
            intent: None,
        }
    }

    /// The container that a status shows, unless the status is older than this mark: what another
    /// process has seen does not get forgotten by one that lags behind, or a restart from before
    /// the request would count as made for it.
    #[must_use]
    pub(crate) fn or_later(&self, status: &ContainerStatus) -> Self {
        let is_older = status.restart_count < self.restart_count && !self.shows_another(status);
        if is_older {
            self.clone()
        } else {
            Self::of(status)
        }
    }

    /// Whether a status shows a later container than this one. No single field can be trusted: an
    /// ID is constant on some virtual nodes, a count stays 0 on others. But a status that is older
    /// than this mark, which another process has written, proves nothing.
    #[must_use]
    pub(crate) fn shows_another(&self, status: &ContainerStatus) -> bool {
        let now = Self::of(status);
        let is_later = now
            .started_at
            .is_some_and(|at| self.started_at.is_none_or(|before| at > before));
        match now.restart_count.cmp(&self.restart_count) {
            Ordering::Greater => true,
            Ordering::Equal => self.container_id != now.container_id || is_later,
            Ordering::Less => is_later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a2_a_journal_counts_where_it_can_have_been_written_by_swaplet() {
        let marked = |intent| {
            Journal(
                [(
                    "app".into(),
                    Mark {
                        intent,
                        ..Mark::default()
                    },
                )]
                .into(),
            )
        };
        let (before, changing) = (marked(None), marked(Some(Intent::default())));
        for phase in [RequestPhase::Unanswered, RequestPhase::Pending] {
            assert!(
                before.is_taken_up(phase, true) && !before.is_taken_up(phase, false),
                "{phase:?}"
            );
            assert!(
                !changing.is_taken_up(phase, true) && !changing.is_taken_up(phase, false),
                "{phase:?}"
            );
        }
        assert!(
            changing.is_taken_up(RequestPhase::Recreating, true)
                && changing.is_taken_up(RequestPhase::Completed, false)
        );
    }
}
