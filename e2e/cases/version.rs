//! Which Kubernetes the cluster has, for what differs between versions.

use crate::world::World;

/// The `35` of 1.35.
pub async fn minor(world: &World) -> u32 {
    let info = world.client.apiserver_version().await.unwrap();
    info.minor.trim_end_matches('+').parse().unwrap()
}

/// Whether the API server changes objects by policies, without its beta features: from 1.36 on.
pub async fn has_mutating_policies(world: &World) -> bool {
    minor(world).await >= 36
}
