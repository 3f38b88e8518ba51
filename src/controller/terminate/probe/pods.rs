//! The throw-away pods: how they are made, and how they are read.

use serde_json::{Value, json};
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

use super::probed::{Probe, Way};

/// The label of every pod of a probe; its value is the same for all pods of one.
pub const LABEL: &str = "swaplet.io/probe";
/// The container that is done at once.
pub(crate) const MAIN: &str = "main";
/// The container that stays until it is ended.
pub(crate) const SIDECAR: &str = "sidecar";
/// The park image stops on SIGTERM, so nobody waits for more.
const GRACE_SECONDS: u8 = 1;
/// A user without rights that no distribution gives to anybody; the one of the two images.
const USER: u32 = 65532;

impl Probe {
    /// A pod of this node: no scheduler is asked, no taint keeps it away, no sidecar is marked (so
    /// nobody else ends it), and it may run where pods are restricted.
    pub(crate) fn pod(&self, way: Way) -> Value {
        let container = |name: &str, image: &str| {
            json!({
                "name": name, "image": image,
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            })
        };
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.pod_name(way), "namespace": self.namespace, "labels": {LABEL: self.id}},
            "spec": {
                "nodeName": self.node.name, "restartPolicy": way.restart_policy(), "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": GRACE_SECONDS, "activeDeadlineSeconds": self.active_deadline(),
                "automountServiceAccountToken": false, "enableServiceLinks": false,
                "securityContext": {"runAsNonRoot": true, "runAsUser": USER, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [container(MAIN, self.images.exit.as_str()), container(SIDECAR, self.images.park.as_str())],
            },
        })
    }

    pub(crate) fn pod_name(&self, way: Way) -> String {
        format!("swaplet-probe-{}-{}", self.id, way.suffix())
    }

    /// Whoever kills this process leaves nothing that runs for long, where the node keeps
    /// deadlines.
    fn active_deadline(&self) -> u64 {
        self.timeout.as_secs() * 2 + 60
    }
}

/// The pod as the controller would read it if its sidecar were marked. The mark is put to what was
/// read only: no other controller may see it.
pub(crate) fn marked(mut pod: Value) -> Option<Pod> {
    let containers = pod["spec"]["containers"].as_array_mut()?;
    let sidecar = containers
        .iter_mut()
        .find(|container| container["name"] == SIDECAR)?;
    sidecar["env"] = json!([{"name": WHEN_JOB_EXIT, "value": "true"}]);
    serde_json::from_value::<PodWire>(pod).ok()?.read()
}
