//! Ends the process where its work does not: a loop that is stuck decides nothing any more, hears no
//! signal and may hold the Lease, and only another process helps.

use std::time::Duration;

use anyhow::{Context as _, bail};
use swaplet_controller::frame::lease::Resignation;
use swaplet_controller::frame::serve::Health;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Runs the work in a task of its own until it ends, and tells it by `stop` when `stopped` completes.
///
/// # Errors
/// Returns the error of the work; the message about its loop that is stuck; or that it has not ended
/// within `patience` after the signal. In these two cases the Lease was given up, and the process has
/// to be exited: the runtime waits for ever for a task that is stuck.
pub(super) async fn supervised(
    work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    health: &Health,
    resignation: Option<Resignation>,
    stop: oneshot::Sender<()>,
    stopped: impl Future<Output = ()>,
    patience: Duration,
) -> anyhow::Result<()> {
    let mut working = tokio::spawn(work);
    let stuck = tokio::select! {
        ended = &mut working => return ended.context("the work has died")?,
        stuck = health.stuck() => stuck,
        () = stopped => {
            let _ = stop.send(());
            match timeout(patience, working).await {
                Ok(ended) => return ended.context("the work has died")?,
                Err(_) => format!("the work has not ended {} s after the signal", patience.as_secs()),
            }
        }
    };
    if let Some(resignation) = resignation {
        resignation.resign().await;
    }
    bail!("{stuck}; this process ends, so that another one can work")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    async fn supervise(
        work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
        stopped: impl Future<Output = ()>,
    ) -> String {
        let (stop, _stopping) = oneshot::channel();
        let patience = Duration::from_secs(20);
        supervised(work, &Health::default(), None, stop, stopped, patience)
            .await
            .map_or_else(|error| error.to_string(), |()| "ended".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_hear_the_signal_is_left_after_a_while() {
        let said = supervise(pending(), async {}).await;
        assert!(
            said.starts_with("the work has not ended 20 s after the signal"),
            "{said}"
        );
        let ends_late = async {
            tokio::time::sleep(Duration::from_secs(19)).await;
            Ok(())
        };
        assert_eq!(supervise(ends_late, async {}).await, "ended");
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_the_work_is_passed_on() {
        let fails = async { bail!("a task has died") };
        assert_eq!(supervise(fails, pending()).await, "a task has died");
    }
}
