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

/// The query of `swaplet warm status`.
#[derive(Clone, Debug)]
pub struct Question {
    /// The images; empty for all images of warmer pods.
    pub images: Vec<Box<str>>,
    /// The namespace of the pods; `None` for all.
    pub namespace: Option<String>,
    /// The label selector of the nodes; empty selects all.
    pub selector: String,
    /// The names of the only nodes to report; empty selects all.
    pub names: BTreeSet<String>,
    /// The table by which nodes are classified.
    pub table: NodeTable,
}

/// The knowledge about images, in the order of nodes.
#[derive(Clone, Debug)]
pub struct Answer {
    /// A row for each image and node.
    pub known: Vec<Known>,
    /// What could not be read, and what that means.
    pub remarks: Vec<String>,
}

/// Reads nodes and warmer pods.
///
/// # Errors
/// The error of the API server if the nodes cannot be listed.
pub async fn ask(client: &Client, question: &Question) -> kube::Result<Answer> {
    let mut remarks = Vec::new();
    let selected = ListParams::default().labels(&question.selector);
    let mut nodes = list_with(
        &Api::all(client.clone()),
        selected,
        |node: NodeImagesWire| node.read(),
    )
    .await?;
    nodes.retain(|node| question.names.is_empty() || question.names.contains(&*node.node.name));
    nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
    for name in question
        .names
        .iter()
        .filter(|name| !nodes.iter().any(|node| *node.node.name == ***name))
    {
        remarks.push(format!("there is no node {name} among those selected"));
    }
    let pods = list_with(
        &api_in(client, question.namespace.as_deref()),
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
    let nodes: Vec<_> = nodes
        .into_iter()
        .map(|node| listed(node, &question.table))
        .collect();
    Ok(Answer {
        known: known(&question.images, &nodes, &pods),
        remarks,
    })
}

fn listed(node: NodeImages, table: &NodeTable) -> ListedNode {
    let NodeImages { node, images } = node;
    ListedNode {
        why_not: shape(&node, &Recognised::of(&node, table)).err(),
        name: node.name,
        images,
    }
}
