//! The controller of several processes: it runs in the leader, and the others stand by.

use std::future::Future;

use kube::Client;

use super::{Settings, run};
use crate::frame::isolated::TaskDied;
use crate::frame::lease::LeaseKeeper;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;

/// [Runs](run) the controller whenever this process leads, until `shutdown` completes; then gives
/// the Lease up. Each run starts without memory: all of it is derived from the pods.
///
/// # Errors
/// Returns [`TaskDied`] if a background task has ended: only a new process can continue.
pub async fn run_while_leading(
    client: Client,
    settings: &Settings,
    metrics: Metrics,
    health: Health,
    keeper: LeaseKeeper,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TaskDied> {
    let mut leadership = keeper.leadership();
    let mut stopping = false;
    tokio::pin!(shutdown);
    while !stopping {
        tokio::select! {
            () = &mut shutdown => break,
            won = leadership.won() => if !won {
                return Err(TaskDied::of("the keeper of the Lease"));
            },
        }
        tracing::info!("this process leads");
        metrics.leads.set(1);
        let end = async {
            tokio::select! {
                () = &mut shutdown => stopping = true,
                () = leadership.lost() => tracing::warn!("this process no longer leads; it stands by"),
            }
        };
        let settings = Settings {
            leadership: keeper.leadership(),
            ..settings.clone()
        };
        run(
            client.clone(),
            settings,
            metrics.clone(),
            health.clone(),
            end,
        )
        .await?;
        metrics.leads.set(0);
    }
    keeper.release().await;
    Ok(())
}
