//! The state that a kubelet keeps of a pod.

pub mod backoff;
pub mod reported;
pub mod unit;
pub mod work;
