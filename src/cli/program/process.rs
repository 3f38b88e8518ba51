//! The process of a command: messages about slow work, its signals, and its name.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// The time after which people wonder whether anything happens.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Awaits the work, and prints a message on a terminal if it takes longer than a second.
pub(in crate::cli) async fn slowly<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    match tokio::time::timeout(NOTICEABLE, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            if io::stderr().is_terminal() {
                eprintln!("{what} ...");
            }
            work.await
        }
    }
}

/// Returns the pod's name in a cluster, else the machine's.
pub(in crate::cli) fn instance() -> String {
    ["POD_NAME", "HOSTNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| "swaplet".to_owned())
}

/// Returns a future that completes on SIGTERM, SIGINT, or SIGHUP: the terminal is closed.
pub(in crate::cli) fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    // Whoever calls with nohup wants to go on.
    let is_ignored = hangups_are_ignored();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv(), if !is_ignored => {}
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
