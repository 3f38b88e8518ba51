//! What the loop does about restarts of single containers.

use kube::Client;

use super::{Controller, Settings};
use crate::controller::restart::Happened;
use crate::controller::restart_on::RestartOn;

impl Controller {
    pub(super) fn see_restart(&mut self, happened: Happened) {
        self.note_rights_of_restarts(&happened);
        for notice in self.restarts.take(happened, &self.metrics, self.clock.now()) {
            self.metrics.decided(notice.report.reason);
            self.reporter.tell(notice);
        }
    }

    pub(super) fn go_on_with_restarts(&mut self) {
        let learned = self.restarts.go_on(&mut self.index, &self.writer, &self.metrics, self.clock.now());
        self.effects(learned);
    }

    pub(super) fn start_restarts_on_config(&self, client: &Client, settings: &Settings) -> RestartOn {
        RestartOn::start(client, settings, &self.writer, &self.reporter, &self.metrics)
    }
}
