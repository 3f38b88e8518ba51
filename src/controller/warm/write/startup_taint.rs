//! The only write to nodes: the startup taint is removed.

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch as JsonPatch, PatchOperation, RemoveOperation};
use k8s_openapi::api::core::v1::Node;
use kube::api::Patch;
use serde_json::Value;
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::startup_taint::{STARTUP_TAINT, Untaint};

use crate::frame::writer::{Writer, params, requests_for, test};

impl Writer {
    /// Removes the startup taint from a node, and nothing else.
    ///
    /// # Errors
    /// Returns why the write was not applied, as where a webhook has put the taint back.
    pub async fn untaint(&self, untaint: &Untaint) -> Result<(), WriteError> {
        let patch = Patch::Json::<()>(untaint_patch(untaint));
        self.in_time("nodes", async {
            let built = requests_for::<Node>(&(), None).patch(&untaint.node, &params(), &patch);
            Ok(self.send(built).await?.and_then(|body| {
                let stored = serde_json::from_slice::<Value>(&body).unwrap_or_default();
                let mut taints = stored["spec"]["taints"].as_array().into_iter().flatten();
                if taints.any(|taint| taint["key"] == STARTUP_TAINT) {
                    return Err(WriteError::Denied(format!(
                        "{UNDONE}: {STARTUP_TAINT} is there"
                    )));
                }
                Ok(())
            }))
        })
        .await
    }
}

/// Returns the patch, which tests the node's uid and that the taints are still where they were
/// observed. The last one goes first, so that the others keep their indexes.
pub fn untaint_patch(untaint: &Untaint) -> JsonPatch {
    let taint = |index: &usize| ["spec".to_owned(), "taints".to_owned(), index.to_string()];
    let remove = |index: &usize| {
        let path = PointerBuf::from_tokens(taint(index));
        let [spec, taints, index] = taint(index);
        [
            test(&[&spec, &taints, &index, "key"], STARTUP_TAINT),
            PatchOperation::Remove(RemoveOperation { path }),
        ]
    };
    let operations = untaint.indexes.iter().rev().flat_map(remove);
    JsonPatch(
        std::iter::once(test(&["metadata", "uid"], &untaint.uid))
            .chain(operations)
            .collect(),
    )
}
