//! The binary: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = swaplet::cli::Cli::parse();
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
