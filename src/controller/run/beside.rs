//! What runs beside the loop of pods, each in a task of its own, for neither needs to know of the other.

use tokio::task::JoinSet;

use super::{Controller, Settings, TaskDied};
use crate::controller::discovery::Discovery;
use crate::controller::{predownload, pull_jobs, restart_on};

impl Controller {
    /// Starts the tasks that the settings ask for. One that ends has died, and all end when the set is dropped; what they had begun is taken
    /// up by the next life.
    pub(super) fn start_beside(&self, discovery: &Discovery, settings: &Settings) -> JoinSet<TaskDied> {
        let mut tasks = JoinSet::new();
        if let Some(warm) = &settings.warm {
            tasks.spawn(pull_jobs::run(
                discovery.clone(),
                settings.clone(),
                warm.clone(),
                self.derived.subscribe(),
                (self.metrics.clone(), self.health.clone()),
            ));
        }
        if settings.predownload {
            let tools = (self.reporter.clone(), self.metrics.clone(), self.health.clone());
            tasks.spawn(predownload::run(discovery.clone(), settings.clone(), tools));
        }
        if let Some(on_config) = settings.restart.as_ref().and_then(|restart| restart.on_config.clone()) {
            let tools = (self.writer.clone(), self.reporter.clone(), self.metrics.clone(), self.health.clone());
            tasks.spawn(restart_on::run(discovery.clone(), settings.namespaces.clone(), on_config, tools));
        }
        tasks
    }
}
