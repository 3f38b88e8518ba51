//! The command line: a module for each subcommand, or for those about one thing.

mod check;
mod image;
mod program;
mod protect;
mod restart;
mod rules;
mod run;
mod status;
mod terminate;
mod warm;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use swaplet_edge::command_line::{for_line, prepared, with_flags_behind, with_plugin_examples};
use swaplet_edge::{client, duration, exit, in_one_line, manifests, print};

use self::program::{about, anywhere, process};
use self::run::config::Called;
use self::terminate::{explain, nodes, policy, rescue};
use crate::image::registry::install_crypto;

/// Ends Job sidecars, restarts single containers and warms images where no node daemon can run.
#[derive(Debug, Parser)]
#[command(name = "swaplet", version, about)]
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
    Check(Box<check::CheckArgs>),
    Explain(Box<explain::ExplainArgs>),
    Rescue(Box<rescue::RescueArgs>),
    #[command(subcommand)]
    Policy(policy::Policy),
    Protect(protect::ProtectArgs),
    Nodes(nodes::NodesArgs),
    Probe(Box<nodes::probe::ProbeArgs>),
    Warm(Box<warm::WarmArgs>),
    #[command(subcommand)]
    ExitImage(image::exit::ExitImage),
    #[command(subcommand)]
    ParkImage(image::park::ParkImage),
    #[command(subcommand)]
    Image(image::Image),
    Version(about::VersionArgs),
    Completion(about::CompletionArgs),
}

/// The program name that kubectl searches for `kubectl swaplet`.
const PLUGIN: &str = "kubectl-swaplet";

/// Returns the program with its whole command line, as it is printed and parsed.
pub fn definition() -> clap::Command {
    prepared(anywhere::taken_by(Cli::command())).after_long_help(exit::help())
}

impl Cli {
    /// Parses a command line, the name of the program first. Called as a plugin of kubectl, it
    /// prints its name as the user wrote it.
    ///
    /// # Errors
    /// The usage, a help text, or what is invalid; also in the file of `swaplet run --config`.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        let called = line
            .first()
            .and_then(|program| Path::new(program).file_stem());
        let command = if called == Some(PLUGIN.as_ref()) {
            with_plugin_examples(definition()).bin_name("kubectl swaplet")
        } else {
            definition()
        };
        let line = with_flags_behind(&command, line);
        let command = for_line(command, &line);
        let read = Called::new(command, line).read()?;
        let mut cli = Self::from_arg_matches(&read.matches)?;
        if let Command::Run(args) = &mut cli.command {
            args.origins = read.settings;
        }
        Ok(cli)
    }

    /// Runs the chosen subcommand and returns the exit code of the process. An error is printed on
    /// standard error, in words that say what to do next.
    pub fn run(self) -> ExitCode {
        // A registry that refuses has failed the request; any other error leaves the command
        // undone.
        let code = match self.command {
            Command::ExitImage(_) | Command::ParkImage(_) | Command::Image(_) => exit::FAILED,
            _ => exit::CANNOT,
        };
        self.command.run().unwrap_or_else(|error| {
            say!("error: {}", in_one_line(&error));
            ExitCode::from(code)
        })
    }
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        install_crypto();
        process::raise_limit_of_files();
        // With one worker a loop that is stuck would keep timers, signals and the Lease from their turn.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(processors.max(2))
            .enable_all()
            .build()?;
        runtime.block_on(async {
            match self {
                Self::Run(args) => args.run().await,
                Self::Status(args) => args.run().await,
                Self::Restart(args) => args.run().await,
                Self::Parked(args) => args.run().await,
                Self::Check(args) => args.run().await,
                Self::Explain(args) => args.run().await,
                Self::Rescue(args) => args.run().await,
                Self::Policy(command) => command.run().await,
                Self::Protect(args) => args.run().await,
                Self::Nodes(args) => args.run().await,
                Self::Probe(args) => args.run().await,
                Self::Warm(args) => args.run().await,
                Self::ExitImage(command) => command.run().await,
                Self::ParkImage(command) => command.run().await,
                Self::Image(command) => command.run().await,
                Self::Version(args) => args.run().await,
                Self::Completion(args) => args.run(definition()),
            }
        })
    }
}
