//! Pre-downloads for which no job can be made: OpenKruise's webhook takes no `ImagePullJob` where
//! its gates are off, although nobody of OpenKruise would do them. Then the loop of jobs does the
//! same without an object. It stays in memory alone: another life asks for it anew, and what is on
//! the nodes is not pulled again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use tokio::sync::watch;

use super::Key;

/// The jobs without an object that there are now.
pub type OwnJobs = Arc<Vec<PullJob>>;

/// So many there are at most: whoever may make workloads can ask for ever new ones.
const MOST: usize = 200;

/// Those of each workload, for whoever does them.
pub(crate) struct Own {
    /// `None` where nobody is there who could.
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

    /// Whether they can be done, and another one has room.
    pub fn has_room(&self, key: &Key) -> bool {
        let others = self
            .jobs
            .iter()
            .filter(|(other, _)| *other != key)
            .map(|(_, jobs)| jobs.len());
        self.doer.is_some() && others.sum::<usize>() < MOST
    }

    /// These jobs are wanted for a workload from now on, each as it would be made. One that is
    /// there stays as it is, as an object would.
    pub fn set(&mut self, key: &Key, wanted: Vec<Value>) {
        let known = self.jobs.remove(key).unwrap_or_default();
        let jobs: Vec<_> = wanted
            .into_iter()
            .filter_map(without_object)
            .take(MOST)
            .collect();
        let stays = |job: PullJob| {
            known
                .iter()
                .find(|known| known.uid == job.uid)
                .cloned()
                .unwrap_or(job)
        };
        let jobs: Vec<_> = jobs.into_iter().map(stays).collect();
        let is_news = known != jobs;
        if !jobs.is_empty() {
            self.jobs.insert(key.clone(), jobs);
        }
        if let Some(doer) = self.doer.as_ref().filter(|_| is_news) {
            doer.send_replace(Arc::new(self.jobs.values().flatten().cloned().collect()));
        }
    }
}

/// The job as the loop of jobs takes it. No object can have a name with a space.
fn without_object(object: Value) -> Option<PullJob> {
    let mut job = PullJob::read(JobKind::ImagePullJob, serde_json::from_value(object).ok()?)?;
    job.uid = format!(
        "pre-download-{}",
        short_digest(format!("{} {}", job.uid, job.name), 5)
    )
    .into();
    job.name = format!("pre-download {}", job.name).into();
    // Nothing has to be written down before it begins.
    job.started_at = Some(Timestamp::UNIX_EPOCH);
    Some(job)
}
