//! The rights that pull jobs need, each by the effect of its absence.

use swaplet_core::warm::pull_job::object::JobKind;
use swaplet_core::warm::warming::{Action, Answer};

use crate::frame::serve::Health;
use crate::frame::writer::{Outcome, is_missing_right};
use crate::warm::jobs::caches::CacheNews;
use crate::warm::jobs::messages::{Happened, PullAnswer, PullWrite};

/// The effect of a missing right to watch Events.
pub(crate) const SEE_PULLS: &str =
    "pull times and image sizes are not reported, because Events cannot be watched";
const SEE_NODES: &str = "no image is pulled for jobs, because nodes cannot be watched";
const SEE_PODS: &str = "no image is pulled for jobs, because warmer pods cannot be watched";
const SEE_IMAGE_WAITS: &str =
    "jobs pull images also while pods wait for theirs, because pods cannot be watched";
const SEE_SELECTED: &str =
    "no image is pulled for jobs with a podSelector, because pods cannot be watched";
const SEE_CACHES: &str =
    "no ImageCache is created for virtual nodes, because ImageCaches cannot be watched";
const MAKE_CACHES: &str = "ImageCaches for virtual nodes cannot be created";
const UNTAINT: &str = "nodes keep the taint swaplet.io/warming";
const RELEASE: &str =
    "jobs that are being deleted stay, because OpenKruise's finalizer cannot be removed from them";
const DELETE_PODS: &str = "warmer pods cannot be deleted";

const fn see_jobs(kind: JobKind) -> &'static str {
    match kind {
        JobKind::ImagePullJob => {
            "no image is pulled for ImagePullJobs, because they cannot be watched"
        }
        JobKind::ImageListPullJob => {
            "no image is pulled for ImageListPullJobs, because they cannot be watched"
        }
    }
}

const fn report(kind: JobKind) -> &'static str {
    match kind {
        JobKind::ImagePullJob => "the status of ImagePullJobs cannot be written",
        JobKind::ImageListPullJob => "the status of ImageListPullJobs cannot be written",
    }
}

const fn delete(kind: JobKind) -> &'static str {
    match kind {
        JobKind::ImagePullJob => "ImagePullJobs cannot be deleted when they expire",
        JobKind::ImageListPullJob => "ImageListPullJobs cannot be deleted when they expire",
    }
}

const fn warm(action: &Action) -> &'static str {
    match action {
        Action::Create { .. } => "warmer pods cannot be created",
        Action::Swap { .. } => "images of warmer pods cannot be changed",
        Action::Delete { .. } => DELETE_PODS,
    }
}

/// Records rights that are missing, or no longer missing.
pub(crate) fn note_rights(health: &Health, happened: &Happened) {
    match happened {
        Happened::Job(kind, event) => health.note_watch(see_jobs(*kind), "", event),
        Happened::Node(event) => health.note_watch(SEE_NODES, "", event),
        Happened::Pod(event) => health.note_watch(SEE_PODS, "", event),
        Happened::ImageWait(event) => health.note_watch(SEE_IMAGE_WAITS, "", event),
        Happened::Selected((_, namespace, ..), event) => {
            health.note_watch(SEE_SELECTED, namespace, event)
        }
        Happened::ImageCaches(CacheNews::Event(event)) => health.note_watch(SEE_CACHES, "", event),
        // If there are no image caches, no right is missing.
        Happened::ImageCaches(CacheNews::Served(served)) => {
            if !served {
                health.has_in(SEE_CACHES, "")
            }
        }
        Happened::Written(written) => note_write(health, written),
        Happened::Pulled(..) | Happened::Own(_) | Happened::Derived(_) | Happened::Resolved(..) => {
        }
    }
}

fn note_write(health: &Health, (write, answer): &(PullWrite, PullAnswer)) {
    let (what, namespace) = match write {
        PullWrite::Warm {
            warmers, action, ..
        } => (warm(action), &*warmers.namespace),
        PullWrite::Report { job, .. } => (report(job.kind), &*job.namespace),
        PullWrite::Release(job) => (RELEASE, &*job.namespace),
        PullWrite::DeleteJob(job) => (delete(job.kind), &*job.namespace),
        PullWrite::DeletePod(pod) => (DELETE_PODS, &*pod.namespace),
        PullWrite::Untaint(_) => (UNTAINT, ""),
        PullWrite::CreateCache(_) => (MAKE_CACHES, ""),
    };
    match answer {
        PullAnswer::Warm(Answer::Pod(_) | Answer::Done)
        | PullAnswer::Reported(Ok(_))
        | PullAnswer::Deleted(Ok(())) => {
            health.has_in(what, namespace);
        }
        PullAnswer::Cache(outcome) => health.note_write(what, namespace, outcome),
        // The node's refusal has been logged already.
        PullAnswer::Warm(Answer::Denied(words)) if what == UNTAINT => {
            // A policy or a webhook that denies one node says nothing of the others.
            if is_missing_right(words) {
                health.lacks(what, words);
            }
        }
        PullAnswer::Warm(Answer::Denied(words))
        | PullAnswer::Reported(Err(Outcome::Denied(words)))
        | PullAnswer::Deleted(Err(Outcome::Denied(words))) => {
            health.note_denial(what, namespace, words)
        }
        PullAnswer::Warm(_) | PullAnswer::Reported(Err(_)) | PullAnswer::Deleted(Err(_)) => {}
    }
}
