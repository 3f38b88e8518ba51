//! Prints what happens in the cluster as it is observed.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event as PodEvent, Pod};
use kube::{Api, Client};
use swaplet_controller::frame::clock::Clock;
use swaplet_controller::frame::watch::{Event, watch};
use swaplet_edge::print;
use tokio::time::timeout;

use super::timeline::{Line, Timeline};

/// A printer of what happens in the cluster.
pub(super) struct Story {
    clock: Clock,
    pub(super) timeline: Timeline,
    pods: tokio::sync::mpsc::Receiver<Event<Pod>>,
    jobs: tokio::sync::mpsc::Receiver<Event<Job>>,
    events: tokio::sync::mpsc::Receiver<Event<PodEvent>>,
}

impl Story {
    /// Starts the watches. `inert` means that the node does not react to changed images.
    pub(super) fn begin(client: Client, inert: bool) -> Self {
        Self {
            clock: Clock::start(),
            timeline: Timeline::of(inert),
            pods: watch(Api::all(client.clone()), ""),
            jobs: watch(Api::all(client.clone()), ""),
            events: watch(Api::all(client), ""),
        }
    }

    /// Prints what happens until `ending` Jobs and pods without a Job have ended, or the deadline
    /// has passed; where only `doubtful` of them are left, of which nothing marks a sidecar, until
    /// nothing happens for a while.
    pub(super) async fn follow(
        &mut self,
        ending: usize,
        doubtful: usize,
        deadline: Duration,
    ) -> anyhow::Result<()> {
        let reached = timeout(deadline, async {
            while self.timeline.ended() < ending {
                let is_doubtful = self.timeline.ended() + doubtful >= ending;
                let patience = if is_doubtful { QUIET } else { deadline };
                match timeout(patience, self.next()).await {
                    Ok(next) => next?,
                    Err(_) => return self.give_up(patience),
                }
            }
            // The last report, the end of the sidecar, comes just after the end of the Job.
            while timeout(LAST_WORDS, self.next()).await.is_ok() {}
            anyhow::Ok(())
        });
        match reached.await {
            Ok(result) => result,
            Err(_) => self.give_up(deadline),
        }
    }

    fn give_up(&self, deadline: Duration) -> anyhow::Result<()> {
        let mut text = format!(
            "        not all ended in {} s; giving up\n",
            deadline.as_secs()
        );
        for waiting in self.timeline.waiting() {
            text += &format!("        {waiting}\n");
        }
        print(&text)
    }

    /// Prints what happens until this is dropped.
    pub(super) async fn go_on(&mut self) -> anyhow::Result<()> {
        loop {
            self.next().await?;
        }
    }

    async fn next(&mut self) -> anyhow::Result<()> {
        let lines = tokio::select! {
            Some(Event::Listed(pod) | Event::Applied(pod)) = self.pods.recv() => self.timeline.pod(self.clock.now(), pod),
            Some(Event::Listed(job) | Event::Applied(job)) = self.jobs.recv() => self.timeline.job(self.clock.now(), &job),
            Some(Event::Listed(event) | Event::Applied(event)) = self.events.recv() => {
                self.timeline.event(self.clock.now(), &event)
            }
            else => Vec::new(),
        };
        lines
            .iter()
            .map(Line::text)
            .try_for_each(|line| print(&format!("{line}\n")))
    }
}

/// How long nothing happens where the sidecars run on that nothing marks.
const QUIET: Duration = Duration::from_secs(20);
/// The time in which the last Event of a pod must arrive.
const LAST_WORDS: Duration = Duration::from_millis(400);
