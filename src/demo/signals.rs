//! The signals that end a program.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C or SIGTERM, which are caught from the call on; returns the exit code that
/// shells use for each. If neither can be caught, the default action ends the process.
pub fn stopped() -> impl Future<Output = u8> {
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    );
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => 130,
            _ = terminate.recv() => 143,
        }
    }
}
