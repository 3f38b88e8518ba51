//! The first `True` of the readiness gate `KruisePodReady`. OpenKruise's manager sets it on each
//! new pod that has the gate (`pkg/controller/podreadiness`). Where nothing sets it, the pod never
//! becomes Ready, and `unreadyGracePeriodSeconds` cannot be used.

use super::pod::RestartPod;
use super::reconcile::Readiness;
use crate::objects::pod::GateCondition;

/// The label of the pods that are handled. On a namespace with the value `true`,
/// `deploy/readiness-gate.yaml` adds gate and label to its new pods.
pub const READINESS_GATE: &str = "swaplet.io/readiness-gate";

/// Returns what to write so that a pod can be Ready. `None` if it has no such gate, is being
/// deleted or finished, or has a condition of the gate already, `False` included.
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
