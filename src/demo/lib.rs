//! swaplet without a cluster of one's own: the demo, and a node that runs nothing. A program apart,
//! for the testbed has no place in the one that is installed in clusters.

mod demo;
mod mock_node;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use swaplet_edge::print;
use swaplet_testbed as testbed;

/// Shows swaplet in a cluster that lives in this process, and plays nodes in real ones.
#[derive(Debug, Parser)]
#[command(name = "swaplet-demo", version, about, max_term_width = 100)]
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

impl Cli {
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
