//! Reads once what is known about images on nodes, for `swaplet warm status`. What must not be read
//! becomes a remark, and the rest counts.

use std::collections::BTreeSet;

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_images::{NodeImages, NodeImagesWire};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::warm::known::{Known, ListedNode, known};
use swaplet_core::warm::pod::{RUN, WarmerPodWire};
use swaplet_core::warm::warming::shape;

use crate::frame::list::{api_in, list_with, words};

/// Reads nodes and warmer pods, and returns a row for each image and node, and remarks on what could
/// not be read. The nodes are those that the label selector matches, and of these only the ones with
/// such a name, if there are any; without images all images of warmer pods are reported; the pods
/// are those of the namespace, or of all.
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
    let mut nodes = list_with(
        &Api::all(client.clone()),
        selected,
        |node: NodeImagesWire| node.read(),
    )
    .await?;
    nodes.retain(|node| names.is_empty() || names.contains(&*node.node.name));
    nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
    for name in &names {
        if !nodes.iter().any(|node| *node.node.name == **name) {
            remarks.push(format!("there is no node {name} among those selected"));
        }
    }
    let pods = list_with(
        &api_in(client, namespace),
        ListParams::default().labels(RUN),
        WarmerPodWire::read,
    )
    .await
    .unwrap_or_else(|error| {
        remarks.push(format!(
            "warmer pods are not shown, because pods cannot be listed: {}",
            words(&error)
        ));
        Vec::new()
    });
    let nodes: Vec<_> = nodes.into_iter().map(|node| listed(node, table)).collect();
    Ok((known(images, &nodes, &pods), remarks))
}

fn listed(node: NodeImages, table: &NodeTable) -> ListedNode {
    let NodeImages { node, images } = node;
    ListedNode {
        why_not: shape(&node, &Recognised::of(&node, table)).err(),
        name: node.name,
        images,
    }
}
