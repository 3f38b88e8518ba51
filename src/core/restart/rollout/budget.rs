//! The disruptions that a `PodDisruptionBudget` allows, by the rules of the eviction API
//! (`pkg/registry/core/pod/storage/eviction.go`).
//!
//! The status of a budget lags behind what has just been done to its pods. So it is not trusted
//! alone while pods are being restarted: the pods that it covers are counted here, without those
//! that are being restarted.

/// A `PodDisruptionBudget` with its remaining disruptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The name of the budget.
    pub name: Box<str>,
    /// How many ready pods may be disrupted now.
    pub allowed: usize,
    /// True if pods that are not ready may be disrupted.
    pub allows_unready: bool,
}

/// The inputs for a budget: its status, and counts of the pods that it covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// True if `status.observedGeneration` is behind `metadata.generation`: the status is about
    /// another spec.
    pub is_outdated: bool,
    /// True if the condition `DisruptionAllowed` has the reason `SyncFailed`: its controller cannot
    /// count.
    pub sync_failed: bool,
    /// True if `spec.unhealthyPodEvictionPolicy` is `AlwaysAllow`.
    pub always_allows_unready: bool,
    /// `status.disruptionsAllowed`
    pub disruptions_allowed: usize,
    /// `status.desiredHealthy`
    pub desired_healthy: usize,
    /// How many entries `status.disruptedPods` has: evictions that have not taken effect yet.
    pub disrupted: usize,
    /// How many of its pods are observed Ready, not being deleted, and not being restarted.
    pub healthy: usize,
    /// How many of its pods are being restarted.
    pub restarting: usize,
}

impl Budget {
    /// Computes the remaining disruptions; no ready pod may be disrupted while the status is
    /// unusable.
    #[must_use]
    pub fn of(name: &str, covered: &Covered) -> Self {
        let known = !covered.is_outdated && !covered.sync_failed;
        let counted = covered
            .healthy
            .saturating_sub(covered.disrupted)
            .saturating_sub(covered.desired_healthy);
        let reported = if covered.restarting == 0 {
            covered.disruptions_allowed
        } else {
            usize::MAX
        };
        let is_healthy = covered.desired_healthy > 0 && covered.healthy >= covered.desired_healthy;
        Self {
            name: name.into(),
            allowed: if known { counted.min(reported) } else { 0 },
            allows_unready: covered.always_allows_unready || (known && is_healthy),
        }
    }

    /// Returns true if one more pod may be disrupted, after `taken` ready ones that the budget does
    /// not count yet.
    #[must_use]
    pub const fn allows(&self, ready: bool, taken: usize) -> bool {
        (!ready && self.allows_unready) || self.allowed > taken
    }
}
