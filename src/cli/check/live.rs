//! Reads the pods and templates of a cluster, the ConfigMaps with their scripts, and the nodes on
//! which finished pods cost money.

use std::collections::BTreeSet;

use anyhow::Context;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, TypeMeta};
use swaplet_controller::frame::list::{list, words};
use swaplet_controller::frame::remarks::Remarks;
use swaplet_controller::terminate::snapshot::policies::{Listed, NOT_KNOWN};
use swaplet_core::check::around::Described;
use swaplet_core::check::placement::Cost;
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::command::{ContainerFacts, Executes, StandardPaths, Verdict, resolve};
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::container_spec::ContainerSpec;
use swaplet_core::objects::values::whole_object::WholeObject;

use super::hints::Hint;
use super::policies::CheckedPolicies;
use super::report::{CostlyNode, Report};
use super::{CheckArgs, Settings, plain};
use crate::cli::status::installation::{Found, Naming, Purpose};

/// The field selector for pods: a finished one needs no verdict.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The maximum number of ConfigMaps that are read, each by a request of its own.
const MOST_MAPS: usize = 200;

/// Adds the objects of a cluster to the report, and hints about what cannot be read, or does not
/// count.
///
/// # Errors
/// Pods, Jobs or CronJobs cannot be listed, or the rows of nodes that count, those of the
/// installation or of the flag, are not valid. Other unreadable objects are left out: without
/// ConfigMaps scripts are assumed, and without nodes the templates alone decide where pods run.
pub(super) async fn read(
    args: &CheckArgs,
    report: &mut Report,
    settings: &mut Settings,
) -> anyhow::Result<()> {
    let client = args.cluster.client().await?;
    let named = args.namespace.as_deref();
    let namespace =
        (!args.all_namespaces).then(|| named.unwrap_or_else(|| client.default_namespace()));
    let mut described = Vec::new();
    // Owners before what they own.
    for (resource, fields) in [
        (ApiResource::erase::<CronJob>(&()), ""),
        (ApiResource::erase::<Job>(&()), ""),
        (ApiResource::erase::<Pod>(&()), NOT_ENDED),
    ] {
        add(&client, namespace, &resource, fields, &mut described)
            .await
            .with_context(|| format!("cannot list {}", resource.plural))?;
    }
    let naming = Naming::Flags("--node-classes");
    let found = Found::find(&client, naming, namespace, Purpose::Tell).await?;
    settings.node_table = args.nodes.table_or(&found)?;
    let mut remarks = Remarks::default();
    let policies = &mut report.policies;
    let is_unread = add_policies(&client, namespace, &found, policies, &mut remarks).await;
    if is_unread || args.nodes.lacks_rows(&found) {
        remarks.extend(&found.remarks);
    }
    let hints = remarks.lines().into_iter().map(Hint::of_cluster);
    report.hints.extend(hints);
    report.policies.mark(&mut described, settings);
    let maps = config_maps(&client, &described, settings, &mut report.hints).await;
    let nodes = nodes(&client, &settings.node_table, &mut report.hints).await;
    report.add_live(described, &maps, &nodes, settings);
    Ok(())
}

/// Adds the policies that the installation of the cluster reads; all, if none is found, or that is
/// not known: then it returns true. Adds remarks about what cannot be read, does not count, or may
/// not.
async fn add_policies(
    client: &Client,
    namespace: Option<&str>,
    found: &Found,
    policies: &mut CheckedPolicies,
    remarks: &mut Remarks,
) -> bool {
    let listed = Listed::read(client, namespace, policies.have_namespace_selector()).await;
    remarks.extend(&listed.remarks);
    policies.add_namespaces(listed.namespaces);
    match (found.reads_policies(), &found.installation) {
        _ if listed.policies.is_empty() => false,
        (Some(false), Some(installation)) => {
            remarks.push(format!(
                "the policies of the cluster do not count, because Deployment {} runs without --sidecar-policies",
                installation.place()
            ));
            false
        }
        (is_read, _) => {
            if is_read.is_none() {
                remarks.push(NOT_KNOWN);
            }
            policies.add_listed(listed.policies);
            is_read.is_none()
        }
    }
}

/// Returns the nodes on which a finished pod may cost money, if nodes can be listed.
async fn nodes(client: &Client, table: &NodeTable, hints: &mut Vec<Hint>) -> Vec<CostlyNode> {
    let api: Api<NodeWire> = Api::all_with(client.clone(), &());
    let costly = |node: NodeWire| {
        let node = node.read()?;
        let (row, _) = table.find(&node)?;
        Cost::on(&row).map(|_| (node, row))
    };
    list(&api, "", costly).await.unwrap_or_else(|error| {
        hints.push(Hint::of_cluster(format!(
            "nodes cannot be listed, so only the templates show where pods may run: {}",
            words(&error)
        )));
        Vec::new()
    })
}

/// Reads the ConfigMaps that contain something that a sidecar executes.
async fn config_maps(
    client: &Client,
    found: &[Described],
    settings: &Settings,
    hints: &mut Vec<Hint>,
) -> ConfigMaps {
    let mut wanted = BTreeSet::new();
    for described in found {
        let containers = &described.template.spec.containers;
        let is_sidecar = |each: &&ContainerSpec| described.is_sidecar(each, &settings.sidecars);
        for container in containers.iter().filter(is_sidecar) {
            let facts = ContainerFacts::of(&described.template.spec, container);
            if let Verdict::Runnable { executes } | Verdict::NeedsImage { executes, .. } =
                resolve(&facts, &StandardPaths)
                && let Executes::Script(path) = executes
            {
                let files = described.config_files.at(&container.name, &path);
                let namespace = described.template.namespace.clone().unwrap_or_default();
                wanted.extend(files.into_iter().map(|file| (namespace.clone(), file.map)));
            }
        }
    }
    if wanted.len() > MOST_MAPS {
        hints.push(Hint::of_cluster(format!(
            "scripts are in {} ConfigMaps, of which {MOST_MAPS} are read: check fewer namespaces",
            wanted.len()
        )));
    }
    let mut maps = ConfigMaps::default();
    for (namespace, name) in wanted.into_iter().take(MOST_MAPS) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        if let Ok(Some(map)) = api.get_opt(&name).await
            && let Ok(mut map) = serde_json::to_value(&map)
        {
            map["kind"] = "ConfigMap".into();
            maps.add(&map, &namespace);
        }
    }
    maps
}

/// Adds the objects; only the parts that matter are kept.
async fn add(
    client: &Client,
    namespace: Option<&str>,
    resource: &ApiResource,
    fields: &str,
    found: &mut Vec<Described>,
) -> anyhow::Result<()> {
    let api: Api<WholeObject<DynamicObject>> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    let templates = |object: WholeObject<DynamicObject>| {
        let mut object = object.read()?;
        // The items of a list have no type.
        object.types = Some(TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        Some(serde_json::to_value(&object).map(|object| Described::all(&object)))
    };
    for described in list(&api, fields, templates).await.map_err(plain)? {
        found.extend(described?);
    }
    Ok(())
}
