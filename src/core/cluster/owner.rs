//! Which owners of pods count restarts of containers on their own: data, not code
//! (`owner_kinds.yaml`).
//!
//! A Job of `batch/v1` is none of them: its limit is known, and the ledger keeps count
//! ([`headroom`](super::headroom)).

use std::sync::LazyLock;

use serde::Deserialize;

use crate::objects::pod::{Owner, Pod, RestartPolicy};

/// The rows, as YAML; its own comment says how it is written.
pub const OWNER_KINDS: &str = include_str!("owner_kinds.yaml");

/// Some kinds of owners.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnerKinds {
    /// What the row is called.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The kinds.
    pub kinds: Vec<String>,
    /// Whether they count restarts of containers.
    pub counts_restarts: bool,
    /// Where it is known from.
    pub source: String,
}

// It does not depend on anything outside; that it can be read is tested.
static ROWS: LazyLock<Vec<OwnerKinds>> = LazyLock::new(|| read(OWNER_KINDS).unwrap_or_default());

/// Reads rows in the form of `owner_kinds.yaml`.
///
/// # Errors
/// What is wrong with it.
pub fn read(yaml: &str) -> Result<Vec<OwnerKinds>, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

/// The row that names an owner.
fn row(owner: &Owner) -> Option<&'static OwnerKinds> {
    ROWS.iter().find(|row| {
        *row.group == *owner.group && row.kinds.iter().any(|kind| **kind == *owner.kind)
    })
}

/// The owner, where restarts of this pod may be counted by one that is no Job.
fn owner(pod: &Pod) -> Option<&Owner> {
    pod.owner
        .as_deref()
        .filter(|_| pod.restart_policy == RestartPolicy::OnFailure)
}

/// The owner in words, where it counts the restarts of this pod: whatever its limit, it may fail by
/// a swap.
pub(crate) fn counting(pod: &Pod) -> Option<String> {
    let owner = owner(pod)?;
    row(owner)
        .filter(|row| row.counts_restarts)
        .map(|_| format!("the owner of the pod, a {}, counts restarts", owner.kind))
}

/// The owner in words, where nobody knows whether it counts the restarts of this pod.
pub(crate) fn unknown(pod: &Pod) -> Option<String> {
    let owner = owner(pod).filter(|owner| row(owner).is_none())?;
    Some(format!(
        "the owner of the pod is a {} of {}, which swaplet does not know",
        owner.kind, owner.group
    ))
}

/// Whether the owner counts the restarts of this pod, or may: nobody knows of owners that swaplet
/// does not know.
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
