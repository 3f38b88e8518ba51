//! The throw-away pods of a probe: how they are created and read.

use serde_json::{Value, json};
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

use super::{Probe, Way};

/// The label of every pod of a probe; all pods of one probe have the same value.
pub const LABEL: &str = "swaplet.io/probe";
/// The container that ends at once.
pub(crate) const MAIN: &str = "main";
/// The container that runs until it is ended.
pub(crate) const SIDECAR: &str = "sidecar";
/// The park image stops on SIGTERM, so a longer grace period is not needed.
const GRACE_SECONDS: u8 = 1;
/// The unprivileged user of the two images; no distribution assigns this id.
const USER: u32 = 65532;

impl Probe {
    /// Returns a pod manifest for this node: no scheduler is involved, no taint keeps it away, it
    /// may run where pods are restricted, and no sidecar is marked, so nobody else ends it.
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

    /// Returns `activeDeadlineSeconds`: if this process is killed, nothing keeps running for long
    /// on a node that enforces deadlines.
    fn active_deadline(&self) -> u64 {
        self.timeout.as_secs() * 2 + 60
    }
}

/// Reads the pod as the controller would if its sidecar were marked. Only the copy that was read is
/// marked: no other controller may see the mark.
pub(crate) fn marked(mut pod: Value) -> Option<Pod> {
    let containers = pod["spec"]["containers"].as_array_mut()?;
    let sidecar = containers
        .iter_mut()
        .find(|container| container["name"] == SIDECAR)?;
    sidecar["env"] = json!([{"name": WHEN_JOB_EXIT, "value": "true"}]);
    serde_json::from_value::<PodWire>(pod).ok()?.read()
}
