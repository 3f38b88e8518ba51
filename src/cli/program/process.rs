//! The process of a command: messages about slow work, its signals, its name, and how many files it
//! may have open.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use futures::FutureExt as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use swaplet_edge::signals;

/// The time after which people wonder whether anything happens.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Awaits the work, and prints a message on a terminal if it takes longer than a second.
pub async fn slowly<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    match tokio::time::timeout(NOTICEABLE, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            if io::stderr().is_terminal() {
                say!("{what} ...");
            }
            work.await
        }
    }
}

/// Returns the pod's name in a cluster, else the machine's.
pub fn instance() -> String {
    ["POD_NAME", "HOSTNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| "swaplet".to_owned())
}

/// Returns a future that completes on SIGTERM, SIGINT, or SIGHUP: the terminal is closed.
pub fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    Ok(signals::stopped()?.map(drop))
}

/// Raises the soft limit of open files to the hard one, like programs in Go; on failure it stays as it is.
/// Containers get a soft limit of 1024, which is meant for programs that call `select`. A burst of
/// requests to restart containers needs a watch for each pod, and each watch is a connection.
pub fn raise_limit_of_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bug3_as_many_files_may_be_open_as_the_hard_limit_allows() {
        // Lower than what is set, and enough for the tests beside this one.
        let before = getrlimit(Resource::Nofile);
        let low = before.maximum.map_or(4096, |maximum| maximum - 1);
        let lowered = Rlimit {
            current: Some(low),
            ..before
        };
        setrlimit(Resource::Nofile, lowered).unwrap();
        raise_limit_of_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(
            (limit.current, limit.maximum),
            (before.maximum, before.maximum)
        );
    }
}
