//! The Node and its Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::options::{NodeOptions, Profile, Taint};
use super::registration::{MOCK_NODE, Owner, Refused};
use crate::clock::Clock;
use crate::virtual_node::times::time;

/// The interval of lease renewals, as in kubelets; the lease lasts four times as long.
const RENEW: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(40);
/// One of this many renewals also reports the status: once a minute.
const STATUS_EVERY: u32 = 6;
/// The time until a new node becomes Ready.
const WARM_UP: Duration = Duration::from_secs(1);
/// The wait before a failed request is retried.
pub(super) const AGAIN: Duration = Duration::from_secs(2);

const LEASES: &str = "kube-node-lease";

/// The node's objects at the API server.
#[derive(Clone)]
pub(super) struct NodeObject {
    pub client: Client,
    pub clock: Clock,
    pub options: NodeOptions,
    pub owner: Owner,
}

impl NodeObject {
    /// Creates the Node and its Lease, or adopts those of a mock node that is dead. Returns the uid
    /// of the Node.
    ///
    /// # Errors
    /// They belong to somebody else, or a request failed. In both cases nothing that was written
    /// stays.
    pub async fn register(&self) -> Result<String, Refused> {
        let name = &self.options.name;
        let (node, lease) = (
            self.nodes().get_opt(name).await?,
            self.leases().get_opt(name).await?,
        );
        let age = (self.clock.now(), LEASE);
        self.owner
            .may_take(name, (node.as_ref(), lease.as_ref()), age)?;
        // The first writer wins: a Node that was created meanwhile is a conflict, and the next try
        // judges it.
        let made = match node {
            None => self.make().await?,
            Some(node) => self.take(&node).await?,
        };
        let uid = made.uid().unwrap_or_default();
        if let Err(error) = self.take_lease(&uid, lease.as_ref()).await {
            let _ = delete(&self.nodes(), name, made.uid()).await;
            return Err(error.into());
        }
        Ok(uid)
    }

    /// Renews the registered node as long as it exists with this uid.
    pub async fn keep(&self, uid: &str) {
        tokio::time::sleep(WARM_UP).await;
        let mut round = 0;
        loop {
            if self.is_gone(uid).await {
                return;
            }
            // A failure is retried soon; the cluster notices if it persists.
            let _ = self.renew(uid).await;
            if round % STATUS_EVERY == 0 && self.report(uid, true).await.is_err() {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            round = (round + 1) % STATUS_EVERY;
            tokio::time::sleep(RENEW).await;
        }
    }

    async fn is_gone(&self, uid: &str) -> bool {
        match self.nodes().get_opt(&self.options.name).await {
            Ok(node) => !node.is_some_and(|node| {
                node.uid().as_deref() == Some(uid) && self.owner.has(node.meta())
            }),
            // Unknown; the writes have preconditions.
            Err(_) => false,
        }
    }

    async fn make(&self) -> kube::Result<Node> {
        self.nodes()
            .create(&PostParams::default(), &object(&self.object())?)
            .await
    }

    /// Adopts the Node, if it is still the version that was read.
    async fn take(&self, node: &Node) -> kube::Result<Node> {
        let mut wanted = self.object();
        wanted["metadata"]["uid"] = json!(node.uid());
        wanted["metadata"]["resourceVersion"] = json!(node.resource_version());
        let name = &self.options.name;
        let patch = Patch::Merge(wanted);
        let taken = self
            .nodes()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        self.report(&taken.uid().unwrap_or_default(), false).await?;
        Ok(taken)
    }

    async fn take_lease(&self, uid: &str, before: Option<&Lease>) -> kube::Result<()> {
        let mut wanted = self.lease(uid);
        let Some(before) = before else {
            return self
                .leases()
                .create(&PostParams::default(), &object(&wanted)?)
                .await
                .map(|_| ());
        };
        wanted["metadata"]["resourceVersion"] = json!(before.resource_version());
        self.leases()
            .patch(
                &self.options.name,
                &PatchParams::default(),
                &Patch::Merge(&wanted),
            )
            .await
            .map(|_| ())
    }

    /// Deletes the node and its lease, if they belong to this process.
    pub async fn remove(&self) -> kube::Result<()> {
        let name = &self.options.name;
        // The garbage collector deletes a lease that is left behind.
        if let Ok(Some(lease)) = self.leases().get_opt(name).await
            && self.owner.has(lease.meta())
        {
            let _ = delete(&self.leases(), name, lease.uid()).await;
        }
        match self.nodes().get_opt(name).await? {
            Some(node) if self.owner.has(node.meta()) => {
                delete(&self.nodes(), name, node.uid()).await
            }
            _ => Ok(()),
        }
    }

    async fn renew(&self, uid: &str) -> kube::Result<()> {
        let name = &self.options.name;
        let Some(before) = self.leases().get_opt(name).await? else {
            return self.take_lease(uid, None).await;
        };
        if self.owner.has(before.meta()) {
            self.take_lease(uid, Some(&before)).await?;
        }
        Ok(())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), LEASES)
    }

    /// Returns the Lease, owned by its Node like that of a kubelet.
    fn lease(&self, uid: &str) -> Value {
        let name = &self.options.name;
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        let now = self
            .clock
            .now()
            .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            .to_string();
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASES, "annotations": {MOCK_NODE: self.owner.0}, "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE.as_secs(), "renewTime": now}})
    }

    /// Reports the status; another Node of this name has another uid, and the write fails.
    async fn report(&self, uid: &str, ready: bool) -> kube::Result<()> {
        let patch = json!({"metadata": {"uid": uid}, "status": self.status(ready)});
        self.nodes()
            .patch_status(
                &self.options.name,
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await
            .map(|_| ())
    }

    fn object(&self) -> Value {
        let taint =
            |taint: &Taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
        let taints: Vec<Value> = self.options.taints.iter().map(taint).collect();
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.options.name, "labels": self.options.all_labels(), "annotations": {MOCK_NODE: self.owner.0}},
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
        // Virtual nodes report versions of their own, not those of kubelets.
        let version = match &self.options.profile {
            Profile::Virtual(_) => "v1.37.2-vk-mock",
            Profile::Kubelet(options) => options.version.as_str(),
        };
        let room =
            json!({"cpu": "1k", "memory": "10Ti", "pods": "100k", "ephemeral-storage": "10Ti"});
        json!({"conditions": conditions, "capacity": room, "allocatable": room, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": self.options.name}],
            "nodeInfo": {"kubeletVersion": version, "operatingSystem": "linux", "architecture": "amd64", "containerRuntimeVersion": "containerd://2.2.9", "kernelVersion": "",
                "osImage": "swaplet mock node", "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": ""}})
    }
}

/// Converts one of our objects to its type. It cannot fail; an error would only cause a retry.
pub(super) fn object<T: DeserializeOwned>(value: &Value) -> kube::Result<T> {
    T::deserialize(value).map_err(kube::Error::SerdeError)
}

/// Deletes the object that was read; one that is gone or replaced is no error.
async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>) -> kube::Result<()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            ..Preconditions::default()
        }),
        ..DeleteParams::default()
    };
    match api.delete(name, &only).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(|_| ()),
    }
}
