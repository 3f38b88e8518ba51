//! The client of the registry, made for one image and its login.

use oci_distribution::Reference;
use oci_distribution::client::{ClientConfig, ClientProtocol};
use oci_distribution::secrets::RegistryAuth;
use swaplet_core::image::reference::ImageReference;

use super::ask::{Asker, USER_AGENT};
use super::hosts::Hosts;
use super::login::Login;
use super::options::RegistryOptions;
use crate::registry_error::{Problem, RegistryError};

/// Converts an image reference to the type of the registry client.
pub(super) fn for_client(image: &ImageReference) -> Reference {
    let (registry, repository) = (image.registry().to_owned(), image.repository().to_owned());
    match (
        image.tag().map(str::to_owned),
        image.digest().map(str::to_owned),
    ) {
        (Some(tag), Some(digest)) => {
            Reference::with_tag_and_digest(registry, repository, tag, digest)
        }
        (None, Some(digest)) => Reference::with_digest(registry, repository, digest),
        // A reference without a digest has a tag, if only `latest`.
        (tag, None) => Reference::with_tag(registry, repository, tag.unwrap_or_default()),
    }
}

pub(super) fn asker(
    reference: &ImageReference,
    options: &RegistryOptions,
    operation: &str,
) -> Result<Asker, RegistryError> {
    let registry = for_client(reference).resolve_registry().to_owned();
    let (plain_http, allowed, reach) = (
        options.plain_http.clone(),
        options.allowed.clone(),
        options.reach.clone(),
    );
    let hosts = Hosts {
        plain_http,
        allowed,
        registry,
        reach,
    };
    let refuse = |why: String| RegistryError::new(operation, Problem::Refused, why);
    let address = hosts
        .address()
        .ok_or_else(|| refuse(format!("{} is not a host", hosts.registry)))?;
    hosts.check(&address).map_err(refuse)?;
    Asker::new(hosts, options.timeout)
        .map_err(|error| RegistryError::from_http(operation, options.timeout, &error))
}

pub(super) fn client_config(hosts: &Hosts, options: &RegistryOptions) -> ClientConfig {
    ClientConfig {
        protocol: if hosts.is_plain() {
            ClientProtocol::Http
        } else {
            ClientProtocol::Https
        },
        read_timeout: Some(options.timeout),
        connect_timeout: Some(options.timeout),
        user_agent: USER_AGENT,
        platform_resolver: None,
        ..ClientConfig::default()
    }
}

pub(super) fn registry_auth(login: &Login) -> RegistryAuth {
    match login {
        Login::Anonymous => RegistryAuth::Anonymous,
        Login::Basic { user, password } => RegistryAuth::Basic(user.clone(), password.clone()),
        Login::Token(token) => RegistryAuth::Bearer(token.clone()),
    }
}
