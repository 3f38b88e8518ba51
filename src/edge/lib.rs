//! The parts that the programs of swaplet share at their edge: command lines ([`command_line`]),
//! exit codes ([`exit`]), the cluster ([`client`]), addresses ([`address`]), times ([`duration`]),
//! manifests ([`manifests`]) and standard output.

pub mod address;
pub mod client;
pub mod command_line;
pub mod duration;
pub mod exit;
pub mod manifests;

use std::io::{self, Write};

/// Prints results. A reader that has been closed (`| head`) is not an error.
///
/// # Errors
/// Fails if standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Returns an error with its causes, on one line. Each cause appears once, though libraries repeat
/// their causes in their own words.
#[must_use]
pub fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}
