//! The reported status of a pod.

use jiff::Timestamp;
use serde_json::Value;

/// The status that the API server has, or will have.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    pub phase: String,
    /// When `status` is sent.
    pub due: Option<Timestamp>,
    pub status: Value,
    /// True if the status did not reach the API server.
    pub lost: bool,
    /// True if the pod's deadline has passed.
    pub out_of_time: bool,
}
