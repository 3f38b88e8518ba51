//! The current pods of a target.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::Selector;
use kube::{Api, Client, Resource, ResourceExt};
use swaplet_controller::frame::list::list_with;
use swaplet_core::objects::values::whole_object::WholeObject;

use super::answer::{answer, plain};
use super::target::{Target, Workload};

/// The target, and where its pods are.
pub(super) struct Group {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) target: Target,
}

/// The pods of a group, and the desired number.
pub(super) struct Seen {
    pub(super) pods: Vec<Pod>,
    pub(super) desired: usize,
}

/// The fields of a workload about its pods.
struct Spec {
    uids: BTreeSet<String>,
    selector: LabelSelector,
    desired: i32,
}

impl Group {
    /// Lists the pods, without those that have finished or are being deleted, because a workload
    /// replaces them.
    pub(super) async fn list_pods(&self) -> anyhow::Result<Seen> {
        match &self.target {
            Target::Pods(names) => self.named(names).await,
            Target::Selector(selector) => {
                let pods = self.list(ListParams::default().labels(selector)).await?;
                Ok(Seen {
                    desired: pods.len(),
                    pods,
                })
            }
            Target::Workload(kind, name) => self.of_workload(*kind, name).await,
        }
    }

    async fn named(&self, names: &[String]) -> anyhow::Result<Seen> {
        let mut pods = Vec::new();
        for name in names {
            let found = answer(self.api::<Pod>().get_opt(name))
                .await
                .map_err(plain)
                .with_context(|| format!("cannot get pod {name}"))?;
            pods.extend(found.filter(is_live));
        }
        Ok(Seen {
            desired: pods.len(),
            pods,
        })
    }

    async fn of_workload(&self, kind: Workload, name: &str) -> anyhow::Result<Seen> {
        let spec = match kind {
            Workload::Deployment => self.deployment(name).await?,
            Workload::StatefulSet => {
                self.workload(kind, name, |set: StatefulSet| {
                    let uids = set.uid();
                    set.spec.map(|spec| Spec {
                        uids: uids.into_iter().collect(),
                        selector: spec.selector,
                        desired: spec.replicas.unwrap_or(1),
                    })
                })
                .await?
            }
            Workload::DaemonSet => {
                self.workload(kind, name, |set: DaemonSet| {
                    let uids = set.uid();
                    let desired = set
                        .status
                        .map_or(0, |status| status.desired_number_scheduled);
                    set.spec.map(|spec| Spec {
                        uids: uids.into_iter().collect(),
                        selector: spec.selector,
                        desired,
                    })
                })
                .await?
            }
        };
        let mut pods = self
            .list(ListParams::default().labels_from(&Selector::try_from(spec.selector)?))
            .await?;
        pods.retain(|pod| is_controlled_by(pod, &spec.uids));
        Ok(Seen {
            pods,
            desired: usize::try_from(spec.desired).unwrap_or_default(),
        })
    }

    async fn workload<K>(
        &self,
        kind: Workload,
        name: &str,
        read: impl Fn(K) -> Option<Spec>,
    ) -> anyhow::Result<Spec>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let kind = kind.kind();
        let found = answer(self.api::<K>().get_opt(name))
            .await
            .map_err(plain)
            .with_context(|| format!("cannot get {kind} {name}"))?;
        let Some(found) = found else {
            bail!("there is no {kind} {name} in namespace {}", self.namespace)
        };
        read(found).with_context(|| format!("{kind} {name} has no spec"))
    }

    /// Reads a Deployment, whose pods belong to its `ReplicaSet`s.
    async fn deployment(&self, name: &str) -> anyhow::Result<Spec> {
        let spec = self
            .workload(Workload::Deployment, name, |deployment: Deployment| {
                let uids = deployment.uid();
                deployment.spec.map(|spec| Spec {
                    uids: uids.into_iter().collect(),
                    selector: spec.selector,
                    desired: spec.replicas.unwrap_or(1),
                })
            })
            .await?;
        let parameters =
            ListParams::default().labels_from(&Selector::try_from(spec.selector.clone())?);
        let uid = |set: WholeObject<ReplicaSet>| {
            let set = set.read()?;
            set.uid().filter(|_| is_controlled_by(&set, &spec.uids))
        };
        let found = list_with(&self.api(), parameters, uid)
            .await
            .map_err(plain)
            .context("cannot list ReplicaSets")?;
        let uids = found.into_iter().collect();
        Ok(Spec { uids, ..spec })
    }

    async fn list(&self, parameters: ListParams) -> anyhow::Result<Vec<Pod>> {
        list_with(&self.api::<WholeObject<Pod>>(), parameters, |pod| {
            pod.read().filter(is_live)
        })
        .await
        .map_err(plain)
        .context("cannot list pods")
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn is_controlled_by<K: Resource>(object: &K, uids: &BTreeSet<String>) -> bool {
    object
        .owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && uids.contains(&owner.uid))
}

fn is_live(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}
