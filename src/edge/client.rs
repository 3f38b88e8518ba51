//! How a subcommand reaches its cluster.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use swaplet_controller::frame::connection::connect;

/// Which cluster, and as whom.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's own account]
    #[arg(long, value_name = "FILE", env = "SWAPLET_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file
    #[arg(long, env = "SWAPLET_CONTEXT")]
    context: Option<String>,
}

impl ClusterArgs {
    /// A client that never retries by itself.
    ///
    /// # Errors
    /// No usable configuration; says where it was looked for.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let mut config = self.config().await.context(
            "cannot find a cluster: pass --kubeconfig FILE, set KUBECONFIG, or run in a pod",
        )?;
        config
            .headers
            .push((http::header::USER_AGENT, user_agent()));
        Ok(connect(config)?)
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        Ok(match &self.kubeconfig {
            Some(file) => {
                Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?
            }
            None if options.context.is_some() => Config::from_kubeconfig(&options).await?,
            None => Config::infer().await?,
        })
    }
}

fn user_agent() -> http::HeaderValue {
    http::HeaderValue::from_static(concat!("swaplet/", env!("CARGO_PKG_VERSION")))
}
