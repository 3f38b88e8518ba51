//! What is known of images on nodes when somebody asks, and how it was proved.
//!
//! A warmer pod that is there proves most: while its container exists, the kubelet does not remove
//! the image. An Event of a kubelet proves that the image was there at that time. What a node lists
//! is its own claim, of at most so many images as its kubelet is told to list
//! (`--node-status-max-images`, 50 by default): it is told as a claim, and that an image is not
//! listed proves nothing.

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
    /// Its name.
    pub name: Box<str>,
    /// Why images cannot be warmed there; `None` where they can.
    pub why_not: Option<String>,
    /// The names of each image in `status.images`.
    pub images: Vec<Vec<Box<str>>>,
}

/// What a kubelet has said of a pull in an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The node of the kubelet.
    pub node: Box<str>,
    /// The name of the pod.
    pub pod: Box<str>,
    /// The uid of the pod.
    pub uid: Box<str>,
    /// When it was said the last time.
    pub at: Option<Timestamp>,
    /// What was said.
    pub pulled: Pulled,
}

/// What is known of one image on one node, the strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// A container of a warmer pod proves it, and keeps the image there.
    Proved {
        /// The pod.
        pod: Box<str>,
        /// Since when the container runs, where it does.
        since: Option<Timestamp>,
    },
    /// A warmer pod waits for the image, and a pull has failed.
    Failed {
        /// The pod.
        pod: Box<str>,
        /// The node's words.
        why: Box<str>,
    },
    /// A kubelet has said it of a pod.
    Announced(Announced),
    /// A warmer pod waits for the image.
    Pulling {
        /// The pod.
        pod: Box<str>,
    },
    /// Only the node itself lists it.
    Claimed {
        /// How many images it lists.
        listed: usize,
    },
    /// The node keeps no images for later pods.
    Skipped(String),
    /// Nothing; the node does not list it either.
    Nothing {
        /// How many images the node lists.
        listed: usize,
    },
}

/// One image on one node; no image where nothing was asked for and nothing is known of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The node.
    pub node: Box<str>,
    /// The image, as it was asked for or, where nothing was, as the pod has it.
    pub image: Option<Box<str>>,
    /// What is known.
    pub knowledge: Knowledge,
}

/// What is known of these images on each of these nodes; without images, of all that warmer pods
/// have had.
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

/// What pods and Events say.
struct Facts<'a> {
    pulls: Vec<(&'a WarmerPod, &'a WarmerImage, Verdict)>,
    events: Vec<&'a Announced>,
}

impl<'a> Facts<'a> {
    fn of(pods: &'a [WarmerPod], events: &'a [Announced]) -> Self {
        let is_announced = |pod: &WarmerPod, image: &WarmerImage| {
            events
                .iter()
                .any(|event| event.uid == pod.uid && event.pulled.image == image.image)
        };
        // What leaves keeps no image.
        let stays = |pod: &&WarmerPod| {
            !pod.deleting && !matches!(pod.phase, Phase::Succeeded | Phase::Failed)
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

    /// The images that warmer pods have or have had; those of other pods are told only to who asks
    /// for them.
    fn warmed(&self) -> Vec<Box<str>> {
        let of_pods = self.pulls.iter().map(|(_, image, _)| &image.wanted);
        let of_events = self
            .events
            .iter()
            .filter(|event| event.pod.starts_with(NAME_PREFIX))
            .map(|event| &event.pulled.image);
        let mut names = BTreeSet::new();
        of_pods
            .chain(of_events)
            .filter(|image| names.insert(whole(image)))
            .cloned()
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
    /// A pull that fails now says more than an Event of a pull before: the image is gone again.
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
    let name = pod.name.clone();
    match verdict {
        Verdict::Pulled => Knowledge::Proved {
            pod: name,
            since: started_at(&image.container.state),
        },
        Verdict::Refused { why, .. } | Verdict::NotMounted(why) => Knowledge::Failed {
            pod: name,
            why: why.clone(),
        },
        Verdict::HasRun(how) => Knowledge::Failed {
            pod: name,
            why: has_run(how).into(),
        },
        Verdict::Unclear | Verdict::Pending => Knowledge::Pulling { pod: name },
    }
}

const fn started_at(state: &ContainerState) -> Option<Timestamp> {
    match state {
        ContainerState::Running { started_at } => *started_at,
        _ => None,
    }
}

/// In full, so that two spellings of an image are one.
fn whole(image: &str) -> Box<str> {
    ImageReference::parse(image).map_or_else(|_| image.into(), |image| image.normalized().into())
}
