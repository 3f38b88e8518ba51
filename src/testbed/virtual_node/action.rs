//! What a machine wants done at the API server.

use serde_json::Value;

/// One thing to do, in the order in which a machine asked for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Merge this status into the pod's, as a kubelet does.
    PatchStatus(Value),
    /// Write this whole pod to its status subresource, as a virtual-kubelet does.
    PutStatus(Box<Value>),
    /// Tell people.
    Event(PodEvent),
    /// Delete the pod for good: its node is done with it.
    Delete,
}

/// An event on a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodEvent {
    /// Whether it is a warning.
    pub warning: bool,
    /// `reason`
    pub reason: &'static str,
    /// `message`
    pub message: String,
    /// `involvedObject.fieldPath`: the container that it is about.
    pub field: Option<String>,
}

impl PodEvent {
    /// An ordinary event.
    #[must_use]
    pub const fn normal(reason: &'static str, message: String) -> Self {
        Self {
            warning: false,
            reason,
            message,
            field: None,
        }
    }

    /// A warning.
    #[must_use]
    pub const fn warning(reason: &'static str, message: String) -> Self {
        Self {
            warning: true,
            reason,
            message,
            field: None,
        }
    }
}
