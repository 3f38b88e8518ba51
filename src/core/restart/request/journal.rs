//! What is written down in a request before anything is done to its pod, so that a new life knows
//! what the one before may have done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
