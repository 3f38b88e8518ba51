//! The binary: parse, run, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    match swaplet_demo::Cli::read().run() {
        Ok(code) => code,
        Err(error) => {
            swaplet_edge::say!("error: {}", swaplet_edge::in_one_line(&error));
            ExitCode::from(swaplet_edge::exit::CANNOT)
        }
    }
}
