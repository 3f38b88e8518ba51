//! Which exit image a sidecar gets: a tenant may ask for one, only the administrator's list grants it.

use std::fmt;

use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;
use crate::objects::env::Mark;

/// The exit images of an installation.
#[derive(Clone, Debug, Default)]
pub struct ExitImages {
    default: Option<ImageReference>,
    listed: Vec<ImagePattern>,
    /// The last parts of the repositories of all of them; `None` where a pattern leaves it open.
    names: Option<Vec<Box<str>>>,
}

/// The exit image chosen for one sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The image to write.
    pub image: &'a str,
    /// The image that the pod asked for and that is not on the list.
    pub refused: Option<&'a str>,
}

/// Why there is no exit image for a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// The pod asks for something that is not an image reference; holds what is wrong with it.
    Invalid(String),
    /// The pod asks for an image that is not on the list (if it asks), and there is no default.
    Missing,
}

impl ExitImages {
    /// `default` is written where a pod names no image of the list; `listed` are the images that pods may name.
    #[must_use]
    pub fn new(default: Option<ImageReference>, listed: Vec<ImagePattern>) -> Self {
        let written = default.iter().map(ImageReference::as_str).chain(listed.iter().map(ImagePattern::as_str));
        let names = written.map(|image| Some(last_part(image)).filter(|name| !name.contains('*')).map(Box::from)).collect();
        Self { default, listed, names }
    }

    /// Whether this is one of the installation's exit images, also where an admission webhook has put a digest to the default.
    #[must_use]
    pub fn contains(&self, image: &str) -> bool {
        // Asked for every sidecar at every event: most images are told apart without reading them as references.
        if self.names.as_ref().is_some_and(|names| !names.iter().any(|name| **name == *last_part(image))) {
            return false;
        }
        ImageReference::parse(image)
            .is_ok_and(|reference| self.grants(&reference) || self.default.as_ref().is_some_and(|default| default.is_alias_of(&reference)))
    }

    /// The exit image for a container with this mark.
    ///
    /// # Errors
    /// [`NoChoice`], where nothing may be written.
    pub fn choose<'a>(&'a self, mark: &'a Mark) -> Result<Choice<'a>, NoChoice> {
        let Some(asked) = mark.with_image.as_deref() else {
            return self.fall_back(None);
        };
        let reference = ImageReference::parse(asked).map_err(|error| NoChoice::Invalid(error.to_string()))?;
        if self.grants(&reference) { Ok(Choice { image: asked, refused: None }) } else { self.fall_back(Some(asked)) }
    }

    fn fall_back<'a>(&'a self, refused: Option<&'a str>) -> Result<Choice<'a>, NoChoice> {
        let default = self.default.as_ref().ok_or(NoChoice::Missing)?;
        Ok(Choice { image: default.as_str(), refused })
    }

    /// Exact, unlike [`contains`](Self::contains): a digest that a tenant adds to a listed tag could name any image of that repository.
    fn grants(&self, reference: &ImageReference) -> bool {
        self.default.as_ref().is_some_and(|default| default.normalized() == reference.normalized())
            || self.listed.iter().any(|pattern| pattern.matches(reference))
    }
}

/// `exit` of `registry.example/swaplet/exit:v1@sha256:...`; the same however the reference is spelled.
fn last_part(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

impl fmt::Display for ExitImages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = self.default.as_ref().map_or("none", ImageReference::as_str);
        write!(formatter, "default {default}")?;
        self.listed.iter().try_for_each(|pattern| write!(formatter, ", {pattern}"))
    }
}
