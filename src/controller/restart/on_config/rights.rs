//! The purpose of each right that restarts for changed configuration need.

use swaplet_core::restart::on_config::annotation::ReferenceKind;

/// The right to watch pods.
pub(crate) const SEE_PODS: &str =
    "pods that request restarts when objects change cannot be watched";
/// The right to watch requests.
pub(crate) const SEE_REQUESTS: &str =
    "requests that were created because an object has changed cannot be watched";
/// The right to get the records.
pub(crate) const READ_RECORDS: &str = "nothing is restarted for changed configuration, because the records of what containers have observed cannot be read";
/// The rights to create and patch the records.
pub(crate) const RECORD: &str = "nothing is restarted for changed configuration, because what containers have observed cannot be recorded";
/// The right to list budgets.
pub(crate) const SEE_BUDGETS: &str =
    "nothing is restarted for changed configuration, because PodDisruptionBudgets cannot be listed";
/// The right to create requests.
pub(crate) const ASK: &str =
    "nothing is restarted for changed configuration, because restarts cannot be requested";
/// The right to get requests.
pub(crate) const READ_REQUESTS: &str = "containers are restarted late for changed configuration, because existing requests cannot be read";

/// Returns the purpose of the right to watch objects that pods name.
pub(crate) const fn see_objects(kind: ReferenceKind) -> &'static str {
    match kind {
        ReferenceKind::ConfigMap => {
            "nothing is restarted when a ConfigMap changes, because it cannot be watched"
        }
        ReferenceKind::SecretMetadata => {
            "nothing is restarted when a Secret changes, because it cannot be watched"
        }
    }
}
