//! The command line: a module for each subcommand, or for those about one thing.

mod check;
mod explain;
mod image;
mod nodes;
mod open_files;
mod rescue;
mod restart;
mod rules;
mod run;
mod status;
mod table;
mod warm;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use swaplet_edge::{client, manifests, print};

use self::run::config::Called;
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
    Status(Box<status::StatusArgs>),
    Restart(Box<restart::RestartArgs>),
    Parked(restart::parked::ParkedArgs),
    Check(check::CheckArgs),
    Explain(Box<explain::ExplainArgs>),
    Rescue(Box<rescue::RescueArgs>),
    Nodes(nodes::NodesArgs),
    Probe(Box<nodes::probe::ProbeArgs>),
    Warm(Box<warm::WarmArgs>),
    ExitImage(image::exit::ExitImage),
    ParkImage(image::park::ParkImage),
    Image(image::Image),
}

/// The name by which kubectl finds a program that it is to run as `kubectl swaplet`.
const PLUGIN: &str = "kubectl-swaplet";

impl Cli {
    /// Reads a command line, the name of the program first. Called as a plugin of kubectl, it
    /// speaks of itself as the user does.
    ///
    /// # Errors
    /// The usage, a help text, or what is wrong; also what is wrong with the file of `swaplet run
    /// --config`.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        let called = line
            .first()
            .and_then(|program| Path::new(program).file_stem());
        let command = if called == Some(PLUGIN.as_ref()) {
            Self::command().bin_name("kubectl swaplet")
        } else {
            Self::command()
        };
        let read = Called::new(command, line).read()?;
        let mut cli = Self::from_arg_matches(&read.matches)?;
        if let Command::Run(args) = &mut cli.command {
            args.configured_by(read.settings);
        }
        Ok(cli)
    }

    /// Runs the chosen subcommand and gives the exit code of the process.
    ///
    /// # Errors
    /// Whatever stopped the subcommand, in words that say what to do next.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        install_crypto();
        open_files::raise_limit();
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            match self.command {
                Command::Run(args) => args.run().await,
                Command::Status(args) => args.run().await,
                Command::Restart(args) => Ok(args.run().await),
                Command::Parked(args) => args.run().await,
                Command::Check(args) => args.run().await,
                Command::Explain(args) => args.run().await,
                Command::Rescue(args) => args.run().await,
                Command::Nodes(args) => args.run().await,
                Command::Probe(args) => args.run().await,
                Command::Warm(args) => args.run().await,
                Command::ExitImage(command) => command.run().await,
                Command::ParkImage(command) => command.run().await,
                Command::Image(command) => command.run().await,
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
