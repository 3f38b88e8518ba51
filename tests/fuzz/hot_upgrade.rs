//! Hot upgrades: pods and `SidecarSet`s, each with an honest one of the other kind.

use std::time::Duration;

use kube::core::Selector;
use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::restart::hot_upgrade::pod::{UpgradePod, UpgradePodWire};
use swaplet_core::restart::hot_upgrade::rollout::{Member, PodMemory, plan};
use swaplet_core::restart::hot_upgrade::sidecar_set::{SidecarSet, UpgradeImages};

const PARK: &str = "r.example/park:1";

/// A set with all fields that are read.
pub fn sidecar_set() -> Value {
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]});
    let container = json!({"name": "mesh", "image": "r.example/mesh:2", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": PARK}});
    json!({"metadata": {"name": "mesh", "uid": "u", "generation": 3, "resourceVersion": "7"}, "status": {"matchedPods": 1},
        "spec": {"selector": selector, "namespace": "default", "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            "containers": [container], "updateStrategy": {"type": "RollingUpdate", "paused": false, "selector": {}, "partition": "10%", "maxUnavailable": 3}}})
}

/// A pod in the middle of an upgrade.
pub fn upgraded_pod() -> Value {
    let status = |name: &str| {
        json!({"name": name, "image": "r.example/mesh:2", "ready": true, "restartCount": 1, "containerID": "containerd://1",
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
    };
    json!({"metadata": {"name": "n", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"app": "web"},
            "annotations": {"kruise.io/sidecarset-working-hotupgrade-container": "{\"mesh\":\"mesh-2\"}", "version.sidecarset.kruise.io/mesh-1": "7",
                "swaplet.io/hot-upgrade": "{\"mesh\":{\"image\":\"r.example/mesh:2\",\"run\":\"containerd://0 0 \"}}"}},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "mesh-1", "image": "r.example/mesh:1"}, {"name": "mesh-2", "image": "r.example/mesh:2"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [status("mesh-1"), status("mesh-2")]}})
}

fn images() -> UpgradeImages {
    UpgradeImages {
        listed: vec!["r.example/*".parse().unwrap()],
        park: Some(PARK.parse().unwrap()),
        empty: Vec::new(),
    }
}

fn read_pod(wire: UpgradePodWire) -> Option<UpgradePod> {
    Some(wire.read()?.for_update(&Selector::default()))
}

/// Decides about a pod that was read.
pub fn of_pod(wire: Option<UpgradePodWire>) {
    let set = SidecarSet::read(BoundedObject::from(sidecar_set()), &images());
    if let (Some(set), Some(pod)) = (set, wire.and_then(read_pod)) {
        decide(&set, &pod);
    }
}

/// Decides for a set that was read.
pub fn of_set(object: Option<BoundedObject>) {
    let set = object.and_then(|object| SidecarSet::read(object, &images()));
    let pod = serde_json::from_value(upgraded_pod()).ok();
    if let (Some(set), Some(pod)) = (set, pod.and_then(read_pod)) {
        decide(&set, &pod);
    }
}

fn decide(set: &SidecarSet, pod: &UpgradePod) {
    let mut memory = PodMemory::new();
    for seconds in [0, 4, u64::from(u32::MAX)] {
        let member = Member {
            pod,
            memory: &mut memory,
            is_busy: false,
            is_refused: false,
            is_foreign: false,
            taken: Vec::new(),
        };
        let now = Moment::after_start(Duration::from_secs(seconds));
        drop(plan(set, &images(), &mut [member], now));
    }
}
