//! The journal of a request: each change of the pod is recorded in it before it is made, so that a
//! new run of the process knows what an earlier one may have done.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::objects::pod::{ContainerState, ContainerStatus};
use crate::objects::recreate_request::RequestPhase;

/// The annotation of a request that holds its [`Journal`].
pub const JOURNAL: &str = "swaplet.io/restart-journal";

/// The entries of a request, by container name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Journal(pub BTreeMap<Box<str>, Mark>);

/// The container that a restart replaces: a status that shows another one proves the restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mark {
    /// `containerID`; constant on some virtual nodes, or empty.
    #[serde(rename = "containerID")]
    pub container_id: Box<str>,
    /// `restartCount`; always 0 on some virtual nodes.
    pub restart_count: i64,
    /// When the container was started, by the node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<jiff::Timestamp>,
    /// The change of its image that may have been made; `None` before the container's turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
}

/// A change of an image that is to be made once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Intent {
    /// The image before the change.
    pub from: Box<str>,
    /// The image after the change: an alias, or the park image.
    pub to: Box<str>,
    /// `metadata.generation` of the pod before the change; `None` where the API server does not
    /// count it. It distinguishes a change that was not made from one that was made and undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Why the image before is put back; `None` while it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Box<str>>,
    /// The half of the restart that is in progress, where `to` is the park image.
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
    /// Parses the value of the annotation. Returns `None` if it is not valid JSON of a journal.
    #[must_use]
    pub fn read(value: &str) -> Option<Self> {
        serde_json::from_str(value).ok()
    }

    /// Returns true if swaplet can have written the journal, judging by the rest of the request.
    /// Anyone who creates a request may put any text into it. But swaplet records a change of an
    /// image only after the status is `Recreating`, and before that a journal comes with the
    /// labels.
    #[must_use]
    pub fn is_taken_up(&self, phase: RequestPhase, has_labels: bool) -> bool {
        match phase {
            RequestPhase::Unanswered | RequestPhase::Pending => {
                has_labels && self.0.values().all(|mark| mark.intent.is_none())
            }
            RequestPhase::Recreating | RequestPhase::Completed => true,
        }
    }

    /// Returns the value of the annotation.
    #[must_use]
    pub fn as_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Mark {
    /// Returns the mark of the container that a status shows.
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

    /// Returns the mark of the container that a status shows, or this mark if the status is older.
    /// A process whose cache lags must not forget what another one has observed: a restart from
    /// before the request would then count as made for it.
    #[must_use]
    pub(crate) fn or_later(&self, status: &ContainerStatus) -> Self {
        let is_older = status.restart_count < self.restart_count && !self.shows_another(status);
        if is_older {
            self.clone()
        } else {
            Self::of(status)
        }
    }

    /// Returns true if a status shows a later container than this one. No single field can be
    /// trusted: an ID is constant on some virtual nodes, a count stays 0 on others. But a status
    /// that is older than this mark, which another process has written, proves nothing.
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
