//! Whether exit images can be pulled without credentials. A kubelet from 1.35 on checks the
//! credentials of each pod also for an image that it has (KEP-2535), and any kubelet where it has
//! to pull: an image that one pod may use does not end the sidecars of another one.

use crate::image::reference::ImageReference;

/// Whether an image can be pulled without credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Public {
    /// Every node can pull it for every pod.
    Yes,
    /// Its registry wants credentials.
    No,
    /// Its registry has given no clear answer, or was not asked.
    #[default]
    Unknown,
}

/// What is known about the repositories of an installation. Registries grant pulls by repository.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// What the administrator says of all of them.
    pub(super) said: Option<Public>,
    /// One image of each repository that has answered: that of the default, and that of derived
    /// images.
    known: Vec<(ImageReference, Public)>,
}

impl Answers {
    pub(super) fn of(&self, image: &ImageReference) -> Public {
        let is_it = |(known, _): &&(ImageReference, Public)| known.same_repository(image);
        let known = self.known.iter().find(is_it).map(|(_, public)| *public);
        self.said.or(known).unwrap_or_default()
    }

    pub(super) fn answer(&mut self, image: &ImageReference, public: Public) {
        self.known
            .retain(|(known, _)| !known.same_repository(image));
        self.known.push((image.clone(), public));
    }
}

impl Public {
    /// Returns why a node may refuse the image to a pod, and what to do; `None` if none does.
    #[must_use]
    pub fn doubt(self, image: &str) -> Option<String> {
        let (what, remedy) = match self {
            Self::Yes => return None,
            Self::No => (
                format!("the registry of {image} wants credentials"),
                "keep it in a public repository, or start the controller with --exit-image-is-public=true if every node or pod has them",
            ),
            Self::Unknown => (
                format!("it is not known whether {image} can be pulled without credentials"),
                "start the controller with --exit-image-is-public=true if it can, or where it can ask its registry",
            ),
        };
        Some(format!(
            "{what}, so a node may refuse it to this pod: {remedy}"
        ))
    }
}
