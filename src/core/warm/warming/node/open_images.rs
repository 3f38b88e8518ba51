//! What the status of a node's pod proves about its open images.

use std::time::Duration;

use super::NodeProgress;
use crate::objects::moment::Moment;
use crate::warm::pod::{Shape, WarmerImage};
use crate::warm::warming::evidence::{Verdict, has_run, judge};
use crate::warm::warming::{Action, End, Limits};

/// How long a status that proves nothing may stay unchanged before another pod is created: longer
/// than a kubelet takes to act on a swap.
const SETTLED: Duration = Duration::from_secs(10);

impl NodeProgress {
    /// Deletes a pod that has ended. The end is no loss if its containers are meant to end, and
    /// nothing more was expected of the pod.
    pub(crate) fn delete_ended_pod(&mut self, limits: &Limits, now: Moment) -> Option<Action> {
        if self.pod.as_ref()?.pod.shape == Shape::InPlace || self.is_ours() != Some(true) {
            return self.delete(false);
        }
        if let Some(action) = self.observe(limits, now) {
            return Some(action);
        }
        let is_pulling = self.is_pulling(now);
        self.delete(!is_pulling)
    }

    /// Returns true if the images of the pod are those that were stored for the requested ones, and
    /// `None` if that is unknown: a webhook may store others. Those of a pod that nothing has
    /// changed are what its creation has stored.
    pub(crate) fn is_ours(&self) -> Option<bool> {
        let seen = self.pod.as_ref()?;
        let mut images = seen.pod.images.iter();
        match &seen.stored {
            Some(stored) => Some(images.map(|image| &image.image).eq(stored)),
            None if images.all(|image| image.image == image.wanted) => Some(true),
            None => (seen.pod.generation == 1 && seen.pod.before.is_none()).then_some(true),
        }
    }

    /// Returns the index of a pod's image among those of the node; `None` if it is no longer
    /// wanted.
    pub(crate) fn position(&self, image: &WarmerImage) -> Option<usize> {
        self.images
            .iter()
            .position(|progress| *progress.image == *image.wanted)
    }

    /// Returns true if the pod has an image that is due.
    pub(crate) fn is_pulling(&self, now: Moment) -> bool {
        let images = self.pod.iter().flat_map(|seen| &seen.pod.images);
        images
            .filter_map(|image| self.position(image))
            .any(|index| self.images[index].is_due(now))
    }

    /// Records what the status proves about each open image. Returns an action if only another pod
    /// can help.
    pub(crate) fn observe(&mut self, limits: &Limits, now: Moment) -> Option<Action> {
        let images = self.pod.as_ref()?.pod.images.clone();
        for image in images {
            if let Some(open) = self
                .position(&image)
                .filter(|index| self.images[*index].end.is_none())
                && let Some(replace) = self.observe_image(&image, open, limits, now)
            {
                return Some(replace);
            }
        }
        None
    }

    fn observe_image(
        &mut self,
        image: &WarmerImage,
        open: usize,
        limits: &Limits,
        now: Moment,
    ) -> Option<Action> {
        let seen = self.pod.as_ref()?;
        let began = self.since.max(self.images[open].not_before);
        match judge(&seen.pod, image, seen.announced.contains(&image.image)) {
            Verdict::Pulled => self.end(open, End::Succeeded),
            Verdict::Refused { why, is_final } if now >= began && !self.images[open].is_counted => {
                self.failed(open, &why, is_final, limits, now)
            }
            Verdict::Unclear if now >= seen.same_since + SETTLED => {
                self.first = Some(open);
                return self.delete(true);
            }
            Verdict::HasRun(how) => {
                self.end(open, End::Failed(has_run(&how).into()));
                return self.delete(true);
            }
            shown
                if now
                    >= began
                        + self
                            .patience(limits)
                            .saturating_sub(self.images[open].spent) =>
            {
                let why = match shown {
                    Verdict::Refused { why, .. } => why,
                    _ => format!("not pulled within {} s", limits.timeout.as_secs()).into(),
                };
                return self.out_of_time(open, &why, limits, now);
            }
            _ => (),
        }
        None
    }

    /// Returns how long a pod may take for an image. The kubelet pulls several one after another,
    /// so each announced one extends the time by one timeout.
    fn patience(&self, limits: &Limits) -> Duration {
        let reported = self
            .pod
            .as_ref()
            .filter(|seen| seen.pod.images.len() > 1)
            .map_or(0, |seen| seen.announced.len().min(seen.pod.images.len()));
        limits
            .timeout
            .saturating_mul(u32::try_from(reported + 1).unwrap_or(u32::MAX))
    }

    /// Ends a try that has run out of time. Which of several images delayed the others is unknown,
    /// so each gets a pod of its own.
    fn out_of_time(
        &mut self,
        open: usize,
        why: &str,
        limits: &Limits,
        now: Moment,
    ) -> Option<Action> {
        if self.pod.as_ref()?.pod.images.len() > 1 {
            self.alone = true;
        } else {
            self.failed(open, why, false, limits, now);
        }
        // A kubelet that pulls does nothing else for the pod: only its deletion ends that.
        self.delete(true)
    }
}
