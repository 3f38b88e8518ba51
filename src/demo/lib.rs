//! swaplet without a cluster of one's own: the demo, and a node that runs nothing. It is a separate
//! program, because the testbed does not belong in the one that is installed in clusters.

#[macro_use(say)]
extern crate swaplet_edge;

mod demo;
mod mock_node;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use swaplet_edge::command_line::{for_line, prepared, with_variable};
use swaplet_edge::exit;

/// Shows swaplet in a cluster inside this process, and plays nodes in real ones.
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

/// Returns the program with its whole command line, as it is printed and parsed.
pub fn definition() -> clap::Command {
    prepared(Cli::command()).after_long_help(exit::help())
}

impl Cli {
    /// Parses the command line of the process. An error ends the process, as does a help text.
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

    /// Runs the chosen subcommand and returns the exit code of the process.
    ///
    /// # Errors
    /// The error that stopped the subcommand, in words that say what to do next.
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
