//! The loop of the controller: takes events in, decides, and starts writes.

mod beside;
mod controller;
pub mod lead;
mod observe;
mod settings;
#[cfg(test)]
mod tests;

use std::future::Future;

use kube::Client;
use tokio::sync::watch::channel;
use tokio::time::sleep_until;

use self::controller::Controller;
use self::observe::{Sidecars, Watches};
pub use self::settings::Settings;
pub use crate::frame::clock::TimeOfDay;
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::TaskDied;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;
use crate::frame::writer::leash::Gate;

/// The default for the most writes of pods in flight at once. With 16 and with 64 an API server on two
/// processors answers as many in a second (`bench/RESULTS.md`); one that is far away needs more.
pub const CONCURRENCY: u16 = 32;
/// The default deadline of one write, in seconds.
pub const WRITE_SECONDS: u16 = 10;

/// Runs the controller until `shutdown` completes, then waits for the writes in flight. `client`
/// must not retry by itself.
///
/// # Errors
/// Returns [`TaskDied`] if a background task has ended: only a new process can continue.
pub async fn run(
    client: Client,
    settings: Settings,
    metrics: Metrics,
    health: Health,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TaskDied> {
    let discovery = Discovery::new(client.clone());
    let watch_ages = metrics.watch_ages.clone();
    health.watches(&watch_ages);
    let gate = Gate::of(discovery.client(), settings.leash(), &health);
    let mut controller = Controller::new(&discovery, &settings, &gate, metrics, health);
    let (stop, stopping) = channel(false);
    let mut beside = controller.start_beside(&discovery, &settings, &gate, &stopping);
    drop(stopping);
    if let Some(namespace) = &settings.state_namespace {
        controller.restore_verdicts(client.clone(), namespace).await;
    }
    controller.select(settings.selection.clone());
    tokio::pin!(shutdown);
    let mut sidecars = Sidecars::begin(&discovery, &settings, &watch_ages);
    tokio::select! {
        () = &mut shutdown => return controller.end(&stop, settings.write_deadline).await,
        known = controller.first_policies(&mut sidecars) => known?,
    }
    let mut watches = Watches::begin(&discovery, &settings, &watch_ages);
    tokio::select! {
        () = &mut shutdown => return controller.end(&stop, settings.write_deadline).await,
        () = controller.first_answers() => {}
    }
    let mut heartbeat = controller.health.heartbeat("pods");
    loop {
        heartbeat.beat();
        if controller.go_on_with_policies(&mut sidecars, &discovery, &settings) {
            watches.list_pods_again(&discovery, &settings, &watch_ages);
        }
        controller.go_on_with_restarts();
        controller.start_writes();
        controller.report_progress();
        let due = controller.clock.instant(controller.next_look());
        tokio::select! {
            () = &mut shutdown => break,
            event = watches.pods.recv() => controller.observe(event.ok_or_else(|| TaskDied::of("the watch of pods"))?),
            event = watches.nodes.recv() => controller.observe_node(event.ok_or_else(|| TaskDied::of("the watch of nodes"))?),
            news = watches.openkruise.recv() => controller.handle(news.ok_or_else(|| TaskDied::of("the watch of OpenKruise"))?),
            event = watches.jobs.recv() => controller.see_job(event.ok_or_else(|| TaskDied::of("the watch of Jobs"))?),
            news = sidecars.news.recv() => controller.see_policies(news.ok_or_else(|| TaskDied::of("the watch of SidecarPolicies"))?, &sidecars)?,
            Some(reported) = sidecars.reports.join_next() => controller.policies_reported(reported),
            Some(done) = controller.writes.join_next() => controller.finish(done)?,
            Some(ended) = beside.join_next() => return Err(ended.unwrap_or_else(|error| TaskDied(error.to_string()))),
            happened = controller.restarts.next() => controller.see_restart(happened?),
            Some((namespace, paths, pushed)) = controller.deriver.next() => controller.derived(&namespace, &paths, pushed),
            Some((image, public)) = controller.questions.next() => controller.answered(&image, public),
            () = sleep_until(due) => controller.wake(),
            () = heartbeat.due() => {}
        }
    }
    controller.end(&stop, settings.write_deadline).await
}
