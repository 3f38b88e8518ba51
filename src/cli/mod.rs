//! The command line: one file per subcommand.

mod check;
mod client;
mod demo;
mod exit_image;
mod exit_push;
mod explain;
mod image_export;
mod image_push;
mod manifests;
mod mock_node;
mod nodes;
mod park_image;
mod probe;
mod registry_args;
mod rescue;
mod rules;
mod run;
mod table;
mod warm;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::image::registry::install_crypto;

/// After this people wonder whether anything happens.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Ends Job sidecars, restarts single containers and warms images where no node daemon can run.
#[derive(Debug, Parser)]
#[command(name = "swaplet", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    Check(check::CheckArgs),
    Explain(Box<explain::ExplainArgs>),
    Rescue(Box<rescue::RescueArgs>),
    Nodes(nodes::NodesArgs),
    Probe(Box<probe::ProbeArgs>),
    Warm(Box<warm::WarmArgs>),
    ExitImage(exit_image::ExitImage),
    ParkImage(park_image::ParkImage),
    Demo(demo::DemoArgs),
    MockNode(Box<mock_node::MockNodeArgs>),
}

impl Cli {
    /// Runs the chosen subcommand and gives the exit code of the process.
    ///
    /// # Errors
    /// Whatever stopped the subcommand, in words that say what to do next.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        install_crypto();
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            match self.command {
                Command::Run(args) => args.run().await,
                Command::Check(args) => args.run().await,
                Command::Explain(args) => args.run().await,
                Command::Rescue(args) => args.run().await,
                Command::Nodes(args) => args.run().await,
                Command::Probe(args) => args.run().await,
                Command::Warm(args) => args.run().await,
                Command::ExitImage(command) => command.run().await,
                Command::ParkImage(command) => command.run().await,
                Command::Demo(args) => args.run().await,
                Command::MockNode(args) => args.run().await,
            }
        })
    }
}

/// Says on a terminal what takes longer than a second.
async fn slowly<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    match tokio::time::timeout(NOTICEABLE, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            if io::stderr().is_terminal() {
                eprintln!("{what} ...");
            }
            work.await
        }
    }
}

/// Prints results. A reader that has seen enough (`| head`) is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
