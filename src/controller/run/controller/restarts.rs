//! Events of restarts of single containers, and the steps that follow from them.

use super::Controller;
use crate::restart::driver::Happened;

impl Controller {
    pub(in crate::run) fn see_restart(&mut self, happened: Happened) {
        self.note_rights_of_restarts(&happened);
        for notice in self
            .restarts
            .take(happened, &self.metrics, self.clock.now())
        {
            self.metrics.decided(notice.report.reason);
            self.reporter.report(notice);
        }
    }

    pub(in crate::run) fn go_on_with_restarts(&mut self) {
        let learned = self.restarts.advance(
            &mut self.index,
            &self.writer,
            &self.metrics,
            self.clock.now(),
        );
        self.effects(learned);
    }
}
