//! The connection of a subcommand to its cluster.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use swaplet_controller::frame::connection::{connect, connect_within};
use swaplet_controller::frame::list::words;

use crate::duration;

/// The heading of the flags below in the help.
pub const HEADING: &str = "Cluster";

/// Which cluster, and as whom.
#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub struct ConnectionArgs {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's own account]
    #[arg(long, value_name = "FILE", env = "SWAPLET_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file
    #[arg(long, env = "SWAPLET_CONTEXT")]
    context: Option<String>,
    /// Act as this user; needs the right to impersonate it
    #[arg(long = "as", value_name = "USER", env = "SWAPLET_AS")]
    as_user: Option<String>,
    /// Act as a member of this group (repeatable); needs --as
    #[arg(
        hide_short_help = true,
        long,
        value_name = "GROUP",
        env = "SWAPLET_AS_GROUP",
        value_delimiter = ',',
        requires = "as_user"
    )]
    as_group: Vec<String>,
}

/// Which cluster, as whom, and how long an answer is waited for.
#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub struct ClusterArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// How long the API server may take to answer, such as 5s or 2m; 0: no limit
    #[arg(long, value_name = "DURATION", env = "SWAPLET_REQUEST_TIMEOUT", default_value = "30s", value_parser = duration::duration)]
    request_timeout: Duration,
}

impl ClusterArgs {
    /// Returns a client that never retries by itself. Each of its requests fails if it is not
    /// answered within `--request-timeout`.
    ///
    /// # Errors
    /// Fails without a usable configuration, and names where it was searched.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let limit = Some(self.request_timeout).filter(|limit| !limit.is_zero());
        Ok(connect_within(self.connection.config().await?, limit)?)
    }

    /// Like [`client`](Self::client), after the API server has reported its version: for commands
    /// that would keep querying a silent server.
    ///
    /// # Errors
    /// Fails without a usable configuration, or without an answer.
    pub async fn client_that_answers(&self) -> anyhow::Result<Client> {
        let client = self.client().await?;
        client.apiserver_version().await.map_err(plain)?;
        Ok(client)
    }
}

impl ConnectionArgs {
    /// Returns a client that never retries by itself, and whose user sets the time for each
    /// request.
    ///
    /// # Errors
    /// Fails without a usable configuration, and names where it was searched.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Ok(connect(self.config().await?)?)
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let cannot = || format!("--kubeconfig {}", file.display());
                let read = Kubeconfig::read_from(file).map_err(reason);
                Config::from_custom_kubeconfig(read.with_context(cannot)?, &options)
                    .await
                    .map_err(reason)
                    .with_context(cannot)?
            }
            None if options.context.is_some() => {
                Config::from_kubeconfig(&options).await.map_err(reason)?
            }
            None => Config::infer().await.map_err(nowhere)?,
        };
        if self.as_user.is_some() {
            config.auth_info.impersonate.clone_from(&self.as_user);
            config.auth_info.impersonate_groups = Some(self.as_group.clone());
        }
        config
            .headers
            .push((http::header::USER_AGENT, user_agent()));
        Ok(config)
    }
}

/// Returns what is wrong with a kubeconfig, without the path, which the caller adds.
fn reason(error: KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.into(),
        other => anyhow!(other.to_string()),
    }
}

/// Returns the error that there is neither a file nor an account, or that a file cannot be used.
fn nowhere(error: InferConfigError) -> anyhow::Error {
    const HINT: &str =
        "cannot find a cluster: pass --kubeconfig FILE, set KUBECONFIG, or run in a pod";
    let words = error.to_string();
    let why = words
        .split_once("kubeconfig: (")
        .map_or(&*words, |(_, why)| why.trim_end_matches(')'));
    if why.contains("No such file") || why.contains("failed to find the path") {
        anyhow!(HINT)
    } else {
        anyhow!("{HINT}: {why}")
    }
}

/// Returns the answer of the API server in plain words, and once: the sources of such an error
/// repeat its message.
#[must_use]
pub fn plain(error: kube::Error) -> anyhow::Error {
    anyhow::Error::msg(words(&error))
}

fn user_agent() -> http::HeaderValue {
    http::HeaderValue::from_static(concat!("swaplet/", env!("CARGO_PKG_VERSION")))
}
