//! What the programs of swaplet share at their edge: which cluster they work on ([`client`]), the
//! manifests that they are given ([`manifests`]), and what they print.

pub mod client;
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
