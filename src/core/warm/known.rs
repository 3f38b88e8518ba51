//! What is known about images on nodes, for read-only queries: what a warmer pod shows, or what the
//! node lists.
//!
//! While the container of a warmer pod exists, the kubelet does not remove its image. The images
//! that a node lists are its own claim, at most as many as `--node-status-max-images` of its
//! kubelet allows (50 by default); an image that is not listed may be there.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::warming::evidence::{Verdict, has_run, judge};
use crate::image::ImageReference;
use crate::objects::pod::{ContainerState, Phase};
use crate::warm::pod::{WarmerImage, WarmerPod};

/// A node, and the images that it lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedNode {
    /// The name of the node.
    pub name: Box<str>,
    /// Why images cannot be warmed there; `None` if they can.
    pub why_not: Option<String>,
    /// The names of each image in `status.images`.
    pub images: Vec<Vec<Box<str>>>,
}

/// The knowledge about one image on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// A warmer pod has the image, or waits for it.
    OfPod {
        /// The namespace of the pod.
        namespace: Box<str>,
        /// The name of the pod.
        pod: Box<str>,
        /// What the pod shows.
        shown: Shown,
    },
    /// Only the node itself lists the image.
    Claimed {
        /// How many images the node lists.
        listed: usize,
    },
    /// The node keeps no images for later pods.
    Skipped(String),
    /// Nothing is known, and the node does not list the image.
    Nothing {
        /// How many images the node lists.
        listed: usize,
    },
}

/// What a warmer pod shows about an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A container proves the image, and keeps it there.
    Proved {
        /// Since when the container runs; `None` if it does not run.
        since: Option<Timestamp>,
    },
    /// A pull has failed, for this reason in the node's words.
    Failed(Box<str>),
    /// The pod waits for the image.
    Pulling,
}

/// One image on one node; no image if none was requested and nothing is known about the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name of the node.
    pub node: Box<str>,
    /// The image as it was requested.
    pub image: Option<Box<str>>,
    /// The knowledge about the image.
    pub knowledge: Knowledge,
}

/// Returns what is known about these images on each of these nodes; without images, about all that
/// warmer pods have.
pub fn known(images: &[Box<str>], nodes: &[ListedNode], pods: &[WarmerPod]) -> Vec<Known> {
    let mut known = Vec::new();
    for node in nodes {
        let shown: Vec<_> = shown_on(node, pods).collect();
        let mut asked: Vec<_> = images.iter().cloned().map(Some).collect();
        if images.is_empty() {
            let warmed: BTreeSet<_> = shown.iter().map(|(_, image)| &image.wanted).collect();
            asked.extend(warmed.into_iter().cloned().map(Some));
        }
        if asked.is_empty() {
            asked.push(None);
        }
        known.extend(asked.into_iter().map(|image| Known {
            node: node.name.clone(),
            knowledge: knowledge(node, image.as_deref(), &shown),
            image,
        }));
    }
    known
}

/// Returns the images of the pods on a node. A pod that is going away keeps no image. One on another
/// node, as anyone can create who may create pods, proves nothing of the node that it names.
fn shown_on<'a>(
    node: &'a ListedNode,
    pods: &'a [WarmerPod],
) -> impl Iterator<Item = (&'a WarmerPod, &'a WarmerImage)> {
    let stays = |pod: &&WarmerPod| {
        let has_ended = matches!(pod.phase, Phase::Succeeded | Phase::Failed);
        *pod.node == *node.name && !pod.deleting && !pod.is_elsewhere && !has_ended
    };
    pods.iter()
        .filter(stays)
        .flat_map(|pod| pod.images.iter().map(move |image| (pod, image)))
}

fn knowledge(
    node: &ListedNode,
    image: Option<&str>,
    shown: &[(&WarmerPod, &WarmerImage)],
) -> Knowledge {
    let listed = node.images.len();
    let name = image.map(whole);
    let is_it = |other: &str| name.as_deref() == Some(&*whole(other));
    let of_pods = shown.iter().filter(|(_, pulled)| is_it(&pulled.wanted));
    let mut of_pods: Vec<_> = of_pods.map(|(pod, image)| of_pod(pod, image)).collect();
    let proof = of_pods.iter().position(|knowledge| {
        let proved = |shown: &Shown| matches!(shown, Shown::Proved { .. });
        matches!(knowledge, Knowledge::OfPod { shown, .. } if proved(shown))
    });
    match &node.why_not {
        _ if !of_pods.is_empty() => of_pods.swap_remove(proof.unwrap_or_default()),
        Some(why) => Knowledge::Skipped(why.clone()),
        None if node.images.iter().flatten().any(|name| is_it(name)) => {
            Knowledge::Claimed { listed }
        }
        None => Knowledge::Nothing { listed },
    }
}

fn of_pod(pod: &WarmerPod, image: &WarmerImage) -> Knowledge {
    let shown = match judge(pod, image, false) {
        Verdict::Pulled => Shown::Proved {
            since: match image.container.state {
                ContainerState::Running { started_at } => started_at,
                _ => None,
            },
        },
        Verdict::Refused { why, .. } => Shown::Failed(why),
        Verdict::HasRun(how) => Shown::Failed(has_run(&how).into()),
        Verdict::Unclear | Verdict::Pending => Shown::Pulling,
    };
    Knowledge::OfPod {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        shown,
    }
}

/// Returns the image in full, so that two spellings are equal.
fn whole(image: &str) -> Box<str> {
    ImageReference::parse(image).map_or_else(|_| image.into(), |image| image.normalized().into())
}
