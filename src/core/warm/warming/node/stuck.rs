//! Slow pulls, and deleted pods that do not go away: a kubelet that pulls does not end the pod.

use std::time::Duration;

use super::NodeProgress;
use crate::objects::moment::Moment;
use crate::warm::warming::action::{Action, Limits};
use crate::warm::warming::evidence::has_started;

/// How long a pull may keep others from its node.
pub const SLOW: Duration = Duration::from_secs(60);
/// How long a pod may terminate until others need not wait for it, and another pod is created.
pub const LEAVE: Duration = Duration::from_secs(120);
/// The most deleted pods of a node that may be left at a time: each may hold a pull of its kubelet.
const MOST_LEFT: usize = 4;

impl NodeProgress {
    /// Returns the image that has been pulled for so long that others need not wait for it, if any.
    pub fn slow(&self, now: Moment) -> Option<&str> {
        let pod = self
            .pod
            .as_ref()
            .map(|seen| &seen.pod)
            .filter(|pod| !pod.deleting && has_started(pod))?;
        let mut open = pod
            .images
            .iter()
            .filter_map(|image| self.position(image))
            .map(|index| &self.images[index]);
        let image = open.find(|image| image.is_due(now))?;
        (now >= self.since.max(image.not_before) + SLOW).then_some(&*image.image)
    }

    /// Returns true if the deletion of its pod takes too long.
    pub fn hangs(&self, now: Moment) -> bool {
        !self.writing
            && self.pod.as_ref().is_some_and(|seen| seen.pod.deleting)
            && now >= self.since + LEAVE
    }

    /// Returns true if it has a deleted pod that does not go away.
    pub fn is_stuck(&self, now: Moment) -> bool {
        !self.left.is_empty() || self.hangs(now)
    }

    /// Returns the uids of its pods: the current one, the one before it, and those that do not go
    /// away.
    pub fn uids(&self) -> impl Iterator<Item = &Box<str>> {
        let pods = self.pod.iter().map(|seen| &seen.pod).chain(&self.last);
        pods.map(|pod| &pod.uid).chain(&self.left)
    }

    /// Waits for a terminating pod, or leaves it behind so that another one is created, unless too
    /// many are left.
    pub(crate) fn wait_for_deletion(&mut self, limits: &Limits, now: Moment) -> Option<Action> {
        if self.hangs(now) && self.left.len() < MOST_LEFT && !self.is_done() {
            self.number += 1;
            self.expected = false;
            self.left.extend(self.pod.take().map(|seen| seen.pod.uid));
        } else if now >= self.since + limits.timeout
            && self.left.len() >= MOST_LEFT
            && !self.is_done()
        {
            self.abandon("the warmer pods are stuck in deletion");
        }
        None
    }
}
