//! Reads once what is known about images on nodes, for `swaplet warm status`. What must not be read
//! becomes a remark, and the rest counts.

use std::collections::BTreeSet;

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_images::{NodeImages, NodeImagesWire};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::warm::known::{Knowledge, Known, ListedNode, known};
use swaplet_core::warm::pod::{RUN, WarmerPodWire};
use swaplet_core::warm::warming::shape;

use crate::frame::list::{api_in, list_with, words};
use crate::frame::remarks::is_forbidden;

/// Reads nodes and warmer pods, and returns a row for each image and node, and remarks on what could
/// not be read. The nodes are those that the label selector matches, and of these only the ones with
/// such a name, if there are any; without images all images of warmer pods are reported; the pods
/// are those of the namespace, or of all. Where the user may not list nodes, and none are selected by
/// their labels, what the pods show is reported.
///
/// # Errors
/// The error of the API server if the nodes cannot be listed.
pub async fn ask(
    client: &Client,
    images: &[Box<str>],
    namespace: Option<&str>,
    (selector, names): (&str, &[String]),
    table: &NodeTable,
) -> kube::Result<(Vec<Known>, Vec<String>)> {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut remarks = Vec::new();
    let selected = ListParams::default().labels(selector);
    let nodes = list_with(
        &Api::all(client.clone()),
        selected,
        |node: NodeImagesWire| node.read(),
    )
    .await;
    let (nodes, forbidden) = match nodes {
        Err(error) if selector.is_empty() && is_forbidden(&error) => (None, Some(error)),
        nodes => (Some(nodes?), None),
    };
    let pods = list_with(
        &api_in(client, namespace),
        ListParams::default().labels(RUN),
        WarmerPodWire::read,
    )
    .await;
    if let Some(error) = forbidden {
        let so = match &pods {
            Ok(_) => "so only what warmer pods show is printed",
            Err(_) => "and so nothing is known",
        };
        remarks.push(format!("nodes cannot be listed, {so}: {}", words(&error)));
    }
    let pods = pods.unwrap_or_else(|error| {
        remarks.push(format!(
            "warmer pods are not shown, because pods cannot be listed: {}",
            words(&error)
        ));
        Vec::new()
    });
    let is_meant = |name: &str| names.is_empty() || names.contains(name);
    let Some(mut nodes) = nodes else {
        let nodes: BTreeSet<&str> = pods.iter().map(|pod| &*pod.node).collect();
        let nodes = nodes.into_iter().filter(|name| is_meant(name)).map(unseen);
        let mut shown = known(images, &nodes.collect::<Vec<_>>(), &pods);
        shown.retain(|known| matches!(known.knowledge, Knowledge::OfPod { .. }));
        return Ok((shown, remarks));
    };
    nodes.retain(|node| is_meant(&node.node.name));
    nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
    for name in &names {
        if !nodes.iter().any(|node| *node.node.name == **name) {
            remarks.push(format!("there is no node {name} among those selected"));
        }
    }
    let nodes: Vec<_> = nodes.into_iter().map(|node| listed(node, table)).collect();
    Ok((known(images, &nodes, &pods), remarks))
}

/// Returns a node of which nothing but its name is known.
fn unseen(name: &str) -> ListedNode {
    ListedNode {
        name: name.into(),
        why_not: None,
        images: Vec::new(),
    }
}

fn listed(node: NodeImages, table: &NodeTable) -> ListedNode {
    let NodeImages { node, images } = node;
    ListedNode {
        why_not: shape(&node, &Recognised::of(&node, table)).err(),
        name: node.name,
        images,
    }
}
