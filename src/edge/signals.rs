//! The signals that end a program.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C, SIGTERM, or SIGHUP (the terminal is closed), which are caught from the call on;
/// returns the exit code that shells use for each.
///
/// # Errors
/// A signal cannot be caught.
pub fn stopped() -> io::Result<impl Future<Output = u8>> {
    // Whoever calls with nohup wants to go on.
    let is_ignored = hangups_are_ignored();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => 130,
            _ = terminate.recv() => 143,
            _ = hangup.recv(), if !is_ignored => 129,
        }
    })
}

/// Returns true if SIGHUP, which is signal 1, was ignored at the start (`proc(5)`).
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
