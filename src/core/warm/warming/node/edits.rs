//! What a job that is changed, or another one, does to what is known of a node.

use std::time::Duration;

use super::{NodeProgress, Slots};
use crate::warm::warming::action::{Action, End, Limits};
use crate::warm::warming::image::ImageProgress;
use crate::warm::warming::pulled::Pulled;

impl NodeProgress {
    /// These are the images from now on; what is known of those that stay is kept.
    pub fn set_images(&mut self, images: &[Box<str>]) {
        let known = std::mem::take(&mut self.images);
        let stays = |image: &str| known.iter().find(|known| *known.image == *image).cloned();
        self.images = images
            .iter()
            .map(|image| stays(image).unwrap_or_else(|| ImageProgress::new(image)))
            .collect();
        (self.news, self.first) = (Vec::new(), None);
    }

    /// Somebody else has proved that an image is there. Whether that is news.
    pub fn found(&mut self, image: &str, pulled: Option<&Pulled>) -> bool {
        let Some(progress) = self
            .images
            .iter_mut()
            .find(|progress| *progress.image == *image && progress.end.is_none())
        else {
            return false;
        };
        (progress.end, progress.pulled) = (Some(End::Succeeded), pulled.cloned());
        true
    }

    /// Begins as with a node that is new, but for the images that are there and for the names of
    /// pods; only where it has no pod.
    pub fn try_again(&mut self, images: &[Box<str>], ready: bool, now: Duration) {
        if self.pod.is_some() || self.writing || self.unsure {
            return;
        }
        let known = self.begin_anew(images, ready, now);
        for found in known
            .iter()
            .filter(|progress| progress.end == Some(End::Succeeded))
        {
            self.found(&found.image, found.pulled.as_ref());
        }
    }

    /// A defect has left it half done: what is open has failed, and nothing more is done for the
    /// node. A pod that is there is left to whoever asks for this.
    pub fn break_off(&mut self, defect: &str) {
        self.abandon(&format!("a defect in swaplet, please report it: {defect}"));
        self.is_broken = true;
        if let Some(seen) = self.pod.take() {
            self.number += 1;
            self.last = Some(seen.pod);
        }
    }

    /// Forgets all but the names of pods and their shape, and returns what was known of images.
    fn begin_anew(
        &mut self,
        images: &[Box<str>],
        ready: bool,
        now: Duration,
    ) -> Vec<ImageProgress> {
        let (number, last, left) = (
            self.number,
            self.last.take(),
            std::mem::take(&mut self.left),
        );
        let new = Self {
            number,
            last,
            left,
            swaps_work: self.swaps_work,
            ..Self::new(images, self.shapes, ready, now)
        };
        std::mem::replace(self, new).images
    }

    /// All images are open again, and a pod is made for the first of them. What was said of pulls
    /// stays: a kubelet that has an image has nothing new to say.
    pub fn ask_again(
        &mut self,
        images: &[Box<str>],
        limits: &Limits,
        now: Duration,
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
