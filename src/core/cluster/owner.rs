//! The kinds of owners that count container restarts of their pods: data, not code
//! (`owner_kinds.yaml`).
//!
//! A Job of `batch/v1` is not among them: its limit is known, and the ledger counts for it
//! ([`headroom`](super::headroom)).

use std::sync::LazyLock;

use serde::Deserialize;

use crate::objects::pod::{Owner, Pod, RestartPolicy};

/// The rows, as YAML; a comment in the file describes their form.
pub const OWNER_KINDS: &str = include_str!("owner_kinds.yaml");

/// A row of the table: owner kinds of one API group.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnerKinds {
    /// The name of the row.
    pub name: String,
    /// The API group of the kinds.
    pub group: String,
    /// The kinds of owners.
    pub kinds: Vec<String>,
    /// True if these owners count restarts of containers.
    pub counts_restarts: bool,
    /// The source of this knowledge.
    pub source: String,
}

// The text is part of the program, and a test parses it.
static ROWS: LazyLock<Vec<OwnerKinds>> = LazyLock::new(|| read(OWNER_KINDS).unwrap_or_default());

/// Parses rows in the form of `owner_kinds.yaml`.
///
/// # Errors
/// The message of the YAML parser.
pub fn read(yaml: &str) -> Result<Vec<OwnerKinds>, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

/// Returns the row that names the kind of an owner; `None` if there is none.
fn row(owner: &Owner) -> Option<&'static OwnerKinds> {
    ROWS.iter().find(|row| {
        *row.group == *owner.group && row.kinds.iter().any(|kind| **kind == *owner.kind)
    })
}

/// Returns the owner of a pod under `OnFailure`, for only there a non-Job owner may count restarts.
fn owner(pod: &Pod) -> Option<&Owner> {
    pod.owner
        .as_deref()
        .filter(|_| pod.restart_policy == RestartPolicy::OnFailure)
}

/// Returns a description of the owner if it counts the restarts of this pod: it may fail because of
/// a swap, whatever its limit is.
pub(crate) fn counting(pod: &Pod) -> Option<String> {
    let owner = owner(pod)?;
    row(owner)
        .filter(|row| row.counts_restarts)
        .map(|_| format!("the owner of the pod, a {}, counts restarts", owner.kind))
}

/// Returns a description of the owner if it is unknown whether it counts the pod's restarts.
pub(crate) fn unknown(pod: &Pod) -> Option<String> {
    let owner = owner(pod).filter(|owner| row(owner).is_none())?;
    Some(format!(
        "the owner of the pod is a {} of {}, which swaplet does not know",
        owner.kind, owner.group
    ))
}

/// Returns true if the owner counts the restarts of this pod, or may because swaplet does not know
/// its kind.
pub(crate) fn may_count(pod: &Pod) -> bool {
    owner(pod).is_some_and(|owner| row(owner).is_none_or(|row| row.counts_restarts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d2_the_table_can_be_read_and_every_row_says_where_it_is_from() {
        let rows = read(OWNER_KINDS).unwrap();
        assert!(rows.iter().any(|row| row.group == "apps.kruise.io"
            && row.kinds == ["BroadcastJob"]
            && row.counts_restarts));
        for row in &rows {
            assert!(!row.kinds.is_empty() && !row.source.is_empty(), "{row:?}");
            assert_ne!(row.group, "batch", "the ledger counts for Jobs");
        }
        let mut kinds: Vec<_> = rows
            .iter()
            .flat_map(|row| row.kinds.iter().map(|kind| (&row.group, kind)))
            .collect();
        let all = kinds.len();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), all, "a kind is named twice");
    }

    #[test]
    fn d2_a_table_with_a_field_that_means_nothing_is_refused() {
        assert!(
            read("- name: x\n  group: g\n  kinds: [K]\n  countsRestart: true\n  source: s\n")
                .unwrap_err()
                .contains("countsRestart")
        );
    }
}
