//! The actions of a machine at the API server.

use serde_json::Value;

/// One action; they are carried out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Merges this status into the pod's, like a kubelet.
    PatchStatus(Value),
    /// Writes this whole pod to its status subresource, like a virtual-kubelet.
    PutStatus(Box<Value>),
    /// Emits an event.
    Event(PodEvent),
    /// Deletes the pod immediately, because its node is done with it.
    Delete,
}

/// An event about a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodEvent {
    /// True for a warning.
    pub warning: bool,
    /// The `reason` of the event.
    pub reason: &'static str,
    /// The `message` of the event.
    pub message: String,
    /// `involvedObject.fieldPath`: the container that the event is about.
    pub field: Option<String>,
}

impl PodEvent {
    /// Returns a normal event.
    pub const fn normal(reason: &'static str, message: String) -> Self {
        Self {
            warning: false,
            reason,
            message,
            field: None,
        }
    }

    /// Returns a warning.
    pub const fn warning(reason: &'static str, message: String) -> Self {
        Self {
            warning: true,
            reason,
            message,
            field: None,
        }
    }
}
