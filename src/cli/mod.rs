//! The command line: one file per subcommand.

mod client;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Run(run::RunArgs),
}

impl Cli {
    /// Runs the chosen subcommand and gives the exit code of the process.
    ///
    /// # Errors
    /// Whatever stopped the subcommand, in words that say what to do next.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        // The TLS library has two cryptography providers; this names the one that is compiled in. It fails only if called twice.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            match self.command {
                Command::Run(args) => args.run().await,
            }
        })
    }
}
