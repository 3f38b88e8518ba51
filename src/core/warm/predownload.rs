//! Pre-download: when the images of a workload's template change, they are pulled to the nodes of
//! the pods that still have the old ones, by one `ImagePullJob` for each image. A job is deleted
//! when no such pod is left. Modelled on OpenKruise's pre-download for in-place updates,
//! which supports only its own workloads.
//!
//! Old pods are recognised by their images, not by revisions. So a paused Deployment counts too,
//! which is the way to have all images on the nodes before the first pod is replaced.

pub mod workload;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::image::alias::{is_same_image, original};
use crate::image::reference::ImageReference;
use crate::objects::pod::brief::PodBrief;
use crate::objects::values::short_digest::short_digest;
use crate::warm::predownload::workload::{Wish, Workload};

/// The most characters of a job's name that come from the workload and the container: Kubernetes
/// allows 253.
const NAME: usize = 240;

/// The most revisions that a selector leaves out, because a URL has to have room for it. A pod of
/// another one is selected although it has the images, which costs nothing where they are.
const MOST_REVISIONS: usize = 16;

/// A pod of the workload, as observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSeen {
    /// The image of each container by its name, including init containers.
    pub images: BTreeMap<Box<str>, Box<str>>,
    /// The value of the workload's revision label.
    pub revision: Option<Box<str>>,
}

impl PodSeen {
    /// Reads a listed pod; `None` if it is being deleted or has ended, for then it is no reason to
    /// pull. `label` is the revision label of the workload.
    pub fn of(mut pod: PodBrief, label: &str) -> Option<Self> {
        let revision = pod.labels.remove(label);
        (!pod.deleting && !pod.is_over).then_some(Self {
            images: pod.images,
            revision,
        })
    }
}

/// A pull job that was created for the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// The name of the job.
    pub name: Box<str>,
    /// The uid of the job.
    pub uid: Box<str>,
    /// True if it is being deleted, which a finalizer may hold up.
    pub deleting: bool,
}

/// A write for a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create a job for this image.
    Create {
        /// The name of the job: always the same for the same image of the same workload, so that it
        /// cannot exist twice.
        name: Box<str>,
        /// The image to pull.
        image: Box<str>,
        /// Selects the pods on whose nodes the image is wanted.
        pods: LabelSelector,
        /// How to pull it.
        wish: Wish,
    },
    /// Delete this job.
    Delete(JobSeen),
}

impl Action {
    /// Returns the name of the job that is to be created.
    pub fn created(&self) -> Option<&str> {
        match self {
            Self::Create { name, .. } => Some(name),
            Self::Delete(_) => None,
        }
    }
}

/// Decides which jobs to delete and to create for a workload with these pods and jobs.
///
/// # Errors
/// An annotation or the selector cannot be read: its name and the fix. Then nothing is written.
pub fn decide(
    workload: &Workload,
    pods: &[PodSeen],
    jobs: &[JobSeen],
) -> Result<Vec<Action>, String> {
    let wish = workload.wish.clone()?;
    let selector = workload.selector.as_ref().map_err(Clone::clone)?;
    let wanted = if wish.is_some() && !workload.is_updated {
        wanted(workload, pods)
    } else {
        BTreeMap::new()
    };
    let is_there = |name: &str| jobs.iter().any(|job| *job.name == *name);
    let superfluous: Vec<_> = jobs
        .iter()
        .filter(|job| !job.deleting && !wanted.contains_key(&job.name))
        .cloned()
        .map(Action::Delete)
        .collect();
    let missing = wanted.into_iter().filter(|(name, _)| !is_there(name));
    let create = |(name, image)| {
        Some(Action::Create {
            name,
            image,
            pods: old_pods(workload, selector, pods),
            wish: wish.clone()?,
        })
    };
    Ok(superfluous
        .into_iter()
        .chain(missing.filter_map(create))
        .collect())
}

/// Returns true if these words are OpenKruise's webhook refusing a job because its gates are off:
/// then nothing of OpenKruise would process it. The whole text has to match, because the message of
/// another webhook may quote what a user has written.
pub fn is_gate_off(words: &str) -> bool {
    let why = words
        .strip_prefix("admission webhook ")
        .and_then(|rest| rest.split_once(" denied the request: "));
    why.is_some_and(|(_, why)| {
        ["KruiseDaemon", "ImagePullJobGate"]
            .iter()
            .any(|gate| why == format!("feature-gate {gate} is not enabled"))
    })
}

/// Returns true if what a pod has is this image. One that is named by its digest alone, as by a
/// webhook, may be that of any tag.
fn is_it(has: &str, image: &str) -> bool {
    let is_untagged = ImageReference::parse(&original(has))
        .is_ok_and(|has| has.tag().is_none() && has.digest().is_some());
    is_same_image(has, image) && (!is_untagged || image.contains('@'))
}

/// Returns the images that at least one pod lacks, by the names of their jobs.
fn wanted(workload: &Workload, pods: &[PodSeen]) -> BTreeMap<Box<str>, Box<str>> {
    let lacks = |pod: &PodSeen, image: &str| !pod.images.values().any(|has| is_it(has, image));
    let mut seen = BTreeSet::new();
    let images = workload
        .images
        .iter()
        .filter(|(_, image)| pods.iter().any(|pod| lacks(pod, image)));
    images
        .filter(|(_, image)| seen.insert(*image))
        .map(|(container, image)| (job_name(workload, container, image), image.clone()))
        .collect()
}

fn job_name(workload: &Workload, container: &str, image: &str) -> Box<str> {
    let short = short_digest(format!("{} {container} {image}", workload.uid), 4);
    let readable: String = format!("{}-{container}", workload.name)
        .chars()
        .take(NAME)
        .collect();
    format!("{readable}-{short}").into()
}

/// Returns the workload's selector, without the revisions of which a pod has all images already.
fn old_pods(workload: &Workload, selector: &LabelSelector, pods: &[PodSeen]) -> LabelSelector {
    let has_all = |pod: &&PodSeen| {
        workload.images.iter().all(|(container, image)| {
            let has = pod.images.get(container);
            has.is_some_and(|has| is_it(has, image))
        })
    };
    let new: BTreeSet<_> = pods
        .iter()
        .filter(has_all)
        .filter_map(|pod| pod.revision.as_deref())
        .collect();
    let mut selector = selector.clone();
    if !new.is_empty() {
        selector
            .match_expressions
            .get_or_insert_default()
            .push(LabelSelectorRequirement {
                key: workload.kind.revision_label().to_owned(),
                operator: "NotIn".to_owned(),
                values: Some(
                    new.into_iter()
                        .take(MOST_REVISIONS)
                        .map(str::to_owned)
                        .collect(),
                ),
            });
    }
    selector
}
