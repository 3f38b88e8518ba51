//! What is known about images on nodes, and how it was proved, for read-only queries.
//!
//! An existing warmer pod proves most: while its container exists, the kubelet does not remove the
//! image. An Event of a kubelet proves that the image was there at that time. The images that a
//! node lists are its own claim, at most as many as `--node-status-max-images` of its kubelet
//! allows (50 by default). They are reported as a claim, and an image that is not listed proves
//! nothing.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::warming::evidence::{Verdict, has_run, judge};
use super::warming::pulled::Pulled;
use crate::image::ImageReference;
use crate::objects::pod::{ContainerState, Phase};
use crate::warm::pod::{NAME_PREFIX, WarmerImage, WarmerPod};

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

/// A pull that a kubelet has reported in an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The node of the kubelet.
    pub node: Box<str>,
    /// The namespace of the Event, and of the pod.
    pub namespace: Box<str>,
    /// The name of the pod.
    pub pod: Box<str>,
    /// The uid of the pod.
    pub uid: Box<str>,
    /// When the Event was last observed.
    pub at: Option<Timestamp>,
    /// The pull, as the Event reports it.
    pub pulled: Pulled,
}

/// The knowledge about one image on one node, the strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// A container of a warmer pod proves the image, and keeps it there.
    Proved {
        /// The namespace of the pod.
        namespace: Box<str>,
        /// The name of the pod.
        pod: Box<str>,
        /// Since when the container runs; `None` if it does not run.
        since: Option<Timestamp>,
    },
    /// A warmer pod waits for the image, and a pull has failed.
    Failed {
        /// The namespace of the pod.
        namespace: Box<str>,
        /// The name of the pod.
        pod: Box<str>,
        /// The reason, in the node's words.
        why: Box<str>,
    },
    /// A kubelet has reported a pull for some pod.
    Announced(Announced),
    /// A warmer pod waits for the image.
    Pulling {
        /// The namespace of the pod.
        namespace: Box<str>,
        /// The name of the pod.
        pod: Box<str>,
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

/// One image on one node; no image if none was requested and nothing is known about the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name of the node.
    pub node: Box<str>,
    /// The image as it was requested, or else as the pod or the Event spells it.
    pub image: Option<Box<str>>,
    /// The knowledge about the image.
    pub knowledge: Knowledge,
}

/// Returns what is known about these images on each of these nodes; without images, about all that
/// warmer pods have pulled.
#[must_use]
pub fn known(
    images: &[Box<str>],
    nodes: &[ListedNode],
    pods: &[WarmerPod],
    events: &[Announced],
) -> Vec<Known> {
    let all = Facts::of(pods, events);
    let mut known = Vec::new();
    for node in nodes {
        let facts = all.on(&node.name);
        let asked = if images.is_empty() {
            facts.warmed()
        } else {
            images.to_vec()
        };
        if asked.is_empty() {
            known.push(Known {
                node: node.name.clone(),
                image: None,
                knowledge: node.without_facts(None),
            });
        }
        for image in asked {
            let name = whole(&image);
            let knowledge = facts
                .knowledge(&name)
                .unwrap_or_else(|| node.without_facts(Some(&name)));
            known.push(Known {
                node: node.name.clone(),
                image: Some(image),
                knowledge,
            });
        }
    }
    known
}

impl ListedNode {
    fn without_facts(&self, image: Option<&str>) -> Knowledge {
        let listed = self.images.len();
        match &self.why_not {
            Some(why) => Knowledge::Skipped(why.clone()),
            None if self
                .images
                .iter()
                .flatten()
                .any(|name| image == Some(&*whole(name))) =>
            {
                Knowledge::Claimed { listed }
            }
            None => Knowledge::Nothing { listed },
        }
    }
}

/// The facts that pods and Events prove.
struct Facts<'a> {
    pulls: Vec<(&'a WarmerPod, &'a WarmerImage, Verdict)>,
    events: Vec<&'a Announced>,
}

impl<'a> Facts<'a> {
    fn of(pods: &'a [WarmerPod], events: &'a [Announced]) -> Self {
        let is_announced = |pod: &WarmerPod, image: &WarmerImage| {
            // In other namespaces others may write Events with its uid.
            events.iter().any(|event| {
                event.uid == pod.uid
                    && event.namespace == pod.namespace
                    && *event.pulled.image == *image.image
            })
        };
        // A pod that is going away keeps no image. One on another node, as anyone can create who may
        // create pods, proves nothing of the node that it names.
        let stays = |pod: &&WarmerPod| {
            !pod.deleting
                && !pod.is_elsewhere
                && !matches!(pod.phase, Phase::Succeeded | Phase::Failed)
        };
        let pulls = pods
            .iter()
            .filter(stays)
            .flat_map(|pod| pod.images.iter().map(move |image| (pod, image)));
        let pulls =
            pulls.map(|(pod, image)| (pod, image, judge(pod, image, is_announced(pod, image))));
        Self {
            pulls: pulls.collect(),
            events: events.iter().collect(),
        }
    }

    fn on(&self, node: &str) -> Self {
        let pulls = self
            .pulls
            .iter()
            .filter(|(pod, ..)| *pod.node == *node)
            .cloned()
            .collect();
        Self {
            pulls,
            events: self
                .events
                .iter()
                .filter(|event| *event.node == *node)
                .copied()
                .collect(),
        }
    }

    /// Returns the images that warmer pods have pulled or are pulling. Images of other pods are
    /// reported only on request.
    fn warmed(&self) -> Vec<Box<str>> {
        let of_pods = self.pulls.iter().map(|(_, image, _)| &*image.wanted);
        let of_events = self
            .events
            .iter()
            .filter(|event| event.pod.starts_with(NAME_PREFIX))
            .map(|event| &*event.pulled.image);
        let mut names = BTreeSet::new();
        of_pods
            .chain(of_events)
            .filter(|image| names.insert(whole(image)))
            .map(Box::from)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    fn knowledge(&self, image: &str) -> Option<Knowledge> {
        let of_pods = self
            .pulls
            .iter()
            .filter(|(_, pulled, _)| *whole(&pulled.wanted) == *image);
        let of_pods = of_pods.map(|(pod, image, verdict)| of_pod(pod, image, verdict));
        let of_events = self
            .events
            .iter()
            .filter(|event| *whole(&event.pulled.image) == *image);
        let latest = of_events
            .max_by_key(|event| event.at)
            .map(|event| Knowledge::Announced((*event).clone()));
        of_pods.chain(latest).min_by_key(Knowledge::rank)
    }
}

impl Knowledge {
    /// Orders knowledge. A failing pull outranks an earlier Event, because the image is gone again.
    const fn rank(&self) -> u8 {
        match self {
            Self::Proved { .. } => 0,
            Self::Failed { .. } => 1,
            Self::Announced(_) => 2,
            Self::Pulling { .. } => 3,
            Self::Claimed { .. } => 4,
            Self::Skipped(_) => 5,
            Self::Nothing { .. } => 6,
        }
    }
}

fn of_pod(pod: &WarmerPod, image: &WarmerImage, verdict: &Verdict) -> Knowledge {
    let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
    match verdict {
        Verdict::Pulled => Knowledge::Proved {
            namespace,
            pod: name,
            since: started_at(&image.container.state),
        },
        Verdict::Refused { why, .. } | Verdict::NotMounted(why) => Knowledge::Failed {
            namespace,
            pod: name,
            why: why.clone(),
        },
        Verdict::HasRun(how) => Knowledge::Failed {
            namespace,
            pod: name,
            why: has_run(how).into(),
        },
        Verdict::Unclear | Verdict::Pending => Knowledge::Pulling {
            namespace,
            pod: name,
        },
    }
}

const fn started_at(state: &ContainerState) -> Option<Timestamp> {
    match state {
        ContainerState::Running { started_at } => *started_at,
        _ => None,
    }
}

/// Returns the image in full, so that two spellings are equal.
fn whole(image: &str) -> Box<str> {
    ImageReference::parse(image).map_or_else(|_| image.into(), |image| image.normalized().into())
}
