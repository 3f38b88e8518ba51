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

/// The most jobs in all: anyone who may create workloads can request ever new ones.
const MOST: usize = 200;
/// The most jobs of one namespace, so that four have room beside each other.
const EACH: usize = 50;

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

    /// Returns how many jobs a workload may have beside those of the others; 0 if there is no loop
    /// to run them.
    pub fn room(&self, key: &Key) -> usize {
        let others = || self.jobs.iter().filter(|(other, _)| *other != key);
        let in_all: usize = others().map(|(_, jobs)| jobs.len()).sum();
        let of_namespace = others().filter(|(other, _)| other.1 == key.1);
        let in_namespace: usize = of_namespace.map(|(_, jobs)| jobs.len()).sum();
        if self.doer.is_none() {
            return 0;
        }
        MOST.saturating_sub(in_all)
            .min(EACH.saturating_sub(in_namespace))
    }

    /// Sets the jobs of a workload, given as objects. A job that is known already stays as it is.
    pub fn set(&mut self, key: &Key, wanted: Vec<Value>) {
        let known = self.jobs.remove(key).unwrap_or_default();
        let jobs: Vec<_> = wanted
            .into_iter()
            .filter_map(without_object)
            .take(EACH)
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::warm::predownload::workload::WorkloadKind;

    use super::*;

    fn key(namespace: &str, name: &str) -> Key {
        (WorkloadKind::Deployment, namespace.into(), name.into())
    }

    #[test]
    fn a9_a_namespace_leaves_room_for_pre_downloads_of_others() {
        let (doer, _jobs) = watch::channel(OwnJobs::default());
        let mut own = Own::new(Some(doer));
        for number in 0..EACH {
            let web = key("greedy", &format!("web-{number}"));
            assert!(own.room(&web) > 0);
            let metadata = json!({"name": "j", "namespace": "greedy", "uid": "u"});
            own.set(
                &web,
                vec![json!({"metadata": metadata, "spec": {"image": "a"}})],
            );
        }
        assert_eq!(own.room(&key("greedy", "web-0")), 1, "it has its own");
        assert_eq!(own.room(&key("greedy", "late")), 0);
        assert_eq!(own.room(&key("modest", "web")), EACH);
    }

    #[test]
    fn a9_a_workload_of_many_images_has_no_more_than_its_namespace() {
        let (doer, _jobs) = watch::channel(OwnJobs::default());
        let mut own = Own::new(Some(doer));
        let web = key("greedy", "web");
        assert_eq!(own.room(&web), EACH);
        let job = |number: usize| {
            let metadata = json!({"name": format!("j{number}"), "namespace": "greedy", "uid": "u"});
            json!({"metadata": metadata, "spec": {"image": "a"}})
        };
        own.set(&web, (0..MOST).map(job).collect());
        assert_eq!(own.room(&key("greedy", "late")), 0);
        assert_eq!(own.room(&key("modest", "web")), EACH);
    }
}
