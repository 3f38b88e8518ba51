//! The status of a job, counted from the state of its nodes. Its size is bounded, however many
//! nodes there are.
//!
//! Nodes that are skipped are not in `desired`, as in OpenKruise, which knows no virtual nodes. A
//! job that has no others has failed on all of them, instead of having succeeded with 0 of 0.

use serde::Serialize;

use super::message::message;
use crate::warm::image_cache::{CacheState, Cached};
use crate::warm::pull_job::object::{
    FailedImage, Failure, ImageCounts, JobKind, ListStatus, PullSpec, PullStatus, Pulls,
};
use crate::warm::warming::{End, ImageProgress, Pulled, Warming};

/// The most names of failed nodes that are listed: enough for a page, yet no danger for the size of
/// the object.
const FAILED_NODES: usize = 100;
/// The most failures that are reported with their reason.
const FAILURES: usize = 10;
/// The most failed images that are reported with their reason.
const FAILED_IMAGES: usize = 50;

/// The stage that a job has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The job continues.
    Running,
    /// Each image on each node is final.
    Completed,
    /// Each image on each node is final, because the deadline is over.
    DeadlineExceeded,
    /// The pods by which the job selects nodes could not be listed.
    GaveUp,
}

impl Stage {
    /// Returns the words for it, those of OpenKruise where it has the stage.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Running => "job is running",
            Self::Completed => "job has completed",
            Self::DeadlineExceeded => "job exceeds activeDeadlineSeconds",
            Self::GaveUp => "job has failed",
        }
    }
}

/// The status of a job of either kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Status {
    /// The status of an `ImagePullJob`.
    Pull(PullStatus),
    /// The status of an `ImageListPullJob`.
    List(ListStatus),
}

/// The state of a job that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The spec of the job.
    pub spec: &'a PullSpec,
    /// The progress of the nodes, which has the images of the job in their order.
    pub warming: &'a Warming,
    /// The nodes that use an image cache of their provider, and the state of that cache.
    pub cached: &'a Cached,
    /// True if the pods by which the job selects nodes are not watched yet.
    pub waits_for_watch: bool,
    /// Why these pods are not listed yet, empty if that is not known; `None` if they are, or none
    /// are needed.
    pub waits_for_pods: Option<&'a str>,
    /// True if the job has no nodes yet, because other jobs take as much memory as they may.
    pub waits_for_room: bool,
}

/// Returns the status of a job.
pub fn status(kind: JobKind, known: Known<'_>, stage: Stage) -> Status {
    match kind {
        JobKind::ImagePullJob => Status::Pull(of_image(known, stage)),
        JobKind::ImageListPullJob => Status::List(of_list(known, stage)),
    }
}

/// Returns the status of a job whose spec cannot be used.
pub fn unusable(kind: JobKind, problem: &str) -> Status {
    let message = format!("nothing is pulled, because the spec is invalid: {problem}");
    match kind {
        JobKind::ImagePullJob => Status::Pull(PullStatus {
            message,
            ..PullStatus::default()
        }),
        JobKind::ImageListPullJob => Status::List(ListStatus {
            message,
            ..ListStatus::default()
        }),
    }
}

/// The counts of one image over all nodes.
#[derive(Default)]
struct Count<'a> {
    desired: usize,
    active: usize,
    succeeded: usize,
    failures: Vec<(&'a str, &'a str)>,
    pulls: Option<Pulls>,
}

impl<'a> Count<'a> {
    /// Counts the nodes of the image with this index. If no node can be warmed, all skipped ones
    /// count as failed: such a job must not look like one that has succeeded.
    fn of(index: usize, known: Known<'a>) -> Self {
        let (mut count, warming) = (Self::default(), known.warming);
        for (node, images) in warming.progress() {
            if let Some(progress) = images.get(index) {
                count.add(node, progress, warming.has_pod(node));
            }
        }
        for node in &known.cached.nodes {
            count.add_cached(node, &known.cached.state);
        }
        if count.desired == 0 {
            count.failures = warming
                .skipped()
                .iter()
                .map(|(node, why)| (&**node, &**why))
                .collect();
            count.desired = count.failures.len();
        }
        count
    }

    fn add(&mut self, node: &'a str, progress: &'a ImageProgress, has_pod: bool) {
        self.desired += 1;
        if let Some(pulled) = &progress.pulled {
            add_pull(&mut self.pulls, node, pulled);
        }
        match &progress.end {
            Some(End::Succeeded) => self.succeeded += 1,
            Some(End::Failed(why)) => self.failures.push((node, why)),
            None => self.active += usize::from(has_pod),
        }
    }

    /// Counts a node whose provider has a cache, or will have it.
    fn add_cached(&mut self, node: &'a str, state: &'a CacheState) {
        self.desired += 1;
        match state {
            CacheState::Failed(why) => self.failures.push((node, why)),
            CacheState::Ready => self.succeeded += 1,
            CacheState::Waits(_) => self.active += 1,
        }
    }

    fn done(&self) -> usize {
        self.succeeded + self.failures.len()
    }
}

/// Counts one pull, unless the kubelet reported that the image was there already.
fn add_pull(pulls: &mut Option<Pulls>, node: &str, pulled: &Pulled) {
    let Some(took) = pulled.took else { return };
    let sum = pulls.get_or_insert_with(|| Pulls {
        nodes: 0,
        bytes: None,
        slowest: took,
        slowest_node: node.into(),
    });
    sum.nodes += 1;
    sum.bytes = sum.bytes.max(pulled.bytes);
    if took > sum.slowest {
        (sum.slowest, sum.slowest_node) = (took, node.into());
    }
}

fn of_image(known: Known<'_>, stage: Stage) -> PullStatus {
    let warming = known.warming;
    let count = Count::of(0, known);
    let failure = |(node, why): &(&str, &str)| Failure {
        node: (*node).into(),
        message: (*why).into(),
    };
    PullStatus {
        desired: count.desired,
        active: count.active,
        succeeded: count.succeeded,
        failed: count.failures.len(),
        skipped: warming.skipped().len(),
        message: message(stage, count.done(), count.desired, known),
        failed_nodes: count
            .failures
            .iter()
            .take(FAILED_NODES)
            .map(|(node, _)| (*node).into())
            .collect(),
        failures: count.failures.iter().take(FAILURES).map(failure).collect(),
        pulls: count.pulls,
    }
}

fn of_list(known: Known<'_>, stage: Stage) -> ListStatus {
    let images = known.spec.images.iter().enumerate();
    let counts: Vec<_> = images
        .map(|(index, image)| (image, Count::of(index, known)))
        .collect();
    let is_over = |count: &Count| {
        count.done() == count.desired && (count.desired > 0 || stage != Stage::Running)
    };
    let having =
        |holds: &dyn Fn(&Count) -> bool| counts.iter().filter(|(_, count)| holds(count)).count();
    let completed = having(&is_over);
    ListStatus {
        desired: counts.len(),
        active: having(&|count| count.active > 0),
        completed,
        // With no node at all nothing was pulled, which is no success.
        succeeded: having(&|count| count.desired > 0 && count.succeeded == count.desired),
        skipped: known.warming.skipped().len(),
        message: message(stage, completed, counts.len(), known),
        failed_image_statuses: counts
            .iter()
            .filter_map(|(image, count)| failed(image, count))
            .take(FAILED_IMAGES)
            .collect(),
        image_statuses: counts
            .iter()
            .map(|(image, count)| ImageCounts {
                name: (*image).clone(),
                desired: count.desired,
                succeeded: count.succeeded,
                failed: count.failures.len(),
                pulls: count.pulls.clone(),
            })
            .collect(),
    }
}

fn failed(image: &str, count: &Count) -> Option<FailedImage> {
    let (node, why) = count.failures.first()?;
    Some(FailedImage {
        name: image.into(),
        message: format!(
            "{} of {} node(s) failed: {node}: {why}",
            count.failures.len(),
            count.desired
        ),
    })
}
