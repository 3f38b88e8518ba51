//! The record in a pod of the images that its parked containers had before. The patch that writes
//! the park image carries it too, so no crash and no lost request can leave a parked container
//! whose image is unknown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::image::alias::is_same_image;
use crate::image::renamed::may_be_renamed;

/// The annotation of a pod that holds [`Parked`], and the label that selects such pods: only labels
/// can be selected.
pub const PARKED: &str = "swaplet.io/parked";

/// The containers of a pod that are parked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parked {
    /// The uid of this pod, which a pod template cannot know. Others can write it, also through
    /// `pods/status`; `deploy/leash-parked.yaml` has to ensure that only swaplet does.
    pub pod: Box<str>,
    /// The name of the request for which the containers are parked.
    pub name: Box<str>,
    /// The uid of that request.
    pub request: Box<str>,
    /// The park image, as it was written.
    pub park: Box<str>,
    /// The image to put back, by container name.
    pub images: BTreeMap<Box<str>, Box<str>>,
}

impl Parked {
    /// Parses the value of the annotation of the pod with this uid. Returns `None` if it was not
    /// written for this pod, or cannot be parsed.
    pub fn read(value: &str, pod: &str) -> Option<Self> {
        serde_json::from_str(value)
            .ok()
            .filter(|parked: &Self| *parked.pod == *pod)
    }

    /// Returns true if the image that a container has may be another name of the park image, by a
    /// webhook that has changed what was written.
    pub(crate) fn may_rename(&self, name: &str, image: &str) -> bool {
        let before = self.images.get(name);
        before.is_some_and(|before| **before != *image) && may_be_renamed(image, &self.park)
    }

    /// Like [`Self::may_rename`], so that the image before may be put back: only a record that names
    /// the park image of this installation shows that.
    pub(crate) fn renames(&self, name: &str, image: &str, is_park: impl Fn(&str) -> bool) -> bool {
        is_park(&self.park) && self.may_rename(name, image)
    }

    /// Returns true if a container has the park image that another installation had, or this one
    /// before: what it had is known to the record alone.
    pub(crate) fn is_foreign(
        &self,
        name: &str,
        image: &str,
        is_park: impl Fn(&str) -> bool,
    ) -> bool {
        !is_park(&self.park) && (is_same_image(image, &self.park) || self.may_rename(name, image))
    }

    /// Returns the value of the annotation.
    pub fn as_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_for_the_same_pod_only() {
        let images = [("app".into(), "r.example/app:1".into())].into();
        let parked = Parked {
            pod: "pu".into(),
            name: "r".into(),
            request: "ru".into(),
            park: "r.example/park:1".into(),
            images,
        };
        assert_eq!(Parked::read(&parked.as_text(), "pu"), Some(parked.clone()));
        assert_eq!(Parked::read(&parked.as_text(), "another"), None);
        for strange in ["", "{}", "[]", "1", "{\"pod\":1}"] {
            assert_eq!(Parked::read(strange, "pu"), None, "{strange}");
        }
    }
}
