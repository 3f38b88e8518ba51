//! The flags to reach a registry, shared by every command that uses one.

use std::path::PathBuf;

use clap::Args;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::terminate::derive::Push;
use swaplet_controller::warm::resolve::Resolve;

use super::pins::PinArgs;
use crate::image::ImageReference;
use crate::image::docker_config::{Credentials, DockerConfig, DockerConfigError};
use crate::image::for_controller::{push_derived, resolve};
use crate::image::registry::RegistryOptions;

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct RegistryArgs {
    /// Speak to this registry host, with or without port, without TLS (repeatable; never needed for
    /// loopback addresses)
    #[arg(
        hide_short_help = true,
        long,
        value_name = "HOST",
        env = "SWAPLET_PLAIN_HTTP",
        value_delimiter = ','
    )]
    plain_http: Vec<String>,

    /// Speak to this registry host, with or without port, although its address is link-local or the
    /// name of a Service (repeatable)
    #[arg(
        hide_short_help = true,
        long,
        value_name = "HOST",
        env = "SWAPLET_ALLOW_HOST",
        value_delimiter = ','
    )]
    allow_host: Vec<String>,

    /// Take the credentials from this file [default: $DOCKER_CONFIG/config.json or
    /// ~/.docker/config.json]
    #[arg(long, value_name = "FILE", env = "SWAPLET_DOCKER_CONFIG")]
    docker_config: Option<PathBuf>,
}

impl RegistryArgs {
    /// Returns options with these hosts, and defaults for everything else.
    pub(in crate::cli) fn options(&self) -> RegistryOptions {
        RegistryOptions {
            plain_http: self.plain_http.clone(),
            allowed: self.allow_host.clone(),
            ..RegistryOptions::default()
        }
    }

    /// Returns how exit images are pushed; `None` if the rules need no pushes. Credentials are read
    /// before each push, because they may have been renewed.
    pub(in crate::cli) fn push(self, rules: &Rules) -> Option<Push> {
        let repository = rules.exit_images.repository()?.clone();
        Some(Push::by(move |paths| {
            let (repository, options, credentials) = (
                repository.clone(),
                self.options(),
                self.credentials(&repository),
            );
            async move { push_derived(&repository, credentials, options, &paths).await }
        }))
    }

    /// Returns how tags in the objects of others are resolved: they must not choose this machine,
    /// nor be shown what only its credentials can read.
    pub(in crate::cli) fn resolve_for_others(&self, pins: PinArgs) -> Resolve {
        let args = self.clone();
        let options = RegistryOptions {
            reach: pins.reach(),
            ..self.options()
        };
        Resolve::by(move |image| {
            let credentials = if pins.shows_credentials(&image) {
                args.credentials(&image)
            } else {
                Ok(Credentials::Anonymous)
            };
            let options = options.clone();
            async move { resolve(&image, credentials, options).await }
        })
    }

    /// Returns how tags are resolved to digests.
    pub(in crate::cli) fn resolve(&self, options: RegistryOptions) -> Resolve {
        let args = self.clone();
        Resolve::by(move |image| {
            let (options, credentials) = (options.clone(), args.credentials(&image));
            async move { resolve(&image, credentials, options).await }
        })
    }

    /// Reads the credentials for the repository of `reference`, each time again: a file may have
    /// been renewed since.
    pub(in crate::cli) fn credentials(
        &self,
        reference: &ImageReference,
    ) -> Result<Credentials, DockerConfigError> {
        match &self.docker_config {
            Some(file) => DockerConfig::load_from(file)?.credentials(reference),
            None => DockerConfig::load()?.credentials(reference),
        }
    }
}
