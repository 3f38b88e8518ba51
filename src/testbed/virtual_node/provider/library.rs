//! The rules of the virtual-kubelet library: what it compares of a pod, and how it fails one.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::virtual_node::pod::PodSeen;
use crate::virtual_node::times::time;

/// Returns the parts that the library compares; other changes never reach a provider.
pub fn compared(pod: &Value) -> Value {
    let spec = |field: &str| pod["spec"][field].clone();
    let of_metadata = |field: &str| {
        pod["metadata"][field]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    json!([
        spec("containers"),
        spec("initContainers"),
        spec("ephemeralContainers"),
        spec("activeDeadlineSeconds"),
        spec("tolerations"),
        of_metadata("labels"),
        of_metadata("annotations")
    ])
}

/// Returns the fields of a deletion.
pub fn deletion(pod: &Value) -> [&Value; 2] {
    [
        &pod["metadata"]["deletionTimestamp"],
        &pod["metadata"]["deletionGracePeriodSeconds"],
    ]
}

/// Returns a pod without the parts that may differ between two reconciles of the same pod.
pub fn used(pod: &Value) -> Value {
    let mut used = pod.clone();
    if let Some(fields) = used.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = used["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    used
}

/// Returns true if a container runs for the library: it is neither waiting nor terminated.
pub fn runs(pod: &PodSeen) -> bool {
    pod.status
        .container_statuses
        .iter()
        .any(|status| status.state["terminated"].is_null() && status.state["waiting"].is_null())
}

/// Fails a pod that the provider no longer has.
pub fn lost(pod: &mut Value, at: Timestamp) {
    pod["status"]["phase"] = "Failed".into();
    pod["status"]["reason"] = "NotFound".into();
    pod["status"]["message"] =
        "The pod status was not found and may have been deleted from the provider".into();
    for status in pod["status"]["containerStatuses"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let running = status["state"]["running"].clone();
        if running.is_object() {
            status["state"] = json!({"terminated": {"exitCode": -137, "reason": "NotFound", "message": "Container was not found and was likely deleted",
                "finishedAt": time(at), "startedAt": running["startedAt"], "containerID": status["containerID"]}});
        }
    }
}
