//! The signals that end a program.

use tokio::signal::unix::{SignalKind, signal};

/// Until Ctrl-C or SIGTERM, which are heard from now on; gives the exit code that shells know each
/// by. Where neither can be heard, the process is ended otherwise.
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
