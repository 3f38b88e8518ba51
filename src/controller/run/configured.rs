//! The controller under a configuration that changes while it runs.
//!
//! The loops begin anew when lists of the configuration change: that is what a change of the leader does as well, and whatever is
//! remembered is derived from the pods. So no loop has rules that change under it.

use std::future::Future;

use kube::Client;
use tokio::sync::watch;

use super::{Settings, run};
use crate::frame::isolated::TaskDied;
use crate::frame::lease::Leadership;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;

/// [`run`]s until `shutdown` completes. Whenever the settings change it begins anew under them, as after a change of the leader: all that
/// it remembers is derived from the pods, and writes under way are waited for.
///
/// # Errors
/// [`TaskDied`], where only a new process can go on.
pub async fn run_configured(
    client: Client,
    mut settings: watch::Receiver<Settings>,
    leadership: Leadership,
    metrics: Metrics,
    health: Health,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TaskDied> {
    let mut stopping = false;
    tokio::pin!(shutdown);
    while !stopping {
        let now = Settings { leadership: leadership.clone(), ..settings.borrow_and_update().clone() };
        let end = async {
            tokio::select! {
                () = &mut shutdown => stopping = true,
                () = changed(&mut settings) => tracing::info!("beginning anew under the changed configuration"),
            }
        };
        run(client.clone(), now, metrics.clone(), health.clone(), end).await?;
    }
    Ok(())
}

/// Never, where nobody can change them any more.
async fn changed(settings: &mut watch::Receiver<Settings>) {
    if settings.changed().await.is_err() {
        std::future::pending().await
    }
}
