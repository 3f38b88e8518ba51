//! Which exit image a sidecar gets: a tenant may ask for one, only the administrator's list grants
//! it.
//!
//! An image of the default's repository with a digest counts as an exit image when it is seen, for
//! webhooks add digests; it is not granted when a tenant asks for it, for a digest may name any
//! image of that repository.

pub mod derived;

use std::fmt;
use std::time::Duration;

use self::derived::{Derived, DerivedImages, Trouble};
use crate::image::path_set::PathSet;
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;

/// The exit images of an installation.
#[derive(Clone, Debug, Default)]
pub struct ExitImages {
    default: Option<ImageReference>,
    listed: Vec<ImagePattern>,
    /// The paths of the default, where they are not the standard ones.
    default_paths: Option<PathSet>,
    derived: Option<DerivedImages>,
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
    /// Whether it is the default, whose paths are known. For one of the list, the administrator
    /// vouches.
    pub is_default: bool,
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
    /// `default` is written where a pod names no image of the list; `listed` are the images that
    /// pods may name.
    #[must_use]
    pub fn new(default: Option<ImageReference>, listed: Vec<ImagePattern>) -> Self {
        let written = default
            .iter()
            .map(ImageReference::as_str)
            .chain(listed.iter().map(ImagePattern::as_str));
        let names = written
            .map(|image| {
                Some(last_part(image))
                    .filter(|name| !name.contains('*'))
                    .map(Box::from)
            })
            .collect();
        Self {
            default,
            listed,
            names,
            ..Self::default()
        }
    }

    /// This image counts as one of them as well; the default stays what it is.
    #[must_use]
    pub fn and_of(self, image: &ImageReference) -> Self {
        let (mut listed, derived) = (self.listed, self.derived);
        listed.extend(ImagePattern::parse(image.as_str()));
        let all = Self {
            default_paths: self.default_paths,
            ..Self::new(self.default, listed)
        };
        match derived {
            Some(derived) => all.with_derived(derived),
            None => all,
        }
    }

    /// The default, where there is one.
    #[must_use]
    pub const fn default_image(&self) -> Option<&ImageReference> {
        self.default.as_ref()
    }

    /// The default has these paths, not the standard ones.
    #[must_use]
    pub fn with_default_paths(self, paths: PathSet) -> Self {
        Self {
            default_paths: Some(paths),
            ..self
        }
    }

    /// Images for other paths are derived.
    #[must_use]
    pub fn with_derived(mut self, derived: DerivedImages) -> Self {
        if let Some(names) = &mut self.names {
            names.push(last_part(derived.repository().as_str()).into());
        }
        Self {
            derived: Some(derived),
            ..self
        }
    }

    /// The paths of the default, where they are not the standard ones.
    #[must_use]
    pub fn default_paths(&self) -> Option<&PathSet> {
        self.default_paths.as_ref()
    }

    /// The derived image with these paths, for a pod of a namespace; `None` where none are derived.
    #[must_use]
    pub fn derived(&self, namespace: &str, paths: &[String]) -> Option<Derived<'_>> {
        self.derived
            .as_ref()
            .map(|derived| derived.look(namespace, paths))
    }

    /// Whether images are derived.
    #[must_use]
    pub const fn derives(&self) -> bool {
        self.derived.is_some()
    }

    /// Where derived images are.
    #[must_use]
    pub fn repository(&self) -> Option<&ImageReference> {
        self.derived.as_ref().map(DerivedImages::repository)
    }

    /// [`DerivedImages::ask`]
    #[must_use]
    pub fn ask_derived(&mut self, namespace: &str, paths: &[String], now: Duration) -> bool {
        self.derived
            .as_mut()
            .is_some_and(|derived| derived.ask(namespace, paths, now))
    }

    /// [`DerivedImages::give_back`]
    pub fn give_back_asked(&mut self, now: Duration) {
        if let Some(derived) = &mut self.derived {
            derived.give_back(now);
        }
    }

    /// [`DerivedImages::came`]
    pub fn derived_came(
        &mut self,
        paths: &[String],
        result: Result<Box<str>, Trouble>,
        now: Duration,
    ) {
        if let Some(derived) = &mut self.derived {
            derived.came(paths, result, now);
        }
    }

    /// Whether this is one of the installation's exit images, also where an admission webhook has
    /// put a digest to the default.
    #[must_use]
    pub fn contains(&self, image: &str) -> bool {
        // Asked for every sidecar at every event: most images are told apart without reading them
        // as references.
        if self
            .names
            .as_ref()
            .is_some_and(|names| !names.iter().any(|name| **name == *last_part(image)))
        {
            return false;
        }
        ImageReference::parse(image).is_ok_and(|reference| {
            self.grants(&reference)
                || self
                    .default
                    .as_ref()
                    .is_some_and(|default| default.is_alias_of(&reference))
                || self
                    .derived
                    .as_ref()
                    .is_some_and(|derived| derived.contains(&reference))
        })
    }

    /// The exit image for a container that asks for this one, or for none.
    ///
    /// # Errors
    /// [`NoChoice`], where nothing may be written.
    pub fn choose<'a>(&'a self, asked: Option<&'a str>) -> Result<Choice<'a>, NoChoice> {
        let Some(asked) = asked else {
            return self.fall_back(None);
        };
        let reference =
            ImageReference::parse(asked).map_err(|error| NoChoice::Invalid(error.to_string()))?;
        if !self.grants(&reference) {
            return self.fall_back(Some(asked));
        }
        Ok(Choice {
            image: asked,
            refused: None,
            is_default: self.is_default(&reference),
        })
    }

    fn fall_back<'a>(&'a self, refused: Option<&'a str>) -> Result<Choice<'a>, NoChoice> {
        let default = self.default.as_ref().ok_or(NoChoice::Missing)?;
        Ok(Choice {
            image: default.as_str(),
            refused,
            is_default: true,
        })
    }

    fn is_default(&self, reference: &ImageReference) -> bool {
        self.default
            .as_ref()
            .is_some_and(|default| default.normalized() == reference.normalized())
    }

    /// Whether this image is given to whoever asks for it. Exact, unlike [`contains`](Self::contains): a digest that a tenant adds to a listed tag
    /// could name any image of that repository.
    #[must_use]
    pub fn grants(&self, reference: &ImageReference) -> bool {
        self.is_default(reference) || self.listed.iter().any(|pattern| pattern.matches(reference))
    }
}

/// `exit` of `registry.example/swaplet/exit:v1@sha256:...`; the same however the reference is
/// spelled.
fn last_part(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

impl fmt::Display for ExitImages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = self.default.as_ref().map_or("none", ImageReference::as_str);
        write!(formatter, "default {default}")?;
        self.listed
            .iter()
            .try_for_each(|pattern| write!(formatter, ", {pattern}"))?;
        self.derived.iter().try_for_each(|derived| {
            write!(
                formatter,
                ", others are derived into {}",
                derived.repository()
            )
        })
    }
}
