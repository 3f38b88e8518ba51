//! The process of a command: messages about slow work, its signals, and its name.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use futures::FutureExt as _;
use swaplet_edge::signals;

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
    Ok(signals::stopped()?.map(drop))
}
