//! What runs beside the loop of pods, each in a task of its own, for neither needs to know of the
//! other.

use swaplet_core::report::reason::Reason;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::{Controller, Settings};
use crate::frame::clock::Clock;
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::defects::Defects;
use crate::frame::isolated::{TaskDied, isolated_task};
use crate::frame::metrics::Metrics;
use crate::frame::writer::leash::Gate;
use crate::frame::writer::tools::Tools;
use crate::restart::on_config;
use crate::warm::jobs::AskedInside;
use crate::warm::predownload::own::OwnJobs;
use crate::warm::{jobs, predownload};

impl Controller {
    /// Starts the tasks that the settings ask for. One that ends has died, and all end when the set
    /// is dropped; what they had begun is taken up by the next life.
    pub(super) fn start_beside(
        &self,
        discovery: &Discovery,
        settings: &Settings,
        gate: &Gate,
    ) -> JoinSet<TaskDied> {
        let mut tasks = JoinSet::new();
        let (discovery, common, metrics) =
            (discovery.clone(), settings.common(), self.metrics.clone());
        let tools = Tools {
            writer: self.writer.clone(),
            reporter: self.reporter.clone(),
            metrics: metrics.clone(),
            health: self.health.clone(),
        };
        let (own, _) = watch::channel(OwnJobs::default());
        if let Some(warm) = settings.warm.clone() {
            let (discovery, common, derived, tools) = (
                discovery.clone(),
                common.clone(),
                self.derived.clone(),
                tools.clone(),
            );
            let own = own.clone();
            let begin = move || {
                let mut asked = AskedInside {
                    derived: derived.subscribe(),
                    own: own.subscribe(),
                };
                // Another task may have asked before.
                asked.own.mark_changed();
                jobs::run(
                    discovery.clone(),
                    common.clone(),
                    warm.clone(),
                    asked,
                    tools.clone(),
                )
            };
            tasks.spawn(anew("pulling images", metrics.clone(), begin));
        }
        if settings.predownload {
            let (discovery, namespaces, tools) =
                (discovery.clone(), common.namespaces.clone(), tools.clone());
            let own = settings.warm.is_some().then_some(own);
            let begin = move || {
                predownload::run(
                    discovery.clone(),
                    namespaces.clone(),
                    own.clone(),
                    tools.clone(),
                )
            };
            tasks.spawn(anew("pre-download", metrics.clone(), begin));
        }
        if let Some(on_config) = settings
            .restart
            .as_ref()
            .and_then(|restart| restart.on_config.clone())
        {
            let mut gate = gate.clone();
            let begin = move || {
                on_config::run(
                    discovery.clone(),
                    common.namespaces.clone(),
                    on_config.clone(),
                    tools.clone(),
                )
            };
            tasks.spawn(async move {
                gate.opens().await;
                anew("restarts for changed configuration", metrics, begin).await
            });
        }
        tasks
    }
}

/// Runs a task, and begins it anew after a while where it panics: such a defect must not end what
/// is done for pods. Ends as the task does where that cannot go on for another reason.
async fn anew<T: Future<Output = TaskDied>>(
    task: &str,
    metrics: Metrics,
    mut begin: impl FnMut() -> T,
) -> TaskDied {
    let (clock, mut defects) = (Clock::start(), Defects::default());
    loop {
        let defect = match isolated_task(task, begin()).await {
            Ok(died) => return died,
            Err(defect) => defect,
        };
        metrics.decisions_failed(1);
        let again = defects.meet((), clock.now());
        let reason = Reason::DecisionFailed.as_str();
        let pause = (again - clock.now()).as_secs();
        tracing::error!(
            reason,
            defect,
            "a defect in swaplet has broken off {task}; it begins anew in {pause} s; please report it"
        );
        sleep_until(clock.instant(again)).await;
    }
}
