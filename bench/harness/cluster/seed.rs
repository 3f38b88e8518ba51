//! What is in the API server before anything is measured.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::api::{Request, STRATEGIC};
use super::driver;
use super::objects::{self, NAMESPACES, NO_LIMIT, NODES, Shown};
use super::server::{Cluster, User};

/// Pods that each session ends to see whether the controller is there.
pub const PROBES: usize = 16;
/// Pods that have nothing to do with sidecars.
pub const STRANGERS: usize = 200;

/// Pods of one set, which all run.
#[derive(Debug, Clone)]
pub struct Pods {
    /// The first part of their names.
    pub set: String,
    /// Their uids, by their numbers.
    pub uids: Vec<String>,
}

/// Makes namespaces, accounts, nodes, and pods that run: `size` of them to wait for a burst.
///
/// # Errors
/// Where the API server refuses one.
pub async fn seed(cluster: &Cluster, size: usize, writers: usize) -> Result<Pods> {
    let admin = cluster.endpoint(User::Node, "kubectl/v1.34.0")?;
    let spaces = (0..NAMESPACES)
        .map(objects::namespace)
        .chain(["bench", "swaplet", "kruise-system"].map(str::to_owned));
    let spaces: Vec<String> = spaces.collect();
    let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let namespaces = spaces
        .iter()
        .map(|space| Request::create(0, "/api/v1/namespaces", &named("Namespace", space)));
    driver::all(&admin, 4, namespaces, None).await?;
    let accounts = spaces.iter().map(|space| {
        Request::create(
            0,
            format!("/api/v1/namespaces/{space}/serviceaccounts"),
            &named("ServiceAccount", "default"),
        )
    });
    driver::all(&admin, 4, accounts, None).await?;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": User::ALL.map(|user| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user.name()}))});
    admin
        .once(&Request::create(
            0,
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            &binding,
        ))
        .await?;
    nodes(cluster).await?;
    let strangers = (0..STRANGERS).map(|nth| {
        Request::create(
            nth,
            format!("/api/v1/namespaces/{}/pods", objects::namespace(nth)),
            &objects::stranger(nth),
        )
    });
    driver::all(&admin, writers, strangers, None).await?;
    pods(cluster, "probe", PROBES, NO_LIMIT, writers).await?;
    pods(cluster, "burst", size, NO_LIMIT, writers).await
}

async fn nodes(cluster: &Cluster) -> Result<()> {
    let admin = cluster.endpoint(User::Node, "kubelet/v1.34.0")?;
    let made = (0..NODES).map(|nth| Request::create(nth, "/api/v1/nodes", &objects::node(nth)));
    driver::all(&admin, 4, made, None).await?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "nodeInfo": {"kubeletVersion": "v1.34.0", "operatingSystem": "linux", "architecture": "amd64", "containerRuntimeVersion": "containerd://2.2.0",
            "bootID": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "osImage": "", "systemUUID": ""}}});
    let ready = (0..NODES).map(|nth| {
        Request::patch(
            nth,
            format!("/api/v1/nodes/virtual-{nth}/status"),
            STRATEGIC,
            &ready,
        )
    });
    driver::all(&admin, 4, ready, None).await?;
    Ok(())
}

/// Makes pods that run, with their Jobs, of which each has this `backoffLimit`.
///
/// # Errors
/// Where the API server refuses one.
pub async fn pods(
    cluster: &Cluster,
    set: &str,
    count: usize,
    limit: u32,
    writers: usize,
) -> Result<Pods> {
    let maker = cluster.endpoint(User::Node, "kube-controller-manager/v1.34.0")?;
    let mut jobs = BTreeMap::new();
    for number in 0..count {
        let key = (objects::namespace(number), objects::job_of(set, number));
        if let Entry::Vacant(new) = jobs.entry(key) {
            let (namespace, job) = new.key();
            let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
            let made = maker
                .once(&Request::create(0, path, &objects::job(job, limit)))
                .await?;
            new.insert(uid(&made)?);
        }
    }
    let (answers, mut made) = unbounded_channel();
    let requests = (0..count).map(|number| {
        let uid = &jobs[&(objects::namespace(number), objects::job_of(set, number))];
        let path = format!("/api/v1/namespaces/{}/pods", objects::namespace(number));
        Request::create(number, path, &objects::pod(set, number, uid))
    });
    driver::all(&maker, writers, requests, Some(answers)).await?;
    let mut uids = vec![String::new(); count];
    while let Some((number, body)) = made.recv().await {
        uids[number] = uid(&serde_json::from_slice(&body)?)?;
    }
    let node = cluster.endpoint(User::Node, "kubelet/v1.34.0")?;
    driver::all(
        &node,
        writers,
        (0..count).map(|number| objects::shows(set, number, Shown::Running)),
        None,
    )
    .await?;
    Ok(Pods {
        set: set.to_owned(),
        uids,
    })
}

fn uid(object: &Value) -> Result<String> {
    Ok(object["metadata"]["uid"]
        .as_str()
        .context("no uid")?
        .to_owned())
}
