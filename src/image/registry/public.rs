//! Whether an image can be pulled without credentials.

use super::options::{Access, RegistryOptions};
use super::{ImageReference, Registry};
use crate::docker_config::Credentials;
use crate::registry_error::{Problem, RegistryError};

/// Asks the registry of an image whether it can be pulled without credentials. None are sent, and
/// it is asked once: whoever wants a clear answer asks again later.
///
/// # Errors
/// [`RegistryError`] if that is not clear: the registry cannot be reached, or does not have the
/// image. Some say so of every image that the credentials do not open.
pub async fn is_public(
    image: &ImageReference,
    options: RegistryOptions,
) -> Result<bool, RegistryError> {
    let options = RegistryOptions {
        access: Access::Pull,
        pauses: Vec::new(),
        ..options
    };
    let found = async {
        let registry = Registry::connect(image, &Credentials::Anonymous, options).await?;
        registry.digest(image).await
    };
    match found.await {
        Ok(Some(_)) => Ok(true),
        Ok(None) => Err(RegistryError::new(
            &format!("reading {image} without credentials"),
            Problem::NotFound,
            "",
        )),
        Err(error) if matches!(error.problem(), Problem::Unauthorized | Problem::Forbidden) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
