//! The rights that pull jobs need.

use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pull_job::object::JobKind;
use swaplet_core::warm::warming::Action;

use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::writer::is_missing_right;
use crate::warm::jobs::caches::CacheNews;
use crate::warm::jobs::{Happened, PullAnswer, PullWrite};

const fn watch(kind: JobKind) -> Right {
    match kind {
        JobKind::ImagePullJob => Right::WatchPullJobs,
        JobKind::ImageListPullJob => Right::WatchListPullJobs,
    }
}

const fn report(kind: JobKind) -> Right {
    match kind {
        JobKind::ImagePullJob => Right::ReportPullJobs,
        JobKind::ImageListPullJob => Right::ReportListPullJobs,
    }
}

const fn delete(kind: JobKind) -> Right {
    match kind {
        JobKind::ImagePullJob => Right::DeletePullJobs,
        JobKind::ImageListPullJob => Right::DeleteListPullJobs,
    }
}

const fn warm(action: &Action) -> Right {
    match action {
        Action::Create { .. } => Right::CreateWarmerPods,
        Action::Swap { .. } => Right::ChangeWarmerPods,
        Action::Delete { .. } => Right::DeleteWarmerPods,
    }
}

/// Records rights that are missing, or no longer missing.
pub(crate) fn note_rights(health: &Health, happened: &Happened) {
    match happened {
        Happened::Job(kind, event) => health.note_watch(watch(*kind), "", event),
        Happened::Node(event) => health.note_watch(Right::WatchNodesOfJobs, "", event),
        Happened::Pod(event) => health.note_watch(Right::WatchWarmerPods, "", event),
        Happened::ImageWait(event) => health.note_watch(Right::WatchImageWaits, "", event),
        Happened::Selected((_, namespace, ..), event) => {
            health.note_watch(Right::WatchSelectedPods, namespace, event)
        }
        Happened::ImageCaches(CacheNews::Event(event)) => {
            health.note_watch(Right::WatchImageCaches, "", event)
        }
        // If there are no image caches, no right is missing.
        Happened::ImageCaches(CacheNews::Served(served)) => {
            if !served {
                health.has_in(Right::WatchImageCaches, "")
            }
        }
        Happened::Written(written) => note_write(health, written),
        Happened::Pulled(..) | Happened::Own(_) | Happened::Derived(_) => {}
    }
}

fn note_write(health: &Health, (write, answer): &(PullWrite, PullAnswer)) {
    let (right, namespace) = match write {
        PullWrite::Warm {
            warmers, action, ..
        } => (warm(action), &*warmers.namespace),
        PullWrite::Report { job, .. } => (report(job.kind), &*job.namespace),
        PullWrite::Release(job) => (Right::ReleasePullJobs, &*job.namespace),
        PullWrite::DeleteJob(job) => (delete(job.kind), &*job.namespace),
        PullWrite::DeletePod(pod) => (Right::DeleteWarmerPods, &*pod.namespace),
        PullWrite::Untaint(_) => (Right::RemoveStartupTaint, ""),
        PullWrite::CreateCache(_) => (Right::CreateImageCaches, ""),
    };
    match answer {
        // The node's refusal has been logged already.
        Err(WriteError::Denied(words)) if right == Right::RemoveStartupTaint => {
            // A policy or a webhook that denies one node says nothing of the others.
            if is_missing_right(words) {
                health.lacks(right, words);
            }
        }
        answer => health.note_write(right, namespace, answer),
    }
}
