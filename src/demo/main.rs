//! The binary: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match swaplet_demo::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
