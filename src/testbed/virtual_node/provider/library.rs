//! What the virtual-kubelet library looks at in a pod, and what it makes of one that is lost.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::virtual_node::pod::PodSeen;
use crate::virtual_node::times::time;

/// What the library compares: all else of a pod never reaches a provider.
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

/// What says that a pod is being deleted.
pub fn deletion(pod: &Value) -> [&Value; 2] {
    [
        &pod["metadata"]["deletionTimestamp"],
        &pod["metadata"]["deletionGracePeriodSeconds"],
    ]
}

/// A pod without what may differ between two handlings of the same pod.
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

/// A container that is neither waiting nor ended runs, for the library.
pub fn runs(pod: &PodSeen) -> bool {
    pod.status
        .container_statuses
        .iter()
        .any(|status| status.state["terminated"].is_null() && status.state["waiting"].is_null())
}

/// Makes a pod fail that the provider does not know any more.
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
