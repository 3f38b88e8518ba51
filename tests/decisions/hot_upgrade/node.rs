//! A pod as an API server and a kubelet would have it, and what is decided about it.

use serde_json::{Value, json};
use swaplet_core::image::{ImagePattern, ImageReference};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::restart::hot_upgrade::pair::Change;
use swaplet_core::restart::hot_upgrade::pod::{UpgradePod, UpgradePodWire};
use swaplet_core::restart::hot_upgrade::rollout::{Member, Plan, PodMemory, plan};
use swaplet_core::restart::hot_upgrade::sidecar_set::{SidecarSet, UpgradeImages};

use crate::expect::moment;

pub const PARK: &str = "r.example/park:1";
pub const OLD: &str = "r.example/mesh:1";
pub const NEW: &str = "r.example/mesh:2";
pub const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";
pub const RECORD: &str = "swaplet.io/hot-upgrade";

pub fn images() -> UpgradeImages {
    UpgradeImages {
        listed: vec![ImagePattern::parse("r.example/mesh:*").unwrap()],
        park: Some(ImageReference::parse(PARK).unwrap()),
        empty: vec![ImagePattern::parse("r.example/pause:*").unwrap()],
    }
}

pub fn set_of(spec: &Value) -> SidecarSet {
    let object = json!({"metadata": {"name": "mesh", "uid": "s", "generation": 3, "resourceVersion": "77"}, "spec": spec});
    SidecarSet::read(BoundedObject::from(object), &images()).unwrap()
}

pub fn spec(image: &str) -> Value {
    json!({"selector": {"matchLabels": {"app": "web"}}, "containers": [
        {"name": "mesh", "image": image, "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": PARK}}]})
}

pub fn set() -> SidecarSet {
    set_of(&spec(NEW))
}

/// A pod as an API server and a kubelet would have it, which takes what is decided.
#[derive(Clone)]
pub struct Node {
    pub object: Value,
    runs: u32,
}

impl Node {
    pub fn new(name: &str) -> Self {
        let container = |name: &str, image: &str| json!({"name": name, "image": image});
        let mut node = Self {
            object: json!({
                "metadata": {"name": name, "namespace": "shop", "uid": format!("u-{name}"), "resourceVersion": "1",
                    "labels": {"app": "web"}, "annotations": {"mine": "1"}},
                "spec": {"restartPolicy": "Always", "containers": [
                    container("app", "r.example/app:1"), container("mesh-1", OLD), container("mesh-2", PARK)]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }),
            runs: 0,
        };
        for container in 0..3 {
            node.starts(container);
        }
        node
    }

    /// The node shows the container of this place running with the image that it has.
    pub fn starts(&mut self, nth: usize) {
        self.runs += 1;
        let (name, image) = {
            let container = &self.object["spec"]["containers"][nth];
            (container["name"].clone(), container["image"].clone())
        };
        self.shows(nth, json!({"name": name, "image": image, "ready": true, "restartCount": self.runs,
            "containerID": format!("containerd://{}", self.runs), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}));
    }

    /// It cannot start it.
    pub fn fails(&mut self, nth: usize, reason: &str) {
        let name = self.object["spec"]["containers"][nth]["name"].clone();
        self.shows(nth, json!({"name": name, "ready": false, "restartCount": 1, "state": {"waiting": {"reason": reason, "message": "no"}}}));
    }

    fn shows(&mut self, nth: usize, status: Value) {
        if self.object["status"]["containerStatuses"].is_null() {
            self.object["status"]["containerStatuses"] = json!([{}, {}, {}]);
        }
        self.object["status"]["containerStatuses"][nth] = status;
        self.changed();
    }

    pub fn changed(&mut self) {
        let version: u32 = self.object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        self.object["metadata"]["resourceVersion"] = json!((version + 1).to_string());
    }

    pub fn pod(&self) -> UpgradePod {
        let wire: UpgradePodWire = serde_json::from_value(self.object.clone()).unwrap();
        wire.read().unwrap().for_update(&set().update.selector)
    }

    pub fn takes(&mut self, change: &Change) {
        assert_eq!(self.object["metadata"]["resourceVersion"], *change.version);
        let containers = self.object["spec"]["containers"].as_array_mut().unwrap();
        let container = containers
            .iter_mut()
            .find(|one| one["name"] == *change.container);
        container.unwrap()["image"] = json!(change.image);
        let annotations = self.object["metadata"]["annotations"]
            .as_object_mut()
            .unwrap();
        for (key, value) in &change.annotations {
            match value {
                Some(value) => annotations.insert(key.clone(), json!(value)),
                None => annotations.remove(key),
            };
        }
        self.changed();
    }

    pub fn image(&self, nth: usize) -> &str {
        self.object["spec"]["containers"][nth]["image"]
            .as_str()
            .unwrap()
    }

    pub fn annotation(&self, key: &str) -> &str {
        self.object["metadata"]["annotations"][key]
            .as_str()
            .unwrap_or_default()
    }
}

/// A pod of which nothing more is known than what was seen of it before.
pub const fn member<'a>(pod: &'a UpgradePod, memory: &'a mut PodMemory) -> Member<'a> {
    Member {
        pod,
        memory,
        is_busy: false,
        is_refused: false,
        is_foreign: false,
        taken: Vec::new(),
    }
}

/// What is decided about these pods, each with what was seen of it before.
pub fn planned(set: &SidecarSet, nodes: &[Node], memories: &mut [PodMemory], now: u64) -> Plan {
    let pods: Vec<_> = nodes.iter().map(Node::pod).collect();
    let mut members: Vec<_> = pods
        .iter()
        .zip(memories)
        .map(|(pod, memory)| member(pod, memory))
        .collect();
    plan(set, &images(), &mut members, moment(now))
}

pub fn alone(set: &SidecarSet, node: &Node, memory: &mut PodMemory, now: u64) -> Plan {
    planned(
        set,
        std::slice::from_ref(node),
        std::slice::from_mut(memory),
        now,
    )
}

/// The one write.
pub fn write(plan: &Plan) -> &Change {
    assert_eq!(plan.writes.len(), 1, "{plan:?}");
    &plan.writes[0].1
}
