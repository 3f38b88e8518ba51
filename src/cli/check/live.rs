//! The pods and templates of a cluster.

use anyhow::Context;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, TypeMeta};

use super::ClusterArgs;
use crate::objects::pod_template::PodTemplate;

/// Objects per answer of the API server, as in kubectl.
const PAGE: u32 = 500;

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
pub(super) async fn templates(cluster: ClusterArgs, scope: Scope) -> anyhow::Result<Vec<PodTemplate>> {
    let client = cluster.client().await?;
    let mut templates = Vec::new();
    for (resource, fields) in [
        (ApiResource::erase::<CronJob>(&()), None),
        (ApiResource::erase::<Job>(&()), None),
        (ApiResource::erase::<Pod>(&()), Some(NOT_ENDED)),
    ] {
        list(&client, &scope, &resource, fields, &mut templates).await.with_context(|| format!("cannot list {}", resource.plural))?;
    }
    Ok(templates)
}

/// Page by page: only what counts of each object is kept.
async fn list(
    client: &Client,
    scope: &Scope,
    resource: &ApiResource,
    fields: Option<&str>,
    found: &mut Vec<PodTemplate>,
) -> anyhow::Result<()> {
    let api: Api<DynamicObject> = match scope {
        Scope::All => Api::all_with(client.clone(), resource),
        Scope::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        Scope::Context => Api::default_namespaced_with(client.clone(), resource),
    };
    let mut parameters = ListParams { field_selector: fields.map(str::to_owned), ..ListParams::default() }.limit(PAGE);
    loop {
        let page = api.list(&parameters).await?;
        for mut object in page.items {
            // The items of a list do not say what they are.
            object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
            found.extend(PodTemplate::all(&serde_json::to_value(&object)?));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}
