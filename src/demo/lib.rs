//! swaplet without a cluster of one's own: the demo, and a node that runs nothing. A program apart,
//! for the testbed has no place in the one that is installed in clusters.

mod demo;
mod mock_node;
mod signals;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use swaplet_edge::command_line::{for_line, prepared, with_variable};
use swaplet_edge::exit;

/// Shows swaplet in a cluster that lives in this process, and plays nodes in real ones.
#[derive(Debug, Parser)]
#[command(name = "swaplet-demo", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    MockNode(Box<mock_node::MockNodeArgs>),
}

/// The program with all that its command line takes, as it is printed and read.
#[must_use]
pub fn definition() -> clap::Command {
    prepared(Cli::command()).after_long_help(exit::help())
}

impl Cli {
    /// Reads the command line that the process was called with. What is wrong with it ends the
    /// process, as does a help text.
    #[must_use]
    pub fn read() -> Self {
        let line: Vec<_> = std::env::args_os().collect();
        let definition = for_line(definition(), &line);
        let read = definition
            .clone()
            .try_get_matches_from(&line)
            .map_err(|error| with_variable(&definition, &line, error))
            .and_then(|matches| Self::from_arg_matches(&matches));
        read.unwrap_or_else(|error| error.exit())
    }

    /// Runs the chosen subcommand and gives the exit code of the process.
    ///
    /// # Errors
    /// Whatever stopped the subcommand, in words that say what to do next.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            match self.command {
                Command::Demo(args) => args.run().await,
                Command::MockNode(args) => args.run().await,
            }
        })
    }
}
