//! The binary: parse, run, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match swaplet::cli::Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    cli.run()
}
