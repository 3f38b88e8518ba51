//! The first `True` of the readiness gate `KruisePodReady`. OpenKruise's manager gives it to each
//! new pod that has the gate (`pkg/controller/podreadiness`); where nobody does, the pod is never
//! Ready, and `unreadyGracePeriodSeconds` cannot be used.

use super::pod::RestartPod;
use super::reconcile::Readiness;
use crate::objects::pod::readiness::GateCondition;

/// The label of the pods that are looked after. On a namespace with the value `true` it has
/// `deploy/readiness-gate.yaml` give gate and label to new pods.
pub const READINESS_GATE: &str = "swaplet.io/readiness-gate";

/// What is to be written about a pod so that it can be Ready; `None` where it has no such gate,
/// where somebody has said something of it, `False` included, and where the pod is over.
#[must_use]
pub fn first_readiness(pod: &RestartPod) -> Option<Readiness> {
    let is_over = pod.pod.deleting || pod.pod.phase.is_terminal();
    let unsaid = pod.readiness.as_ref()?.gate.is_none() && !is_over;
    unsaid.then(|| Readiness {
        gate: GateCondition {
            is_true: true,
            message: Box::default(),
        },
        unready: false,
        version: pod.pod.version.clone(),
    })
}
