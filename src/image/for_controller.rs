//! The requests of the controller to registries: it pushes exit images that pods need, with errors
//! in its own words.

use std::fmt::Display;

use swaplet_core::cluster::exit_images::derived::Trouble;
use swaplet_core::image::{ImageReference, Kind};

use crate::build::build_derived;
use crate::docker_config::{Credentials, DockerConfigError};
use crate::push::{PushError, by_digest, has_platforms, push};
use crate::registry::{Registry, RegistryOptions};

/// The digits of a digest that make a tag which no other image has.
const TAG_DIGITS: usize = 16;

/// Pushes the exit image with these paths, unless it exists with all platforms, and returns the
/// reference to write.
///
/// The image is written by its digest, and kept under a tag, so that no registry collects it as
/// garbage.
///
/// # Errors
/// Returns what the registry, the credentials or the paths refuse.
pub async fn push_derived(
    repository: &ImageReference,
    credentials: Result<Credentials, DockerConfigError>,
    options: RegistryOptions,
    paths: &[String],
) -> Result<Box<str>, Trouble> {
    push_unless_there(repository, credentials, options, paths)
        .await
        .map_err(|error| Trouble {
            words: error.to_string(),
            retry_after: match error {
                PushError::Registry(error) => error.wait(),
                PushError::Refused(_) | PushError::Reference(_) => None,
            },
        })
}

async fn push_unless_there(
    repository: &ImageReference,
    credentials: Result<Credentials, DockerConfigError>,
    options: RegistryOptions,
    paths: &[String],
) -> Result<Box<str>, PushError> {
    let credentials = credentials.map_err(refused)?;
    let image = build_derived(Kind::Exit, paths).map_err(refused)?;
    let digits = image
        .digest()
        .trim_start_matches("sha256:")
        .chars()
        .take(TAG_DIGITS);
    let tag = repository.with_tag(&digits.collect::<String>())?;
    let reference = by_digest(repository, image.digest())?;
    let registry = Registry::connect(repository, &credentials, options).await?;
    let is_there = registry.digest(&reference).await?.is_some()
        && has_platforms(&registry, &reference, &image).await?;
    if !is_there {
        push(&registry, &tag, &image, false).await?;
    }
    Ok(reference.as_str().into())
}

fn refused(error: impl Display) -> PushError {
    PushError::Refused(error.to_string())
}
