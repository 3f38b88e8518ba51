//! SidecarPolicies: which of them is about a container of a pod. Who ends it, and when, is decided
//! in [`terminate`](crate::terminate).

pub mod presets;
pub mod set;
pub mod suggest;
