//! The Node and its lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::kubelet::time;
use super::options::{NodeOptions, Profile};
use crate::Clock;

/// As kubelets and virtual-kubelets renew; the lease lasts four times as long.
const RENEW: Duration = Duration::from_secs(10);
const LEASE_SECONDS: u32 = 40;
/// Of so many renewals one also reports the status: once a minute.
const STATUS_EVERY: u32 = 6;
/// A node that has just come is not ready at once.
const WARM_UP: Duration = Duration::from_secs(1);
/// A registration that failed is tried again after so long.
const AGAIN: Duration = Duration::from_secs(2);

const LEASES: &str = "kube-node-lease";

/// The node at the API server.
#[derive(Clone)]
pub(super) struct NodeObject {
    pub client: Client,
    pub clock: Clock,
    pub options: NodeOptions,
}

impl NodeObject {
    /// Registers the node and keeps it alive, for ever.
    pub async fn keep(self) {
        while self.register().await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
        tokio::time::sleep(WARM_UP).await;
        let mut round = 0;
        loop {
            // What fails now is done again soon; the cluster notices if it goes on failing.
            let _ = self.renew().await;
            if round % STATUS_EVERY == 0 && self.report(true).await.is_err() {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            round = (round + 1) % STATUS_EVERY;
            tokio::time::sleep(RENEW).await;
        }
    }

    async fn register(&self) -> kube::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        match nodes
            .create(&PostParams::default(), &object(&self.object())?)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                nodes
                    .patch(
                        &self.options.name,
                        &PatchParams::default(),
                        &Patch::Merge(self.object()),
                    )
                    .await?;
                self.report(false).await
            }
            other => other.map(|_| ()),
        }
    }

    /// Takes the node and its lease away.
    pub async fn remove(&self) -> kube::Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        // The garbage collector takes a lease that is left behind.
        let _ = leases
            .delete(&self.options.name, &DeleteParams::default())
            .await;
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes
            .delete(&self.options.name, &DeleteParams::default())
            .await
            .map(|_| ())
    }

    async fn renew(&self) -> kube::Result<()> {
        let name = &self.options.name;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let now = self
            .clock
            .now()
            .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            .to_string();
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": LEASES},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}});
        match leases
            .patch(name, &PatchParams::default(), &Patch::Merge(&lease))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => leases
                .create(&PostParams::default(), &object(&lease)?)
                .await
                .map(|_| ()),
            other => other.map(|_| ()),
        }
    }

    async fn report(&self, ready: bool) -> kube::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"status": self.status(ready)});
        nodes
            .patch_status(
                &self.options.name,
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await
            .map(|_| ())
    }

    fn object(&self) -> Value {
        let taint = |taint: &super::options::Taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
        let taints: Vec<Value> = self.options.taints.iter().map(taint).collect();
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.options.name, "labels": self.options.all_labels()},
            "spec": {"taints": taints}, "status": self.status(false)})
    }

    fn status(&self, ready: bool) -> Value {
        let (is_virtual, now) = (self.options.profile.is_virtual(), time(self.clock.now()));
        let condition = |kind: &str, on: bool, reason: &str| json!({"type": kind, "status": if on { "True" } else { "False" }, "reason": reason, "message": "played by swaplet", "lastHeartbeatTime": now, "lastTransitionTime": now});
        let ready_reason = if ready {
            "KubeletReady"
        } else {
            "KubeletNotReady"
        };
        let mut conditions = vec![condition("Ready", ready, ready_reason)];
        conditions.extend(
            ["MemoryPressure", "DiskPressure", "PIDPressure"]
                .map(|kind| condition(kind, false, "KubeletHasSufficient")),
        );
        if is_virtual {
            conditions.push(condition("NetworkUnavailable", false, "RouteCreated"));
        }
        // Virtual nodes report versions of their own, which are not a kubelet's.
        let version = match &self.options.profile {
            Profile::Virtual(_) => "v1.34.0-vk-mock",
            Profile::Kubelet(options) => options.version.as_str(),
        };
        let room =
            json!({"cpu": "1k", "memory": "10Ti", "pods": "100k", "ephemeral-storage": "10Ti"});
        json!({"conditions": conditions, "capacity": room, "allocatable": room, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": self.options.name}],
            "nodeInfo": {"kubeletVersion": version, "operatingSystem": "linux", "architecture": "amd64", "containerRuntimeVersion": "containerd://2.2.9", "kernelVersion": "",
                "osImage": "swaplet mock node", "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": ""}})
    }
}

/// A typed object of ours. It cannot fail; if it did, the caller's retry would say so.
pub(super) fn object<T: DeserializeOwned>(value: &Value) -> kube::Result<T> {
    T::deserialize(value).map_err(kube::Error::SerdeError)
}
