//! Pre-downloads for which no job can be created. OpenKruise's webhook rejects an `ImagePullJob`
//! while its gates are off, although nothing of OpenKruise would process it. Then the loop of jobs
//! does the same without an object. These jobs are kept in memory alone: after a restart they are
//! requested again, and images that are on the nodes are not pulled again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use tokio::sync::watch;

use super::Key;

/// The present jobs without an object.
pub type OwnJobs = Arc<Vec<PullJob>>;

/// The jobs without an object of each workload, and the channel to the loop that runs them.
pub(crate) struct Own {
    /// The channel; `None` if no loop can run them.
    doer: Option<watch::Sender<OwnJobs>>,
    jobs: BTreeMap<Key, Vec<PullJob>>,
}

impl Own {
    pub const fn new(doer: Option<watch::Sender<OwnJobs>>) -> Self {
        Self {
            doer,
            jobs: BTreeMap::new(),
        }
    }

    /// Returns true if there is a loop to run jobs.
    pub const fn is_possible(&self) -> bool {
        self.doer.is_some()
    }

    /// Sets the jobs of a workload, given as objects. A job that is known already stays as it is.
    pub fn set(&mut self, key: &Key, wanted: Vec<Value>) {
        let known = self.jobs.remove(key).unwrap_or_default();
        let jobs = wanted.into_iter().filter_map(without_object);
        let stays = |job: PullJob| {
            known
                .iter()
                .find(|known| known.uid == job.uid)
                .cloned()
                .unwrap_or(job)
        };
        let jobs: Vec<_> = jobs.map(stays).collect();
        let is_news = known != jobs;
        if !jobs.is_empty() {
            self.jobs.insert(key.clone(), jobs);
        }
        if let Some(doer) = self.doer.as_ref().filter(|_| is_news) {
            doer.send_replace(Arc::new(self.jobs.values().flatten().cloned().collect()));
        }
    }
}

/// Returns the job for the loop of jobs. No object can have a name with a space.
fn without_object(object: Value) -> Option<PullJob> {
    let mut job = PullJob::read(JobKind::ImagePullJob, serde_json::from_value(object).ok()?)?;
    job.uid = format!(
        "pre-download-{}",
        short_digest(format!("{} {}", job.uid, job.name), 5)
    )
    .into();
    job.name = format!("pre-download {}", job.name).into();
    // It needs no `startTime` in a status before it begins.
    job.started_at = Some(Timestamp::UNIX_EPOCH);
    Some(job)
}
