//! What the loop is told, and what it has written.

use std::collections::BTreeSet;
use std::sync::Arc;

use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::image_cache::object::{IMAGE_CACHES, NewImageCache};
use swaplet_core::warm::image_waits::ImageWaitWire;
use swaplet_core::warm::pod::{WarmerPod, WarmerPodWire};
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use swaplet_core::warm::pull_job::pins::Resolved;
use swaplet_core::warm::startup_taint::Untaint;
use swaplet_core::warm::warming::pulled::Pulled;
use swaplet_core::warm::warming::{Action, Answer};

use super::caches::CacheNews;
use crate::frame::watch::Event;
use crate::frame::writer::Outcome;
use crate::warm::predownload::own::OwnJobs;
use crate::warm::write::Warmers;
use crate::warm::write::pull_job::Report;

/// A job: its kind, namespace and name.
pub type Key = (JobKind, Box<str>, Box<str>);

/// The pods that a job's `podSelector` selects: the uid of the job, its namespace and the selector.
pub type PodQuery = (Box<str>, Box<str>, String);

/// For which job registries are asked: where it is, and its uid.
pub type Asked = (Key, Box<str>);

/// One write.
#[derive(Clone, Debug)]
pub enum PullWrite {
    /// For a node of a job.
    Warm {
        /// The job.
        key: Key,
        /// What its pods have in common.
        warmers: Arc<Warmers>,
        /// The node.
        node: Box<str>,
        /// What to do.
        action: Action,
    },
    /// The status of a job.
    Report {
        /// The job, as it was when this was decided.
        job: Box<PullJob>,
        /// What to write.
        report: Box<Report>,
    },
    /// A job whose time is over is deleted.
    DeleteJob(Box<PullJob>),
    /// OpenKruise's finalizer is taken from a job that is being deleted.
    Release(Box<PullJob>),
    /// A pod that no job needs is deleted.
    DeletePod(Box<WarmerPod>),
    /// An image cache is made.
    CreateCache(Box<NewImageCache>),
    /// The startup taint is taken from a node.
    Untaint(Box<Untaint>),
}

/// What became of a write.
#[derive(Clone, Debug)]
pub enum PullAnswer {
    /// Of one for a node, or to it.
    Warm(Answer),
    /// Of a status: the job as it is stored.
    Reported(Result<Option<Box<PullJob>>, Outcome>),
    /// Of an image cache.
    Cache(Outcome),
    /// Of a deletion.
    Deleted(Result<(), Outcome>),
}

/// What has happened.
#[derive(Debug)]
pub enum Happened {
    /// To a job.
    Job(JobKind, Event<BoundedObject>),
    /// To a node.
    Node(Event<NodeWire>),
    /// To a warmer pod.
    Pod(Event<WarmerPodWire>),
    /// To a pod that waits for its images.
    ImageWait(Event<ImageWaitWire>),
    /// To a pod that a job selects nodes by.
    Selected(PodQuery, Event<PodWire>),
    /// A kubelet has told of a pull of the pod with this uid.
    Pulled(Box<str>, Pulled),
    /// These exit images have been derived so far.
    Derived(BTreeSet<Box<str>>),
    /// These pre-downloads are to be done without an object.
    Own(OwnJobs),
    /// Registries have been asked for the images of a job.
    Resolved(Asked, Vec<(Box<str>, Resolved)>),
    /// To an image cache of the provider.
    ImageCaches(CacheNews),
    /// A write has come back.
    Written(Box<(PullWrite, PullAnswer)>),
}

impl Happened {
    /// The resource that cannot be watched, in the plural, if this tells so.
    #[must_use]
    pub fn trouble(&self) -> Option<&'static str> {
        const fn of<K>(event: &Event<K>) -> bool {
            matches!(
                event,
                Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_)
            )
        }
        match self {
            Self::Job(kind, event) => of(event).then_some(kind.plural()),
            Self::Node(event) => of(event).then_some("nodes"),
            Self::Pod(event) => of(event).then_some("pods"),
            Self::ImageWait(event) => of(event).then_some("pods"),
            Self::Selected(_, event) => of(event).then_some("pods"),
            Self::ImageCaches(CacheNews::Event(event)) => of(event).then_some(IMAGE_CACHES),
            Self::ImageCaches(CacheNews::Served(_)) => None,
            Self::Pulled(..)
            | Self::Own(_)
            | Self::Derived(_)
            | Self::Resolved(..)
            | Self::Written(_) => None,
        }
    }
}

/// The job itself.
pub(super) fn key_of(job: &PullJob) -> Key {
    (job.kind, job.namespace.clone(), job.name.clone())
}
