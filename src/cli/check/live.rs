//! The pods and templates of a cluster.

use anyhow::Context;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, TypeMeta};
use swaplet_controller::frame::list::list;
use swaplet_core::objects::pod::template::PodTemplate;

use super::{ClusterArgs, plain};

/// What does not end any more needs no verdict.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Where to look.
pub(super) enum Scope {
    All,
    Namespace(String),
    Context,
}

impl Scope {
    pub(super) fn new(namespace: Option<String>, all: bool) -> Self {
        match namespace {
            _ if all => Self::All,
            Some(namespace) => Self::Namespace(namespace),
            None => Self::Context,
        }
    }
}

/// CronJobs first, then Jobs, then pods: owners before what they own.
pub(super) async fn templates(
    cluster: ClusterArgs,
    scope: Scope,
) -> anyhow::Result<Vec<PodTemplate>> {
    let client = cluster.client().await?;
    let mut templates = Vec::new();
    for (resource, fields) in [
        (ApiResource::erase::<CronJob>(&()), ""),
        (ApiResource::erase::<Job>(&()), ""),
        (ApiResource::erase::<Pod>(&()), NOT_ENDED),
    ] {
        add(&client, &scope, &resource, fields, &mut templates)
            .await
            .with_context(|| format!("cannot list {}", resource.plural))?;
    }
    Ok(templates)
}

/// Only what counts of each object is kept.
async fn add(
    client: &Client,
    scope: &Scope,
    resource: &ApiResource,
    fields: &str,
    found: &mut Vec<PodTemplate>,
) -> anyhow::Result<()> {
    let api: Api<DynamicObject> = match scope {
        Scope::All => Api::all_with(client.clone(), resource),
        Scope::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        Scope::Context => Api::default_namespaced_with(client.clone(), resource),
    };
    let templates = |mut object: DynamicObject| {
        // The items of a list do not say what they are.
        object.types = Some(TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        Some(serde_json::to_value(&object).map(|object| PodTemplate::all(&object)))
    };
    for templates in list(&api, fields, templates).await.map_err(plain)? {
        found.extend(templates?);
    }
    Ok(())
}
