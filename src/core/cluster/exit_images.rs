//! The choice of the exit image for a sidecar: a tenant may request one, only the administrator's
//! list grants it.
//!
//! An image of the default's repository with a digest counts as an exit image when it is observed,
//! for webhooks add digests. It is not granted when a tenant requests it, for a digest may name any
//! image of that repository.

pub mod derived;

use std::fmt;

use self::derived::DerivedImages;
use crate::image::parsed::parts;
use crate::image::path_set::PathSet;
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;

/// The exit images of an installation.
#[derive(Clone, Debug, Default)]
pub struct ExitImages {
    default: Option<ImageReference>,
    listed: Vec<ImagePattern>,
    /// The paths of the default; `None` if they are the standard ones.
    default_paths: Option<PathSet>,
    derived: Option<DerivedImages>,
    /// The last parts of the repositories of all of them; `None` if a pattern leaves one open.
    names: Option<Vec<Box<str>>>,
    /// What the administrator says of all of them: whether they can be pulled without credentials.
    said_public: Option<Public>,
    /// One image of each repository that has answered, that of the default and that of derived
    /// images: registries grant pulls by repository.
    answers: Vec<(ImageReference, Public)>,
}

/// The exit image chosen for one sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The image to write.
    pub image: &'a str,
    /// The image that the pod requested, if it is not on the list.
    pub refused: Option<&'a str>,
    /// True for the default, whose paths are known. The administrator vouches for those of the
    /// list.
    pub is_default: bool,
}

/// The reason why there is no exit image for a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// The pod requests something that is not an image reference; holds the parse error.
    Invalid(String),
    /// The pod requests no image, or one that is not on the list, and there is no default.
    Missing,
}

impl ExitImages {
    /// Creates the set. `default` is written if a pod names no image of the list; `listed` are the
    /// images that pods may name.
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

    /// Adds an image to the list; the default is unchanged.
    #[must_use]
    pub fn and_of(self, image: &ImageReference) -> Self {
        let (mut listed, derived) = (self.listed, self.derived);
        listed.extend(ImagePattern::parse(image.as_str()));
        let all = Self {
            default_paths: self.default_paths,
            said_public: self.said_public,
            answers: self.answers,
            ..Self::new(self.default, listed)
        };
        match derived {
            Some(derived) => all.with_derived(derived),
            None => all,
        }
    }

    /// Returns the default image, if there is one.
    pub const fn default_image(&self) -> Option<&ImageReference> {
        self.default.as_ref()
    }

    /// Returns the images that the administrator names in full: the default, and those of the list
    /// that are no patterns.
    pub fn named(&self) -> impl Iterator<Item = ImageReference> {
        let listed = self.listed.iter().map(ImagePattern::as_str);
        let listed = listed
            .filter(|image| !image.contains('*'))
            .filter_map(|image| ImageReference::parse(image).ok());
        self.default.iter().cloned().chain(listed)
    }

    /// Sets the paths of the default, instead of the standard ones.
    #[must_use]
    pub fn with_default_paths(self, paths: PathSet) -> Self {
        Self {
            default_paths: Some(paths),
            ..self
        }
    }

    /// Sets whether all of them can be pulled without credentials, whatever registries answer.
    #[must_use]
    pub fn said_public(mut self, public: Public) -> Self {
        self.said_public = Some(public);
        self
    }

    /// Records the answer of a registry for the repository of this image.
    pub fn answered_public(&mut self, image: &ImageReference, public: Public) {
        self.answers
            .retain(|(known, _)| !known.same_repository(image));
        self.answers.push((image.clone(), public));
    }

    /// Returns whether an exit image can be pulled without credentials.
    pub fn is_public(&self, image: &str) -> Public {
        let Ok(image) = ImageReference::parse(image) else {
            return Public::Unknown;
        };
        let is_it = |(known, _): &&(ImageReference, Public)| known.same_repository(&image);
        let known = self.answers.iter().find(is_it).map(|(_, public)| *public);
        self.said_public.or(known).unwrap_or_default()
    }

    /// Enables the derivation of images for other paths.
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

    /// Returns the paths of the default; `None` if they are the standard ones.
    pub fn default_paths(&self) -> Option<&PathSet> {
        self.default_paths.as_ref()
    }

    /// Returns the derived images; `None` if none are derived.
    pub const fn derived(&self) -> Option<&DerivedImages> {
        self.derived.as_ref()
    }

    /// Like [`derived`](Self::derived), to be changed.
    pub const fn derived_mut(&mut self) -> Option<&mut DerivedImages> {
        self.derived.as_mut()
    }

    /// Returns true for an exit image of the installation, also if an admission webhook has added a
    /// digest to the default.
    pub fn contains(&self, image: &str) -> bool {
        // Called for every sidecar at every event: most images are ruled out without parsing them
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

    /// Chooses the exit image for a container that requests this one, or none.
    ///
    /// # Errors
    /// [`NoChoice`] if nothing may be written.
    pub fn choose<'a>(&'a self, asked: Option<&'a str>) -> Result<Choice<'a>, NoChoice> {
        let Some(asked) = asked else {
            return self.fall_back(None);
        };
        let reference =
            ImageReference::parse(asked).map_err(|error| NoChoice::Invalid(error.to_string()))?;
        match self.listed(asked, &reference) {
            Some(image) => Ok(Choice {
                image,
                refused: None,
                is_default: self.is_default(&reference),
            }),
            None => self.fall_back(Some(asked)),
        }
    }

    /// Returns true if any pod that requests this image gets it.
    pub fn lists(&self, asked: &str) -> bool {
        let read = ImageReference::parse(asked);
        read.is_ok_and(|reference| self.listed(asked, &reference).is_some())
    }

    /// Returns the image for a container that requests this one, in the administrator's spelling,
    /// which the admission policies compare as text; `None` if it is not listed.
    fn listed<'a>(&'a self, asked: &'a str, reference: &ImageReference) -> Option<&'a str> {
        if self.is_default(reference) {
            return self.default.as_ref().map(ImageReference::as_str);
        }
        let matching = |pattern: &&ImagePattern| pattern.matches(reference);
        let exact = |pattern: &&ImagePattern| !pattern.as_str().contains('*') && matching(pattern);
        let spelled = |pattern: &ImagePattern| pattern.spells(asked);
        let patterns = || self.listed.iter();
        let is_spelled = patterns().any(|pattern| matching(&pattern)) && patterns().any(spelled);
        let exact = patterns().find(exact).map(ImagePattern::as_str);
        exact.or(is_spelled.then_some(asked))
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

    /// Returns true if this is the image of the installation or matches one that is listed. Exact,
    /// unlike [`contains`](Self::contains): a digest that a tenant adds to a listed tag could name
    /// any image of that repository.
    fn grants(&self, reference: &ImageReference) -> bool {
        self.is_default(reference) || self.listed.iter().any(|pattern| pattern.matches(reference))
    }
}

/// Returns `exit` of `registry.example/swaplet/exit:v1@sha256:...`, however the reference is
/// spelled.
fn last_part(image: &str) -> &str {
    parts(image).0.rsplit('/').next().unwrap_or_default()
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

// Whether exit images can be pulled without credentials. A kubelet from 1.35 on checks the
// credentials of each pod also for an image that it has (KEP-2535), and any kubelet where it has
// to pull: an image that one pod may use does not end the sidecars of another one.

/// Whether an image can be pulled without credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Public {
    /// Every node can pull it for every pod that has no credentials for its repository: a kubelet that
    /// finds some, even wrong ones, tries no pull without them.
    Yes,
    /// Its registry wants credentials.
    No,
    /// Its registry has given no clear answer, or was not asked.
    #[default]
    Unknown,
}

impl Public {
    /// Returns why a node may refuse the image to a pod, and what to do; `None` if none does.
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
