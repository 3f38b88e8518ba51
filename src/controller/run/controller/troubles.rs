//! Reports of watches that fail and rights that are missing: once in the log, and by `/readyz` for
//! as long as they last.

use super::Controller;
use super::reported::Line;
use super::rights::{note_right, right_of_restart};
use crate::cluster::openkruise::News;
use crate::frame::serve::rights::Right;
use crate::frame::watch::Event;
use crate::frame::writer::is_missing_right;
use crate::restart::driver::Happened;

impl Controller {
    /// Logs a trouble, but not with each try: a missing right once for each thing that it is needed
    /// for, an unreachable API server once for all.
    pub(super) fn report_trouble(&mut self, error: &str, what: &str) {
        if let Some(Line { error, what }) = self.reported.news(error, what) {
            tracing::warn!(error, "{what}");
        }
    }

    /// Records that nodes must not be read. Logged once, not with each try.
    pub(super) fn nodes_forbidden(&mut self, error: &str) {
        if self.index.nodes.hide() {
            self.health.nodes_hidden(error);
            tracing::warn!(
                error,
                "cannot read nodes: each counts as Unknown unless a row of --node-classes matches its name alone"
            );
            self.index.enqueue_where(|_| true);
        }
    }

    pub(super) fn note_rights_beside_openkruise(&mut self, news: &News) {
        match news {
            News::Trouble(trouble) => {
                self.report_trouble(trouble, "cannot check OpenKruise; trying again")
            }
            News::Lacks(right, words) => {
                self.health.lacks(*right, words);
                self.report_trouble(words, right.without());
            }
            News::Has(right) => self.health.has(*right),
            _ => {}
        }
    }

    pub(super) fn note_rights_of_restarts(&mut self, happened: &Happened) {
        match happened {
            Happened::Request(Event::Trouble(error) | Event::Forbidden(error)) => {
                if is_missing_right(error) {
                    self.health.lacks(Right::WatchRequests, error);
                }
                self.report_trouble(
                    error,
                    "cannot watch ContainerRecreateRequests, so nothing is restarted; trying again",
                );
            }
            Happened::Request(Event::Hidden(error)) => {
                self.health.hidden("requests", error);
                self.report_trouble(
                    error,
                    "cannot watch ContainerRecreateRequests of a namespace, so nothing is restarted there; trying again",
                );
            }
            Happened::Request(Event::ListStart) => self.health.nothing_hidden("requests"),
            Happened::Request(Event::Current(_)) => self.health.has(Right::WatchRequests),
            Happened::Written(written) => {
                let right = right_of_restart(&written.0.action);
                note_right(&self.health, right, &written.1);
            }
            Happened::Pod(
                _,
                Event::Trouble(error) | Event::Forbidden(error) | Event::Hidden(error),
            ) => {
                self.report_trouble(
                    error,
                    "cannot watch pods whose containers are to be restarted; trying again",
                );
            }
            Happened::Parked(
                Event::Trouble(error) | Event::Forbidden(error) | Event::Hidden(error),
            ) => {
                self.report_trouble(
                    error,
                    "cannot watch pods in which containers are parked; trying again",
                );
            }
            Happened::Request(_) | Happened::Pod(..) | Happened::Parked(_) => {}
        }
    }
}
