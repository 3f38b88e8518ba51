//! The messages of the loop: events that it handles, and writes that it requests.

use std::sync::Arc;

use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::image_cache::object::{IMAGE_CACHES, NewImageCache};
use swaplet_core::warm::image_waits::ImageWaitWire;
use swaplet_core::warm::pod::{WarmerPod, WarmerPodWire};
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use swaplet_core::warm::startup_taint::Untaint;
use swaplet_core::warm::warming::pulled::Pulled;
use swaplet_core::warm::warming::{Action, Answer};

use super::caches::CacheNews;
use crate::frame::watch::Event;
use crate::warm::derived::Derived;
use crate::warm::predownload::own::OwnJobs;
use crate::warm::write::Warmers;
use crate::warm::write::pull_job::Report;

/// The key of a job: its kind, namespace and name.
pub type Key = (JobKind, Box<str>, Box<str>);

/// A query for the pods that a job's `podSelector` matches: the uid of the job, its namespace, the
/// selector, and a number, so that two collections are two queries although their selectors may be
/// the same: the generation since which the pods are collected, or a larger one.
pub type PodQuery = (Box<str>, Box<str>, String, i64);

/// A write that the loop requests.
#[derive(Clone, Debug)]
pub enum PullWrite {
    /// A write of a warmer pod.
    Warm {
        /// The key of the job.
        key: Key,
        /// The settings that the job's pods share.
        warmers: Arc<Warmers>,
        /// The name of the node.
        node: Box<str>,
        /// The write to make.
        action: Action,
    },
    /// A write of the status of a job.
    Report {
        /// The job, as it was when this was decided.
        job: Box<PullJob>,
        /// The content of the status.
        report: Box<Report>,
    },
    /// The deletion of a job whose time to live is over.
    DeleteJob(Box<PullJob>),
    /// The removal of OpenKruise's finalizer from a job that is being deleted.
    Release(Box<PullJob>),
    /// The deletion of a pod that no job needs.
    DeletePod(Box<WarmerPod>),
    /// The creation of an image cache.
    CreateCache(Box<NewImageCache>),
    /// The removal of the startup taint from a node.
    Untaint(Box<Untaint>),
}

/// The result of a write.
#[derive(Clone, Debug)]
pub enum PullAnswer {
    /// The result of a write of a warmer pod.
    Warm(Answer),
    /// The result of a status write: the job as it is stored.
    Reported(Result<Option<Box<PullJob>>, WriteError>),
    /// The result of any other write.
    Done(Result<(), WriteError>),
}

/// An event that the loop handles.
#[derive(Debug)]
pub enum Happened {
    /// A watch event of jobs of one kind.
    Job(JobKind, Event<BoundedObject>),
    /// A watch event of nodes.
    Node(Event<NodeWire>),
    /// A watch event of warmer pods.
    Pod(Event<WarmerPodWire>),
    /// A watch event of pods that may wait for their images.
    ImageWait(Event<ImageWaitWire>),
    /// A watch event of the pods by which a job selects nodes.
    Selected(PodQuery, Event<PodWire>),
    /// A kubelet's report of a pull: the namespace of the Event, the uid of the pod, and the pull.
    Pulled(String, Box<str>, Pulled),
    /// The exit images that have been derived so far.
    Derived(Derived),
    /// The pre-downloads that are to be done without an object.
    Own(OwnJobs),
    /// An event about the provider's image caches.
    ImageCaches(CacheNews),
    /// The result of a write.
    Written(Box<(PullWrite, PullAnswer)>),
}

impl Happened {
    /// Returns the plural of the resource that cannot be watched, if the event reports that.
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
            Self::Pulled(..) | Self::Own(_) | Self::Derived(_) | Self::Written(_) => None,
        }
    }
}

/// Returns the key of a job.
pub(super) fn key_of(job: &PullJob) -> Key {
    (job.kind, job.namespace.clone(), job.name.clone())
}
