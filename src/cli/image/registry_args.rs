//! The flags to reach a registry, shared by every command that uses one.

use std::path::PathBuf;

use clap::Args;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::terminate::derive::Push;
use swaplet_controller::terminate::public::AskPublic;

use crate::image::ImageReference;
use crate::image::docker_config::{Credentials, DockerConfig, DockerConfigError};
use crate::image::for_controller::push_derived;
use crate::image::registry::{RegistryOptions, is_public};

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct HostArgs {
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
}

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct RegistryArgs {
    #[command(flatten)]
    pub(in crate::cli) hosts: HostArgs,

    /// Take the credentials from this file [default: $DOCKER_CONFIG/config.json or
    /// ~/.docker/config.json]
    #[arg(long, value_name = "FILE", env = "SWAPLET_DOCKER_CONFIG")]
    docker_config: Option<PathBuf>,
}

impl HostArgs {
    /// Returns arguments with these hosts, which are spoken to without TLS.
    pub(in crate::cli) const fn of(plain_http: Vec<String>) -> Self {
        Self { plain_http }
    }

    /// Returns options with these hosts, and defaults for everything else.
    pub(in crate::cli) fn options(&self) -> RegistryOptions {
        RegistryOptions {
            plain_http: self.plain_http.clone(),
            ..RegistryOptions::default()
        }
    }

    /// Returns how registries are asked whether an image can be pulled without credentials.
    pub(in crate::cli) fn ask_public(&self) -> AskPublic {
        let options = self.options();
        AskPublic::by(move |image| {
            let options = options.clone();
            async move {
                let answer = is_public(&image, options).await;
                answer.map_err(|error| error.to_string())
            }
        })
    }
}

impl RegistryArgs {
    /// Returns how exit images are pushed; `None` if the rules need no pushes. Credentials are read
    /// before each push, because they may have been renewed.
    pub(in crate::cli) fn push(self, rules: &Rules) -> Option<Push> {
        let repository = rules.exit_images.repository()?.clone();
        Some(Push::by(move |paths| {
            let (repository, options, credentials) = (
                repository.clone(),
                self.hosts.options(),
                self.credentials(&repository),
            );
            async move { push_derived(&repository, credentials, options, &paths).await }
        }))
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
