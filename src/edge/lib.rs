//! What the programs of swaplet share at their edge: how their command lines are read
//! ([`command_line`]) and which exit codes they have ([`exit`]), which cluster they work on ([`client`]), the addresses ([`address`]), times ([`duration`]) and manifests
//! ([`manifests`]) that they are given, and what they print.

pub mod address;
pub mod client;
pub mod command_line;
pub mod duration;
pub mod exit;
pub mod manifests;

use std::io::{self, Write};

/// Prints results. A reader that has seen enough (`| head`) is not an error.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// An error with its causes, on one line: each is said once, though libraries repeat their causes in
/// their own words.
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
