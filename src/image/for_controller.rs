//! The requests of the controller to registries: it pushes exit images that pods need, and resolves
//! tags to digests, with errors in its own words.

use std::fmt::Display;
use std::time::Duration;

use swaplet_core::cluster::exit_images::derived::Trouble;
use swaplet_core::image::{ImageReference, Kind};
use swaplet_core::warm::pull_job::pins::{Resolved, Unresolved};

use crate::build::build_derived;
use crate::docker_config::{Credentials, DockerConfigError};
use crate::push::{PushError, has_platforms, push};
use crate::registry::{Access, Reach, Registry, RegistryOptions};
use crate::registry_error::{Problem, RegistryError};

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

/// Returns the digest of a tag. An image for several platforms has one digest for all of them, that
/// of its index.
///
/// # Errors
/// Returns what the registry or the credentials refuse.
pub async fn resolve(
    image: &ImageReference,
    credentials: Result<Credentials, DockerConfigError>,
    options: RegistryOptions,
) -> Resolved {
    let credentials = credentials.map_err(unknown)?;
    let options = RegistryOptions {
        access: Access::Pull,
        ..options
    };
    let is_for_others = matches!(options.reach, Reach::Judged(_));
    let is_anonymous = matches!(credentials, Credentials::Anonymous);
    let problem = |error: RegistryError| {
        if is_for_others {
            for_others(image, is_anonymous, error)
        } else {
            of_registry(error)
        }
    };
    let registry = Registry::connect(image, &credentials, options)
        .await
        .map_err(problem)?;
    match registry.digest(image).await.map_err(problem)? {
        Some(digest) => Ok(digest.into()),
        None => Err(answer(format!(
            "{} has no {}",
            image.registry(),
            image.normalized()
        ))),
    }
}

fn unknown(words: impl Display) -> Unresolved {
    Unresolved {
        words: words.to_string().into(),
        is_answer: false,
        retry_after: None,
    }
}

fn answer(words: String) -> Unresolved {
    Unresolved {
        words: words.into(),
        is_answer: true,
        retry_after: None,
    }
}

/// Returns the error about a registry that somebody else has named. It does not reveal what is at
/// an address, or whether there is one; the log has it, for the administrator.
fn for_others(image: &ImageReference, is_anonymous: bool, error: RegistryError) -> Unresolved {
    let registry = image.registry();
    match error.problem() {
        Problem::Timeout(_) | Problem::Unreachable => {
            tracing::debug!(%image, %error, "the registry of an image of a job was not reached");
            unknown(format!(
                "{registry} cannot be reached; if it is in a private network, the administrator can allow that with --pin-private-registries, or this host with --allow-host"
            ))
        }
        Problem::Unauthorized | Problem::Forbidden if is_anonymous => answer(format!(
            "{registry} requires credentials for {}, and is queried without them: the administrator can list repositories that are queried with those of swaplet, by --pin-credentials",
            image.repository()
        )),
        _ => of_registry(error),
    }
}

fn of_registry(error: RegistryError) -> Unresolved {
    match error.problem() {
        Problem::Unauthorized
        | Problem::Forbidden
        | Problem::NotFound
        | Problem::InvalidName
        | Problem::Refused
        | Problem::TooLarge
        | Problem::DigestMismatch => answer(error.to_string()),
        Problem::TooManyRequests
        | Problem::Server(_)
        | Problem::Rejected
        | Problem::Timeout(_)
        | Problem::Unreachable => Unresolved {
            retry_after: error.wait(),
            ..unknown(error)
        },
    }
}
