//! What a webhook has made of an image that was written: the name of a mirror, for example. It counts
//! as the image that was written, or the container would be lost under that name.

use super::Target;
use crate::image::alias::is_same_image;
use crate::image::renamed::may_be_renamed;
use crate::restart::reconcile::memory::Stored;
use crate::restart::request::{Intent, Parking};

impl Target<'_> {
    /// Returns true if the container has the image that was written, or what a webhook has made of
    /// it. After the loss of the memory its name alone shows that.
    pub(crate) fn has_what_was_written(&self, written: &str) -> bool {
        let image = &self.container.image;
        is_same_image(image, written)
            || self.stored_for(written).is_some()
            || may_be_renamed(image, written)
    }

    /// Returns the change by this process that left the container with its image, if a webhook has
    /// made that of what was written.
    pub(crate) fn stored_for(&self, written: &str) -> Option<&Stored> {
        let stored = self.case.memory.stored(&self.container.name)?;
        (*stored.to == *written && stored.image == self.container.image).then_some(stored)
    }

    /// Returns true if the container has the park image, by any name. After the loss of the memory
    /// that is the image with which its pod records this request, and has not changed since.
    pub(crate) fn is_out(&self, intent: &Intent) -> bool {
        let image = &self.container.image;
        let around = self.case.around;
        let is_recorded = || {
            let parked = self.case.pod.parked.as_ref();
            let is_park = |image: &str| around.parks(image);
            parked.is_some_and(|parked| parked.renames(&self.container.name, image, is_park))
        };
        let changes = i64::from(intent.parking == Some(Parking::Out));
        let is_written = || {
            let pod = self.case.pod;
            *image != intent.from
                && around.parks(&intent.to)
                && pod.generation.is_some()
                && pod.generation == intent.generation.map(|before| before + changes)
                && (pod.parked.as_ref()).is_some_and(|parked| {
                    parked.request == self.case.request.uid
                        && parked.images.contains_key(&self.container.name)
                })
        };
        around.parks(image)
            || self.stored_for(&intent.to).is_some()
            || is_recorded()
            || is_written()
    }
}
