//! Log lines that are not reports.

use swaplet_core::report::write_error::WriteError;

use crate::cluster::nodes::Change;
use crate::frame::writer::{Outcome, Target};

pub(super) fn log_node_problem(node: &str, change: &Change) {
    if let Some(problem) = &change.problem {
        tracing::warn!(node, "{problem}");
    }
}

pub(super) fn log_outcome(target: &Target, outcome: &Outcome) {
    let Target {
        namespace,
        name,
        uid,
        ..
    } = target;
    match outcome {
        Ok(_) => {}
        Err(WriteError::Conflict | WriteError::Gone) => {
            tracing::debug!(%namespace, pod = %name, %uid, "the pod has changed since it was read; nothing was written");
        }
        // Reported once for all tries, by the Event `WriteDenied`.
        Err(WriteError::Denied(error)) => {
            tracing::debug!(%namespace, pod = %name, %uid, error, "the write was denied; trying again later")
        }
        Err(WriteError::Failed { error, .. }) => {
            tracing::warn!(%namespace, pod = %name, %uid, error, "the write was not applied; trying again later");
        }
    }
}
