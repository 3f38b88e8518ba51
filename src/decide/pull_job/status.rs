//! The status of a job, counted from what is known of its nodes. It is bounded, however many nodes there are.

use serde::Serialize;

use super::message::message;
use crate::decide::warm::pulled::Pulled;
use crate::decide::warm::{End, ImageProgress, Warming};
use crate::objects::pull_job::{FailedImage, Failure, ImageCounts, JobKind, ListStatus, PullSpec, PullStatus, Pulls};

/// Names of nodes that are listed: enough for a page, and no danger for the size of the object.
const FAILED_NODES: usize = 100;
/// Failures that are told with their reason.
const FAILURES: usize = 10;
/// Images whose failure is told with its reason.
const FAILED_IMAGES: usize = 50;

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It goes on.
    Running,
    /// Everything is final.
    Completed,
    /// Everything is final, because it has taken too long.
    DeadlineExceeded,
}

/// The status of either kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Status {
    /// Of an `ImagePullJob`.
    Pull(PullStatus),
    /// Of an `ImageListPullJob`.
    List(ListStatus),
}

/// What the status of a job is to say.
#[must_use]
pub fn status(kind: JobKind, spec: &PullSpec, warming: &Warming, stage: Stage) -> Status {
    match kind {
        JobKind::ImagePullJob => Status::Pull(of_image(spec, warming, stage)),
        JobKind::ImageListPullJob => Status::List(of_list(spec, warming, stage)),
    }
}

/// What the status of a job says whose spec cannot be used.
#[must_use]
pub fn unusable(kind: JobKind, problem: &str) -> Status {
    let message = format!("nothing is pulled, for the spec cannot be used: {problem}");
    match kind {
        JobKind::ImagePullJob => Status::Pull(PullStatus { message, ..PullStatus::default() }),
        JobKind::ImageListPullJob => Status::List(ListStatus { message, ..ListStatus::default() }),
    }
}

/// One image on the nodes.
#[derive(Default)]
struct Count<'a> {
    desired: usize,
    active: usize,
    succeeded: usize,
    failures: Vec<(&'a str, &'a str)>,
    pulls: Option<Pulls>,
}

impl<'a> Count<'a> {
    /// Where no node can be warmed, all that are skipped have failed: such a job must not look like one that has succeeded.
    fn of(image: &str, warming: &'a Warming) -> Self {
        let mut count = Self::default();
        for (node, images) in warming.progress() {
            if let Some(progress) = images.iter().find(|progress| *progress.image == *image) {
                count.add(node, progress, warming.is_active(node));
            }
        }
        if count.desired == 0 {
            count.failures = warming.skipped().iter().map(|(node, why)| (&**node, &**why)).collect();
            count.desired = count.failures.len();
        }
        count
    }

    fn add(&mut self, node: &'a str, progress: &'a ImageProgress, is_active: bool) {
        self.desired += 1;
        if let Some(pulled) = &progress.pulled {
            add_pull(&mut self.pulls, node, pulled);
        }
        match &progress.end {
            Some(End::Succeeded) => self.succeeded += 1,
            Some(End::Failed(why)) => self.failures.push((node, why)),
            None => self.active += usize::from(is_active),
        }
    }

    fn done(&self) -> usize {
        self.succeeded + self.failures.len()
    }
}

/// One pull more, unless the kubelet has said that the image was there.
fn add_pull(pulls: &mut Option<Pulls>, node: &str, pulled: &Pulled) {
    let Some(took) = pulled.took else { return };
    let sum = pulls.get_or_insert_with(|| Pulls { nodes: 0, bytes: None, slowest: took, slowest_node: node.into() });
    sum.nodes += 1;
    sum.bytes = sum.bytes.max(pulled.bytes);
    if took > sum.slowest {
        (sum.slowest, sum.slowest_node) = (took, node.into());
    }
}

fn of_image(spec: &PullSpec, warming: &Warming, stage: Stage) -> PullStatus {
    let count = spec.images.first().map(|image| Count::of(image, warming)).unwrap_or_default();
    let failure = |(node, why): &(&str, &str)| Failure { node: (*node).into(), message: (*why).into() };
    PullStatus {
        desired: count.desired,
        active: count.active,
        succeeded: count.succeeded,
        failed: count.failures.len(),
        skipped: warming.skipped().len(),
        message: message(stage, count.done(), count.desired, spec, warming),
        failed_nodes: count.failures.iter().take(FAILED_NODES).map(|(node, _)| (*node).into()).collect(),
        failures: count.failures.iter().take(FAILURES).map(failure).collect(),
        pulls: count.pulls,
    }
}

fn of_list(spec: &PullSpec, warming: &Warming, stage: Stage) -> ListStatus {
    let counts: Vec<_> = spec.images.iter().map(|image| (image, Count::of(image, warming))).collect();
    let is_over = |count: &Count| count.done() == count.desired && (count.desired > 0 || stage != Stage::Running);
    let having = |holds: &dyn Fn(&Count) -> bool| counts.iter().filter(|(_, count)| holds(count)).count();
    let completed = having(&is_over);
    ListStatus {
        desired: counts.len(),
        active: having(&|count| count.active > 0),
        completed,
        // With no node at all nothing was pulled, which is no success.
        succeeded: having(&|count| count.desired > 0 && count.succeeded == count.desired),
        skipped: warming.skipped().len(),
        message: message(stage, completed, counts.len(), spec, warming),
        failed_image_statuses: counts.iter().filter_map(|(image, count)| failed(image, count)).take(FAILED_IMAGES).collect(),
        image_statuses: counts.iter().map(|(image, count)| counts_of(image, count)).collect(),
    }
}

fn failed(image: &str, count: &Count) -> Option<FailedImage> {
    let (node, why) = count.failures.first()?;
    Some(FailedImage {
        name: image.into(),
        message: format!("{} of {} node(s) failed: {node}: {why}", count.failures.len(), count.desired),
    })
}

fn counts_of(image: &str, count: &Count) -> ImageCounts {
    ImageCounts {
        name: image.into(),
        desired: count.desired,
        succeeded: count.succeeded,
        failed: count.failures.len(),
        pulls: count.pulls.clone(),
    }
}
