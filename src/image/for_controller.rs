//! The requests of the controller to registries: it pushes exit images that pods need, with errors
//! in its own words.

use std::fmt::Display;
use std::time::Duration;

use swaplet_core::cluster::exit_images::derived::Trouble;
use swaplet_core::image::{ImageReference, Kind};

use crate::build::build_derived;
use crate::docker_config::{Credentials, DockerConfigError};
use crate::push::{PushError, has_platforms, push};
use crate::registry::{Registry, RegistryOptions};
use crate::registry_error::RegistryError;

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
    let credentials = credentials.map_err(|error| trouble(error, None))?;
    let image = build_derived(Kind::Exit, paths).map_err(|error| trouble(error, None))?;
    let digits = image
        .digest()
        .trim_start_matches("sha256:")
        .chars()
        .take(TAG_DIGITS);
    let tag = repository
        .with_tag(&digits.collect::<String>())
        .map_err(|error| trouble(error, None))?;
    let by_digest = format!(
        "{}/{}@{}",
        repository.registry(),
        repository.repository(),
        image.digest()
    );
    let reference = ImageReference::parse(&by_digest).map_err(|error| trouble(error, None))?;
    let registry = Registry::connect(repository, &credentials, options)
        .await
        .map_err(trouble_with_registry)?;
    let has_index = registry
        .digest(&reference)
        .await
        .map_err(trouble_with_registry)?
        .is_some();
    let is_there = has_index
        && has_platforms(&registry, &reference, &image)
            .await
            .map_err(trouble_with_registry)?;
    if !is_there {
        push(&registry, &tag, &image, false)
            .await
            .map_err(of_push)?;
    }
    Ok(by_digest.into())
}

fn trouble_with_registry(error: RegistryError) -> Trouble {
    trouble(&error, error.wait())
}

fn of_push(error: PushError) -> Trouble {
    match error {
        PushError::Registry(error) => trouble_with_registry(error),
        error => trouble(error, None),
    }
}

fn trouble(words: impl Display, retry_after: Option<Duration>) -> Trouble {
    Trouble {
        words: words.to_string(),
        retry_after,
    }
}
