//! What operations on all resources have in common: the names of their objects, labels, and lists.

use serde_json::{Value, json};

use super::operation::{Operation, Resource};
use crate::shared::random::Random;

/// The objects of a resource in a sequence.
pub fn names(resource: Resource) -> [&'static str; 2] {
    match resource {
        Resource::Pods => ["§p0", "§p1"],
        Resource::Jobs => ["§j0", "§j1"],
        Resource::ConfigMaps => ["§c0", "§c1"],
        Resource::Leases => ["§l0", "§l1"],
        Resource::Events => ["§e0", "§e1"],
        // Not the same: a patch in the other API that changes nothing is a write of managedFields
        // on the real server.
        Resource::CoreEvents => ["§k0", "§k1"],
    }
}

/// Mostly the first one, so that operations meet.
pub fn name(resource: Resource, random: &mut Random) -> &'static str {
    names(resource)[usize::from(random.percent(20))]
}

/// Labels that selectors select.
pub fn labels(random: &mut Random) -> Value {
    random.pick(&[
        json!({"app": "x", "run": "§run"}),
        json!({"app": "y", "run": "§run"}),
        json!({"app": "x", "run": "§run", "tier": ""}),
        json!({"run": "§run"}),
    ])
}

/// Queries of lists: selectors of all kinds, pages, versions, and nonsense. Only lists that must be
/// current: the real server may answer others from a cache that is behind.
pub fn list(resource: Resource, random: &mut Random) -> Operation {
    let query = random.pick(&[
        "",
        "labelSelector=app%3Dx",
        "labelSelector=app%21%3Dx",
        "labelSelector=app%20in%20%28x,y%29,tier",
        "labelSelector=%21app",
        "labelSelector=app%20notin%20%28y%29",
        "fieldSelector=metadata.name%3D§p0",
        "fieldSelector=metadata.name%21%3D§p0",
        "resourceVersion={listed}&resourceVersionMatch=Exact&labelSelector=run%3D§run",
        "resourceVersionMatch=Exact",
        "labelSelector=a%20b",
        "labelSelector=%3D",
        "fieldSelector=spec.nothing%3D1",
        "limit=x",
        "resourceVersion=x",
    ]);
    if random.percent(10) {
        Operation::pages(resource)
    } else {
        Operation::list(resource, query)
    }
}
