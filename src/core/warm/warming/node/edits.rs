//! Changes to the state of a node that come from its job.

use std::sync::Arc;

use super::{NodeProgress, Slots};
use crate::objects::moment::Moment;
use crate::warm::warming::action::{Action, End, Limits};
use crate::warm::warming::image::ImageProgress;

impl NodeProgress {
    /// Sets the images; the progress of those that stay is kept.
    pub fn set_images(&mut self, images: &[Arc<str>]) {
        let known = std::mem::take(&mut self.images);
        let stays = |image: &str| known.iter().find(|known| *known.image == *image).cloned();
        self.images = images
            .iter()
            .map(|image| stays(image).unwrap_or_else(|| ImageProgress::new(image.clone())))
            .collect();
        (self.news, self.first) = (Vec::new(), None);
    }

    /// Starts again like a new node, but keeps proved images and the numbering of pods. If the node
    /// has a pod or a write in flight, it does nothing, or opens what has failed if the node was
    /// given up: nothing else would try it again when the pod is gone.
    pub fn try_again(&mut self, images: &[Arc<str>], ready: bool, now: Moment) {
        if self.pod.is_some() || self.writing || self.unsure.is_some() {
            if self.abandoned && !self.is_broken {
                self.observe_ready(ready, now);
                self.open_failed();
            }
            return;
        }
        let known = self.begin_anew(images, ready, now);
        for progress in &mut self.images {
            let proved = known
                .iter()
                .find(|known| known.image == progress.image && known.end == Some(End::Succeeded));
            if let Some(proved) = proved {
                *progress = proved.clone();
            }
        }
    }

    fn open_failed(&mut self) {
        self.abandoned = false;
        for progress in &mut self.images {
            if matches!(progress.end, Some(End::Failed(_))) {
                *progress = ImageProgress::new(progress.image.clone());
            }
        }
    }

    /// Fails what is open after a defect, and does nothing more for the node. Deleting its pod is
    /// left to the caller.
    pub fn break_off(&mut self, defect: &str) {
        self.abandon(&format!("a defect in swaplet, please report it: {defect}"));
        self.is_broken = true;
        if let Some(seen) = self.pod.take() {
            self.number += 1;
            self.last = Some(seen.pod);
        }
    }

    /// Resets all but the numbering and shape of pods, and returns the progress of images.
    fn begin_anew(&mut self, images: &[Arc<str>], ready: bool, now: Moment) -> Vec<ImageProgress> {
        let (number, last, left) = (
            self.number,
            self.last.take(),
            std::mem::take(&mut self.left),
        );
        let new = Self {
            number,
            last,
            left,
            ..Self::new(images, self.shape, ready, now)
        };
        std::mem::replace(self, new).images
    }

    /// Opens all images again, and returns the creation of a pod. What was reported about pulls is
    /// kept, because a kubelet that has an image reports nothing new.
    pub fn ask_again(
        &mut self,
        images: &[Arc<str>],
        limits: &Limits,
        now: Moment,
    ) -> Option<Action> {
        let known = self.begin_anew(images, true, now);
        for (progress, known) in self.images.iter_mut().zip(known) {
            progress.pulled = known.pulled;
        }
        self.step(
            limits,
            Slots {
                free: true,
                wanted: false,
                is_asked_for: false,
                excess: false,
                others_pull: false,
            },
            now,
        )
    }
}
