//! `swaplet policy`: commands about SidecarPolicies.

mod manifest;
mod suggest;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Suggest SidecarPolicies
///
/// A SidecarPolicy names containers that are sidecars without being marked.
#[derive(Debug, Args)]
pub(in crate::cli) struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Suggest(suggest::SuggestArgs),
}

impl Policy {
    pub(in crate::cli) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Suggest(args) => args.run().await,
        }
    }
}
