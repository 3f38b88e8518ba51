//! Pushes of images, which never overwrite something else.

use serde_json::Value;

use super::build::{BuiltImage, PlatformImage};
use super::registry::{Registry, json_in};
use super::registry_error::{Problem, RegistryError};
use swaplet_core::image::label::{LABEL, Label};
use swaplet_core::image::reference::{ImageReference, ReferenceError};

/// The longest tag that the distribution specification allows.
const MAX_TAG: usize = 128;

/// The most platforms that an index of ours can have; it bounds what is read to find out whether an
/// index is ours.
const MAX_PLATFORMS: usize = 16;

/// The present content of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// The reference does not exist.
    Nothing,
    /// An image of ours, by the label of every platform.
    Ours(Label),
    /// Anything that is not ours, or not all of it.
    Foreign,
}

/// The result of a push that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The image was written, or those of its platforms that the registry did not have.
    Pushed,
    /// The reference held exactly this image already, with all platforms; nothing was written.
    Unchanged,
}

/// A push that was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The image or the reference does not allow it, for the reason in this message.
    #[error("{0}")]
    Refused(String),
    /// A name derived from the reference is not a reference.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The registry has refused a request, or did not answer.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// Pushes an image to the tag of `reference`, and its platforms to tags such as `TAG-amd64`. It
/// inspects these tags first: another kind of image is never overwritten, a foreign one only with
/// `force`. If the tag has this index already, only platforms that the registry has lost are written.
///
/// # Errors
/// Returns a [`PushError`] if a tag must not be written, or the registry fails.
pub async fn push(
    registry: &Registry,
    reference: &ImageReference,
    image: &BuiltImage,
    force: bool,
) -> Result<Outcome, PushError> {
    let targets = Targets::new(reference, image)?;
    let has_index = registry.digest(&targets.index).await?.as_deref() == Some(image.digest());
    let mut absent = Vec::new();
    for (target, platform) in targets.platforms.iter().zip(&image.platforms) {
        // A push that was interrupted has left its tags, and some registries refuse to write a tag
        // again, even with the same digest.
        let is_there = if has_index {
            has_platform(registry, target, platform).await?
        } else {
            registry.digest(target).await?.as_deref() == Some(&*platform.manifest.digest)
        };
        if !is_there {
            absent.push((target, platform));
        }
    }
    if has_index && absent.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let mut written: Vec<&ImageReference> = Vec::new();
    written.extend((!has_index).then_some(&targets.index));
    written.extend(absent.iter().map(|(target, _)| *target));
    for target in written {
        guard(target, inspect(registry, target).await?, image.label, force)?;
    }
    for (target, platform) in absent {
        registry.push_blob(target, &platform.layer).await?;
        registry.push_blob(target, &platform.config).await?;
        // Not under its digest alone: some registries delete manifests without a tag.
        registry.push_manifest(target, &platform.manifest).await?;
    }
    if !has_index {
        registry.push_manifest(&targets.index, &image.index).await?;
    }
    Ok(Outcome::Pushed)
}

/// Checks that this image can be pushed to this reference, without a request to the registry.
///
/// # Errors
/// Returns a [`PushError`] if there is no tag, it is too long, or the digest is another one.
pub fn check_reference(reference: &ImageReference, image: &BuiltImage) -> Result<(), PushError> {
    Targets::new(reference, image).map(drop)
}

/// Returns what a reference holds now.
///
/// # Errors
/// Returns a [`RegistryError`] if the registry fails.
pub async fn inspect(
    registry: &Registry,
    reference: &ImageReference,
) -> Result<Holding, RegistryError> {
    let Some((manifest, _)) = registry.manifest(reference).await? else {
        return Ok(Holding::Nothing);
    };
    let manifest = json_in(&manifest);
    let Some(entries) = manifest["manifests"].as_array() else {
        return Ok(holding(
            kind_of_manifest(registry, reference, &manifest).await?,
        ));
    };
    if entries.len() > MAX_PLATFORMS {
        return Ok(Holding::Foreign);
    }
    let mut kind = None;
    for entry in entries {
        let this = kind_of_entry(registry, reference, entry).await?;
        if this.is_none() || (kind.is_some() && kind != this) {
            return Ok(Holding::Foreign);
        }
        kind = this;
    }
    Ok(holding(kind))
}

/// The references that a push writes to.
struct Targets {
    index: ImageReference,
    platforms: Vec<ImageReference>,
}

impl Targets {
    fn new(reference: &ImageReference, image: &BuiltImage) -> Result<Self, PushError> {
        let refused = |words: String| PushError::Refused(format!("{reference} {words}"));
        let tag = reference.tag().ok_or_else(|| {
            refused("names no tag; write it as REPOSITORY:TAG, with @DIGEST behind it if the digest is to be checked".to_owned())
        })?;
        let digest = image.digest();
        if reference.digest().is_some_and(|pinned| pinned != digest) {
            return Err(refused(format!(
                "is pinned, but the image that would be pushed has the digest {digest}; leave the digest away, or use the release of swaplet that made it"
            )));
        }
        let tags: Vec<String> = image
            .platforms
            .iter()
            .map(|platform| format!("{tag}-{}", platform.platform))
            .collect();
        if tags.iter().any(|tag| tag.len() > MAX_TAG) {
            return Err(PushError::Refused(format!(
                "the tag of {reference} is too long: with the name of a platform behind it, it must not exceed {MAX_TAG} characters"
            )));
        }
        Ok(Self {
            index: reference.with_tag(tag)?,
            platforms: tags
                .iter()
                .map(|tag| reference.with_tag(tag))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn guard(
    reference: &ImageReference,
    holding: Holding,
    pushed: Label,
    force: bool,
) -> Result<(), PushError> {
    match holding {
        Holding::Ours(there) if there != pushed => Err(PushError::Refused(format!(
            "{reference} holds the {there} image of swaplet, and images of two kinds never share a reference: containers would end that should stay, or stay that should end; push the {pushed} image to another repository"
        ))),
        Holding::Foreign if !force => Err(PushError::Refused(format!(
            "{reference} holds an image that swaplet did not make; push to another repository or tag, or overwrite it with --force"
        ))),
        Holding::Nothing | Holding::Ours(_) | Holding::Foreign => Ok(()),
    }
}

/// Returns true if the repository of `reference` has the manifests of all platforms of an image.
///
/// # Errors
/// Returns what the registry refuses.
pub async fn has_platforms(
    registry: &Registry,
    reference: &ImageReference,
    image: &BuiltImage,
) -> Result<bool, RegistryError> {
    for platform in &image.platforms {
        if !has_platform(registry, reference, platform).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if the registry has the manifest that the index names for a platform. Registries may
/// have deleted it alone, as garbage or by hand.
async fn has_platform(
    registry: &Registry,
    target: &ImageReference,
    image: &PlatformImage,
) -> Result<bool, RegistryError> {
    match by_digest(target, &image.manifest.digest) {
        Ok(manifest) => Ok(registry.digest(&manifest).await?.is_some()),
        Err(_) => Ok(false),
    }
}

fn holding(kind: Option<Label>) -> Holding {
    kind.map_or(Holding::Foreign, Holding::Ours)
}

async fn kind_of_entry(
    registry: &Registry,
    reference: &ImageReference,
    entry: &Value,
) -> Result<Option<Label>, RegistryError> {
    let digest = entry["digest"].as_str().unwrap_or_default();
    let Ok(child) = by_digest(reference, digest) else {
        return Ok(None);
    };
    match registry.manifest(&child).await? {
        Some((manifest, _)) => kind_of_manifest(registry, reference, &json_in(&manifest)).await,
        None => Ok(None),
    }
}

/// Returns the reference to a digest in the same repository; an error if it is no digest.
pub(crate) fn by_digest(
    reference: &ImageReference,
    digest: &str,
) -> Result<ImageReference, ReferenceError> {
    let (registry, repository) = (reference.registry(), reference.repository());
    ImageReference::parse(&format!("{registry}/{repository}@{digest}"))
}

/// Returns the kind in the label of the configuration, which stays with the image wherever it is.
async fn kind_of_manifest(
    registry: &Registry,
    reference: &ImageReference,
    manifest: &Value,
) -> Result<Option<Label>, RegistryError> {
    let Some(digest) = manifest["config"]["digest"].as_str() else {
        return Ok(None);
    };
    // It may be any text, and becomes a part of the path that is asked for.
    if by_digest(reference, digest).is_err() {
        return Ok(None);
    }
    let config = match registry.blob(reference, digest).await {
        Ok(config) => json_in(&config.unwrap_or_default()),
        Err(error) if error.problem() == Problem::TooLarge => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(config["config"]["Labels"][LABEL]
        .as_str()
        .and_then(|value| value.parse().ok()))
}

#[cfg(test)]
mod tests;
