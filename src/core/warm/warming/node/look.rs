//! What the status of a node's pod says of the images that are open.

use std::time::Duration;

use super::NodeProgress;
use crate::warm::pod::{Shape, WarmerImage};
use crate::warm::warming::action::{Action, End, Limits};
use crate::warm::warming::evidence::{Verdict, has_run, judge};

/// How long a status that proves nothing may stay as it is before a new pod is to tell: longer than
/// a kubelet takes to act on a swap.
const SETTLED: Duration = Duration::from_secs(10);

impl NodeProgress {
    /// A pod that has ended is deleted. That is no loss of one whose containers are to end, where
    /// nothing more was expected of it.
    pub(crate) fn take_leave(&mut self, limits: &Limits, now: Duration) -> Option<Action> {
        if self.pod.as_ref()?.pod.shape == Shape::InPlace || !self.is_ours() {
            return self.delete(false);
        }
        if let Some(action) = self.look(limits, now) {
            return Some(action);
        }
        let is_pulling = self.is_pulling(now);
        self.delete(!is_pulling)
    }

    /// Whether the images of the pod are those that were asked for, as far as that is known.
    pub(crate) fn is_ours(&self) -> bool {
        let Some(seen) = &self.pod else { return false };
        let expected = |(number, image): (usize, &WarmerImage)| match &seen.stored {
            Some(stored) => stored.get(number) == Some(&image.image),
            None => image.image == image.wanted,
        };
        seen.pod.images.iter().enumerate().all(expected)
    }

    /// Where an image of the pod stands among those of the node; `None` where it is not wanted any
    /// more.
    pub(crate) fn position(&self, image: &WarmerImage) -> Option<usize> {
        self.images
            .iter()
            .position(|progress| progress.image == image.wanted)
    }

    /// Whether the pod has an image whose time it is.
    pub(crate) fn is_pulling(&self, now: Duration) -> bool {
        let images = self.pod.iter().flat_map(|seen| &seen.pod.images);
        images
            .filter_map(|image| self.position(image))
            .any(|index| self.images[index].is_due(now))
    }

    /// Records what the status proves of each open image; an action where only another pod can
    /// help.
    pub(crate) fn look(&mut self, limits: &Limits, now: Duration) -> Option<Action> {
        let images = self.pod.as_ref()?.pod.images.clone();
        for image in images {
            if let Some(open) = self
                .position(&image)
                .filter(|index| self.images[*index].end.is_none())
                && let Some(replace) = self.look_at(&image, open, limits, now)
            {
                return Some(replace);
            }
        }
        None
    }

    fn look_at(
        &mut self,
        image: &WarmerImage,
        open: usize,
        limits: &Limits,
        now: Duration,
    ) -> Option<Action> {
        let seen = self.pod.as_ref()?;
        let began = self.since.max(self.images[open].not_before);
        match judge(&seen.pod, image, seen.announced.contains(&image.image)) {
            Verdict::Pulled => {
                self.swaps_work |= seen.pod.before.is_some();
                self.end(open, End::Succeeded);
            }
            Verdict::Refused { why, is_final } if now >= began => {
                self.failed(open, &why, is_final, limits, now)
            }
            Verdict::Unclear if now >= seen.same_since + SETTLED => {
                self.first = Some(open);
                return self.delete(true);
            }
            Verdict::NotMounted(why) if now >= began => {
                return self.not_mounted(open, &why, limits, now);
            }
            Verdict::HasRun(how) => {
                self.end(open, End::Failed(has_run(&how).into()));
                return self.delete(true);
            }
            _ if now
                >= began
                    + self
                        .patience(limits)
                        .saturating_sub(self.images[open].spent) =>
            {
                return self.out_of_time(open, limits, now);
            }
            _ => (),
        }
        None
    }

    fn not_mounted(
        &mut self,
        open: usize,
        why: &str,
        limits: &Limits,
        now: Duration,
    ) -> Option<Action> {
        if self.fall_back(&format!("an image cannot be mounted as a volume: {why}")) {
            return self.delete(true);
        }
        self.failed(open, why, false, limits, now);
        None
    }

    /// How long a pod may take for an image. Of several, which the kubelet pulls one after another,
    /// each gives the next one its time when it is told of.
    fn patience(&self, limits: &Limits) -> Duration {
        let told = self
            .pod
            .as_ref()
            .filter(|seen| seen.pod.images.len() > 1)
            .map_or(0, |seen| seen.announced.len());
        limits
            .timeout
            .saturating_mul(u32::try_from(told + 1).unwrap_or(u32::MAX))
    }

    /// Which of several images has kept the others waiting nobody knows, so each gets a pod of its
    /// own; and where no swap has ever led to an image the node may ignore them.
    fn out_of_time(&mut self, open: usize, limits: &Limits, now: Duration) -> Option<Action> {
        let seen = self.pod.as_ref()?;
        let (is_swapped, is_one_of_many) = (seen.pod.before.is_some(), seen.pod.images.len() > 1);
        let why = format!("not pulled within {} s", limits.timeout.as_secs());
        if is_one_of_many {
            self.alone = true;
        } else if !(is_swapped
            && !self.swaps_work
            && self.fall_back(&format!(
                "after a change of the image of its pod it was {why}"
            )))
        {
            self.failed(open, &why, false, limits, now);
        }
        // A kubelet that pulls does nothing else for the pod: only its deletion ends that.
        self.delete(true)
    }
}
