//! `pods/binding`: the scheduler's write.

use std::sync::Arc;

use serde_json::Value;

use super::checks::Written;
use crate::apiserver::objects::json::{child, list, text};
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::request::Request;
use crate::apiserver::storage::state::State;

impl State {
    /// Assigns a pod to a node.
    pub fn bind(&mut self, request: &Request, body: &Value) -> Result<Written, ApiError> {
        if text(body, "/target/name").is_empty() {
            return Err(ApiError::new(500, "", "target.name: Required value"));
        }
        let old = self.current(request)?;
        if let Some(why) = unbindable(&old) {
            let why = format!("pod {} {why}", request.name);
            return Err(ApiError::conflict("", "pods/binding", &request.name, &why));
        }
        let mut new = Value::clone(&old);
        child(&mut new, "spec").insert("nodeName".to_owned(), text(body, "/target/name").into());
        schedule_condition(&mut new, &self.now());
        self.store.put("pods", new);
        Ok((
            Arc::new(
                serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
            ),
            201,
        ))
    }
}

/// Returns why a pod cannot be assigned to a node; `None` if it can.
fn unbindable(pod: &Value) -> Option<String> {
    let bound = text(pod, "/spec/nodeName");
    if pod["metadata"].get("deletionTimestamp").is_some() {
        return Some("is being deleted, cannot be assigned to a host".to_owned());
    }
    if !bound.is_empty() {
        return Some(format!("is already assigned to node {bound:?}"));
    }
    let gated = !list(pod, "/spec/schedulingGates").is_empty();
    gated.then(|| "has non-empty .spec.schedulingGates".to_owned())
}

fn schedule_condition(pod: &mut Value, now: &str) {
    let condition = serde_json::json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let conditions = child(pod, "status")
        .entry("conditions")
        .or_insert_with(|| serde_json::json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(condition);
    }
}
