//! The writes of pull jobs: in turns by namespace, with the shares that other loops have, so that a
//! tenant whose writes hang holds up no other one.

use std::collections::HashMap;

use swaplet_core::objects::moment::Moment;
use tokio::task::{JoinError, JoinSet};

use super::Written;
use crate::frame::queue::FairQueue;
use crate::frame::writer::Writer;
use crate::frame::writer::shares::Shares;
use crate::warm::jobs::{PullAnswer, PullWrite, Stored};

/// The writes in flight, and those that wait for their turn.
pub(super) struct Writes {
    writer: Writer,
    /// How many may be in flight.
    concurrency: usize,
    waiting: HashMap<u64, PullWrite>,
    line: FairQueue<u64>,
    /// The number of the last write, by which it waits.
    last: u64,
    shares: Shares,
    in_flight: JoinSet<Written>,
}

impl Writes {
    pub fn new(writer: Writer, concurrency: usize) -> Self {
        Self {
            writer,
            concurrency,
            waiting: HashMap::new(),
            line: FairQueue::default(),
            last: 0,
            shares: Shares::default(),
            in_flight: JoinSet::new(),
        }
    }

    /// Adds a write behind those of its namespace.
    pub fn push(&mut self, write: PullWrite) {
        self.last += 1;
        self.line.push(namespace_of(&write), self.last);
        self.waiting.insert(self.last, write);
    }

    /// Begins the writes for which there is room.
    pub fn begin(&mut self, now: Moment) {
        while self.in_flight.len() < self.concurrency {
            let line = &mut self.line;
            let next = self
                .shares
                .next(self.concurrency, now, |may_begin| line.pop_of(may_begin));
            let Some(write) = next.and_then(|number| self.waiting.remove(&number)) else {
                return;
            };
            self.shares.began(namespace_of(&write));
            let writer = self.writer.clone();
            self.in_flight.spawn(async move {
                let answer = send(&writer, &write).await;
                (write, answer)
            });
        }
    }

    /// Waits for a write to finish; `None` while none is in flight.
    pub async fn next(&mut self) -> Option<Result<Written, JoinError>> {
        self.in_flight.join_next().await
    }

    /// Records a write that has finished, and begins others.
    pub fn note(&mut self, (write, answer): &Written, now: Moment) {
        self.shares.finished(namespace_of(write), answer, now);
        self.begin(now);
    }
}

/// Returns the namespace whose turn a write takes: that of the job, because it decides which images
/// policies and registries are asked for.
fn namespace_of(write: &PullWrite) -> &str {
    match write {
        PullWrite::Warm { key, .. } => &key.1,
        PullWrite::Report { job, .. } => &job.namespace,
        PullWrite::DeleteJob(job) | PullWrite::Release(job) => &job.namespace,
        PullWrite::DeletePod(pod) => &pod.job_namespace,
        PullWrite::CreateCache(cache) => &cache.namespace,
        PullWrite::Untaint(_) => "",
    }
}

async fn send(writer: &Writer, write: &PullWrite) -> PullAnswer {
    let (mut pod, mut job) = (None, None);
    match write {
        PullWrite::Warm {
            warmers,
            node,
            action,
            ..
        } => pod = writer.warm(warmers, node, action).await?,
        PullWrite::Report { job: of, report } => {
            job = writer.report_pull_job(of, report).await?.map(Box::new);
        }
        PullWrite::Release(job) => writer.release_pull_job(job).await?,
        PullWrite::DeleteJob(job) => writer.delete_pull_job(job).await?,
        PullWrite::Untaint(untaint) => writer.untaint(untaint).await?,
        PullWrite::CreateCache(cache) => writer.create_image_cache(cache).await?,
        PullWrite::DeletePod(pod) => writer.delete_warmer_pod(pod).await?,
    }
    Ok(Stored { pod, job })
}
