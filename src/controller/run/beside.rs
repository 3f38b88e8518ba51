//! The tasks beside the loop of pods: each is a task of its own, because neither needs to know of
//! the other.

use swaplet_core::report::reason::Reason;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::controller::Controller;
use super::settings::Settings;
use crate::cluster::rules::Common;
use crate::frame::clock::Clock;
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::defects::Defects;
use crate::frame::isolated::{TaskDied, isolated_task};
use crate::frame::metrics::Metrics;
use crate::frame::writer::leash::Gate;
use crate::frame::writer::tools::Tools;
use crate::protect;
use crate::restart::driver::RestartSettings;
use crate::restart::hot_upgrade::{self, HotUpgradeSettings};
use crate::restart::on_config::{self, RestartOnSettings};
use crate::restart::readiness_gate;
use crate::warm::derived::Derived;
use crate::warm::jobs::WarmSettings;
use crate::warm::jobs::driver::AskedInside;
use crate::warm::predownload::own::OwnJobs;
use crate::warm::{jobs, predownload};

impl Controller {
    /// Starts the tasks that `settings` enable. A task that ends has died, and all end when the set
    /// is dropped; the next run takes up what they had begun.
    pub(super) fn start_beside(
        &self,
        discovery: &Discovery,
        settings: &Settings,
        gate: &Gate,
        stopping: &watch::Receiver<bool>,
    ) -> JoinSet<TaskDied> {
        let beside = Beside {
            discovery: discovery.clone(),
            common: settings.common(),
            tools: Tools {
                writer: self.writer.clone(),
                reporter: self.reporter.clone(),
                metrics: self.metrics.clone(),
                health: self.health.clone(),
            },
        };
        let mut tasks = JoinSet::new();
        let (own, _) = watch::channel(OwnJobs::default());
        if let Some(warm) = settings.warm.clone() {
            tasks.spawn(
                beside
                    .clone()
                    .pulls(warm, self.derived.clone(), own.clone()),
            );
        }
        if settings.predownload {
            let own = settings.warm.is_some().then_some(own);
            tasks.spawn(beside.clone().predownloads(own));
        }
        if settings.protect {
            tasks.spawn(beside.clone().protects(stopping.clone()));
        }
        if let Some(hot_upgrade) = settings.hot_upgrade.clone() {
            tasks.spawn(beside.clone().upgrades(hot_upgrade));
        }
        let on_config = settings
            .restart
            .as_ref()
            .and_then(|restart| restart.on_config.clone());
        if let Some(on_config) = on_config {
            tasks.spawn(beside.clone().restarts(on_config, gate.clone()));
        }
        let gated = settings.restart.clone();
        if let Some(restart) = gated.filter(|restart| restart.readiness_gates) {
            tasks.spawn(beside.opens_gates(restart, gate.clone()));
        }
        tasks
    }
}

/// The state that each of the tasks needs.
#[derive(Clone)]
struct Beside {
    discovery: Discovery,
    common: Common,
    tools: Tools,
}

impl Beside {
    async fn pulls(
        self,
        warm: WarmSettings,
        derived: watch::Sender<Derived>,
        own: watch::Sender<OwnJobs>,
    ) -> TaskDied {
        let metrics = self.tools.metrics.clone();
        let begin = || {
            let mut asked = AskedInside {
                derived: derived.subscribe(),
                own: own.subscribe(),
            };
            // Other tasks may have requested images before this one subscribed.
            asked.own.mark_changed();
            asked.derived.mark_changed();
            let Self {
                discovery,
                common,
                tools,
            } = self.clone();
            jobs::driver::run(discovery, common, warm.clone(), asked, tools)
        };
        anew("pulling images", metrics, begin).await
    }

    async fn predownloads(self, own: Option<watch::Sender<OwnJobs>>) -> TaskDied {
        let begin = || {
            let Self {
                discovery,
                common,
                tools,
            } = self.clone();
            predownload::run(discovery, common.namespaces, own.clone(), tools)
        };
        anew("pre-download", self.tools.metrics.clone(), begin).await
    }

    async fn protects(self, stopping: watch::Receiver<bool>) -> TaskDied {
        let begin = || {
            let Self {
                discovery,
                common,
                tools,
            } = self.clone();
            let client = discovery.client().clone();
            protect::run(client, common.namespaces, tools, stopping.clone())
        };
        let metrics = self.tools.metrics.clone();
        anew("the counting of protected objects", metrics, begin).await
    }

    async fn upgrades(self, settings: HotUpgradeSettings) -> TaskDied {
        let begin = || {
            let Self {
                discovery,
                common,
                tools,
            } = self.clone();
            hot_upgrade::run(discovery, common, settings.clone(), tools)
        };
        let metrics = self.tools.metrics.clone();
        anew("hot upgrades", metrics, begin).await
    }

    async fn restarts(self, on_config: RestartOnSettings, mut gate: Gate) -> TaskDied {
        gate.opens().await;
        let begin = || {
            let Self {
                discovery,
                common,
                tools,
            } = self.clone();
            on_config::run(discovery, common.namespaces, on_config.clone(), tools)
        };
        let metrics = self.tools.metrics.clone();
        anew("restarts for changed configuration", metrics, begin).await
    }

    async fn opens_gates(self, settings: RestartSettings, mut leash: Gate) -> TaskDied {
        leash.opens().await;
        let (client, namespaces) = (self.discovery.client(), &self.common.namespaces);
        let begin = || readiness_gate::run(client, namespaces, &settings, self.tools.clone());
        let metrics = self.tools.metrics.clone();
        anew("the first readiness of pods", metrics, begin).await
    }
}

/// Runs a task, and starts it again after a pause when it panics: such a defect must not end the
/// work on pods. Returns when the task ends without a panic: then it cannot continue.
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
        let pause = again.since(clock.now()).as_secs();
        tracing::error!(
            reason,
            defect,
            "a defect in swaplet has stopped {task}; it restarts in {pause} s; please report it"
        );
        sleep_until(clock.instant(again)).await;
    }
}
