//! Feeds the events of a list or a watch of Jobs to the ledger of restarts.

use kube::Resource as _;
use swaplet_core::cluster::headroom::Ledger;
use swaplet_core::objects::job::JobWire;

use crate::frame::isolated::read;
use crate::frame::watch::Event;

/// Updates the ledger with an event about a Job.
pub(crate) fn take_notice(headroom: &mut Ledger, event: Event<JobWire>) {
    match event {
        Event::ListStart => headroom.job_list_starts(),
        Event::Listed(job) | Event::Applied(job) => {
            let meta = job.meta().clone();
            match read("Job", || job.read()) {
                Some(job) => headroom.job(&job),
                None => {
                    tracing::warn!(
                        job = meta.name,
                        "a Job has no uid or no usable spec.backoffLimit; its pods may have to wait"
                    );
                    headroom.job_gone(meta.uid.as_deref().unwrap_or_default());
                }
            }
        }
        Event::ListEnd => headroom.job_list_ends(),
        Event::Current(_) => headroom.jobs_watched(),
        // The limit of a Job hardly ever changes.
        Event::Relists(_) => {}
        Event::Deleted(job) => headroom.job_gone(job.meta().uid.as_deref().unwrap_or_default()),
        Event::Trouble(error) | Event::Forbidden(error) => headroom.jobs_trouble(&error),
        Event::Hidden(error) => headroom.jobs_hidden(&error),
    }
}
