//! What a `PodDisruptionBudget` allows, as the eviction of a pod asks it
//! (`pkg/registry/core/pod/storage/eviction.go`).
//!
//! The status of a budget lags behind what has just been done to its pods. So it is not believed
//! alone while pods are being restarted: those that it covers are counted here, without those that
//! are being restarted.

/// A budget, and what is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: Box<str>,
    /// How many ready pods may be disrupted now.
    pub allowed: usize,
    /// Whether pods that are not ready may be.
    pub allows_unready: bool,
}

/// What is known of a budget and of the pods that it covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Whether `status.observedGeneration` is behind `metadata.generation`: the status is about
    /// another spec.
    pub is_outdated: bool,
    /// Whether the condition `DisruptionAllowed` has the reason `SyncFailed`: its controller cannot
    /// count.
    pub sync_failed: bool,
    /// Whether `spec.unhealthyPodEvictionPolicy` is `AlwaysAllow`.
    pub always_allows_unready: bool,
    /// `status.disruptionsAllowed`
    pub disruptions_allowed: usize,
    /// `status.desiredHealthy`
    pub desired_healthy: usize,
    /// How many entries `status.disruptedPods` has: evictions that have not taken effect yet.
    pub disrupted: usize,
    /// How many of its pods are seen Ready, not being deleted, and not being restarted.
    pub healthy: usize,
    /// How many of its pods are being restarted.
    pub restarting: usize,
}

impl Budget {
    /// What is left.
    #[must_use]
    pub fn of(name: &str, covered: &Covered) -> Self {
        let known = !covered.is_outdated && !covered.sync_failed;
        let counted = covered
            .healthy
            .saturating_sub(covered.disrupted)
            .saturating_sub(covered.desired_healthy);
        let told = if covered.restarting == 0 {
            covered.disruptions_allowed
        } else {
            usize::MAX
        };
        let is_healthy = covered.desired_healthy > 0 && covered.healthy >= covered.desired_healthy;
        Self {
            name: name.into(),
            allowed: if known { counted.min(told) } else { 0 },
            allows_unready: covered.always_allows_unready || (known && is_healthy),
        }
    }

    /// Whether one more pod may be disrupted, after so many ready ones that the budget does not
    /// know of yet.
    #[must_use]
    pub const fn allows(&self, ready: bool, taken: usize) -> bool {
        (!ready && self.allows_unready) || self.allowed > taken
    }
}
