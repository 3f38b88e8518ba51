//! The exit images, kept on every node that keeps images. They are a job of type `Never` without an
//! object. So it needs no CRD, nobody can delete or edit it by mistake, and there is no status to
//! write. The log and `swaplet warm status` report on it.

use std::time::Duration;

use jiff::Timestamp;
use kube::core::Selector;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::amount::Amount;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::warm::pull_job::object::{
    Completion, JobKind, PodWishes, PullJob, PullSpec, Targets,
};
use swaplet_core::warm::warming::End;

use super::Entry;
use crate::frame::connection::Namespaces;
use crate::warm::jobs::{Nodes, WarmSettings};

/// The name in the log. No object can have a name with a space.
const NAME: &str = "exit images";
/// The percentage of nodes that pull at a time. The images are tiny, and nobody waits for the first
/// pod on a new node.
const PERCENT: usize = 10;
/// The back-off limit, which is the default of pull jobs.
const BACKOFF_LIMIT: u32 = 3;
/// The timeout of one try of an image, in seconds.
const TIMEOUT_SECONDS: u32 = 300;
/// The wait before failed nodes are tried again: there is no user who could create the job again
/// when the registry works.
const AGAIN: Duration = Duration::from_secs(1800);

/// Returns the label [`JOB`](swaplet_core::warm::pod::JOB) of its pods: the same after a restart,
/// but different for each installation.
pub(in crate::warm::jobs) fn uid(settings: &WarmSettings, namespaces: &Namespaces) -> Box<str> {
    format!(
        "exit-images-{}",
        short_digest(format!("{} {namespaces}", settings.namespace), 5)
    )
    .into()
}

/// Returns the job with these derived images; `None` if exit images are not to be kept.
pub(in crate::warm::jobs) fn job(
    settings: &WarmSettings,
    uid: &str,
    derived: &Derived,
) -> Option<PullJob> {
    let exit_image = settings.exit_image.clone()?;
    let images: Vec<_> = std::iter::once(exit_image)
        .chain(derived.images().cloned())
        .collect();
    Some(PullJob {
        kind: JobKind::ImageListPullJob,
        namespace: settings.namespace.clone(),
        name: NAME.into(),
        uid: uid.into(),
        version: Box::default(),
        generation: i64::try_from(images.len()).unwrap_or(i64::MAX),
        deleting: false,
        other_finalizers: None,
        ttl_seconds: None,
        spec: Ok(PullSpec {
            images,
            targets: Targets::Labels(Selector::default()),
            parallelism: Amount::Percent(PERCENT),
            timeout_seconds: TIMEOUT_SECONDS,
            backoff_limit: BACKOFF_LIMIT,
            completion: Completion::Never,
            pods: PodWishes::default(),
        }),
        observed_generation: None,
        // It needs no `startTime` in a status before it begins.
        started_at: Some(Timestamp::UNIX_EPOCH),
        completed_at: None,
    })
}

impl Entry {
    /// Creates the entry of a job without an object: no status is written for it.
    pub fn without_object(job: PullJob) -> Self {
        Self {
            has_object: false,
            ..Self::new(job.into())
        }
    }

    /// Returns true if the job is an object of the cluster.
    pub const fn has_object(&self) -> bool {
        self.has_object
    }

    /// Tries failed nodes again after a while, for a job without an object.
    pub(crate) fn try_failed_again(&mut self, nodes: &Nodes, now: Moment) {
        let Some(run) = self.run.as_mut().filter(|_| !self.has_object) else {
            return;
        };
        let has_failed = |end: &Option<End>| matches!(end, Some(End::Failed(_)));
        let progress = run.warming.progress();
        let failed = progress
            .filter(|(_, images)| images.iter().any(|image| has_failed(&image.end)))
            .map(|(node, _)| Box::from(node));
        let failed: Vec<Box<str>> = failed.collect();
        if failed.is_empty() {
            self.again = None;
        } else if now >= *self.again.get_or_insert(now + AGAIN) {
            self.again = None;
            for node in failed {
                run.warming
                    .try_again(&node, nodes.get(&node).is_some_and(|node| node.ready), now);
            }
        }
    }
}

// The exit images that have been derived so far, and are kept on nodes.

/// The most images in all.
const MOST: usize = 50;
/// The most images of a namespace: its pods can request ever new ones.
const MOST_EACH: usize = 10;

/// The derived images, each with the namespace whose pod requested it first.
#[derive(Clone, Debug, Default)]
pub struct Derived(Vec<(Box<str>, Box<str>)>);

impl Derived {
    /// Adds an image. Returns true if it is new, and there is room for it.
    pub fn insert(&mut self, namespace: &str, reference: &str) -> bool {
        let of_namespace = self.0.iter().filter(|(of, _)| **of == *namespace);
        let has_room = self.0.len() < MOST && of_namespace.count() < MOST_EACH;
        let is_new = has_room && self.images().all(|image| **image != *reference);
        if is_new {
            self.0.push((namespace.into(), reference.into()));
        }
        is_new
    }

    pub(crate) fn images(&self) -> impl Iterator<Item = &Box<str>> {
        self.0.iter().map(|(_, image)| image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a9_a_namespace_that_wants_many_leaves_room_to_others() {
        let mut derived = Derived::default();
        let inserted = (0..60).filter(|number| derived.insert("greedy", &format!("a{number:02}")));
        assert_eq!(inserted.count(), MOST_EACH);
        assert!(derived.insert("modest", "z0") && derived.insert("modest", "z1"));
        assert!(!derived.insert("modest", "a00"), "it is there already");
        for number in 0..60 {
            derived.insert(&format!("n{number}"), &format!("b{number}"));
        }
        assert_eq!(derived.images().count(), MOST);
    }
}
