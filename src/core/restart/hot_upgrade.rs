//! Hot upgrades: a sidecar that a pod has twice, as `NAME-1` and `NAME-2`, gets a new image without
//! a gap. One of the two works; the other has the empty image, which is the park image. The new
//! image is started in the empty one. When that is ready, the other one gets the empty image
//! (OpenKruise: `pkg/controller/sidecarset/sidecarset_hotupgrade.go`). A new image that does not
//! become ready is taken back, and the working container has never stopped.
//!
//! A [`SidecarSet`](sidecar_set::SidecarSet) selects the pods, and limits how many are upgraded at
//! once. No field of a pod chooses an image.

pub mod pair;
pub mod pod;
pub mod record;
pub mod rollout;
pub mod sidecar_set;
