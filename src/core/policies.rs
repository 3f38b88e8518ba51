//! SidecarPolicies: finds the policies that apply to a container of a pod. How and when the
//! container is ended is decided in [`terminate`](crate::terminate).

pub mod presets;
pub mod set;
pub mod suggest;
