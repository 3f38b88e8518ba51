//! Hot upgrades: a sidecar that a pod has twice, as `NAME-1` and `NAME-2`, gets a new image without
//! a gap. One of the two works, the other has the empty image, which is the park image. The new
//! image is started in the empty one; when that is ready, the other one gets the empty image
//! (OpenKruise: `pkg/controller/sidecarset/sidecarset_hotupgrade.go`). A new image that does not
//! become ready is taken back, and the one that works has never stopped.
//!
//! Which pods, and how many at once, a [`SidecarSet`](sidecar_set::SidecarSet) says. Nothing that a
//! pod says chooses an image.

pub mod pair;
pub mod pod;
pub mod record;
pub mod rollout;
pub mod sidecar_set;
