//! Events of SidecarPolicies, and the writes of their statuses.

use std::time::Duration;

use swaplet_core::objects::namespace::NamespaceWire;
use swaplet_core::objects::sidecar_policy::PolicyKind;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::write_error::WriteError;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout_at};

use super::Controller;
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::read;
use crate::frame::serve::rights::Right;
use crate::frame::watch::Event;
use crate::run::Settings;
use crate::terminate::policies::observe::{News, PolicyWatches};
use crate::terminate::policies::{PATIENCE, StatusWrite};

/// The longest wait for policies before pods are listed; later ones cause another list.
const FIRST_LISTS: Duration = Duration::from_secs(5);

impl Controller {
    /// Waits until policies are known, at most `FIRST_LISTS`, so that pods are not listed twice.
    pub(in crate::run) async fn first_policies(&mut self, watches: &mut PolicyWatches) {
        let until = Instant::now() + FIRST_LISTS;
        while self.index.policies.are_unknown() {
            match timeout_at(until, watches.next()).await {
                Ok(Ok(news)) => self.see_policies(news, watches),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        self.index.policies.listed_anew();
    }

    pub(in crate::run) fn see_policies(&mut self, news: News, watches: &mut PolicyWatches) {
        match news {
            News::Policy(kind, event) => self.observe_policy(kind, event),
            News::Namespace(event) => self.observe_namespace(event),
        }
        if self.index.policies.set.ask_for_namespaces() {
            watches.ask_for_namespaces();
        }
    }

    fn observe_policy(&mut self, kind: PolicyKind, event: Event<BoundedObject>) {
        self.metrics.count_trouble(kind.plural(), &event);
        match &event {
            Event::Trouble(error) | Event::Forbidden(error) => {
                self.health.lacks(Right::WatchPolicies, error);
                self.report_trouble(error, "cannot watch SidecarPolicies; trying again");
            }
            // The watches of other namespaces continue, and report nothing about this one.
            Event::Hidden(error) => {
                self.health.lacks(Right::WatchPoliciesOfNamespace, error);
                self.report_trouble(error, Right::WatchPoliciesOfNamespace.without());
            }
            Event::Current(_) => self.health.has(Right::WatchPolicies),
            // Those that are hidden are told after the end of the list.
            Event::ListEnd if kind == PolicyKind::Namespaced => {
                self.health.has(Right::WatchPoliciesOfNamespace);
            }
            _ => {}
        }
        let index = &mut self.index;
        // Whoever ends selected pods by rights of their own has been told what these lack.
        if let (Event::Forbidden(_), true) = (&event, index.selected.are_some_only()) {
            index.policies.give_up(kind);
        }
        let _ = read("policy", || Some(index.policies_tell(kind, event)));
    }

    fn observe_namespace(&mut self, event: Event<NamespaceWire>) {
        self.metrics.count_trouble("namespaces", &event);
        match &event {
            Event::Trouble(error) | Event::Forbidden(error) | Event::Hidden(error) => {
                self.health.lacks(Right::WatchLabels, error);
                self.report_trouble(error, "cannot watch namespaces; trying again");
            }
            Event::Current(_) => self.health.has(Right::WatchLabels),
            _ => {}
        }
        self.index.policies.observe_namespace(event);
    }

    /// Records the time of day, and starts to write the statuses that have changed. Returns true if
    /// all pods are to be listed again now.
    pub(in crate::run) fn go_on_with_policies(
        &mut self,
        discovery: &Discovery,
        settings: &Settings,
    ) -> bool {
        self.set_time(discovery, settings);
        self.report_policies();
        if self.index.policies.take_unknown(self.clock.now()) {
            let words = format!(
                "they were not listed within {} s of the start, so sidecars that are marked by their environment are ended without them",
                PATIENCE.as_secs()
            );
            self.health.lacks(Right::WatchPolicies, &words);
            tracing::warn!("{}: {words}", Right::WatchPolicies.without());
        }
        self.index.policies.take_relist(self.clock.now())
    }

    /// Starts to write the statuses that have changed, one by one, yielding to swaps.
    fn report_policies(&mut self) {
        let (now, today) = (self.clock.now(), self.today);
        if !self.index.policies.is_on() {
            return;
        }
        // The counts of selected pods are not those of the policy.
        if !self.reports.is_empty() || self.index.selected.are_some_only() {
            return self.index.policies.put_off(now);
        }
        let index = &mut self.index;
        let mut policies = std::mem::take(&mut index.policies);
        let writes = policies.statuses(now, today, || index.policy_counts());
        index.policies = policies;
        if writes.is_empty() {
            return;
        }
        let (writer, precedence) = (self.writer.clone(), self.precedence.clone());
        let since = Instant::now();
        self.reports.spawn(async move {
            let mut answers = Vec::new();
            for write in writes {
                precedence.yield_to_swaps(since).await;
                if let Err(error) = writer.report_policy(&write).await {
                    answers.push((write, error));
                }
            }
            answers
        });
    }

    /// Handles failed writes: each status is written again with the next change or round.
    pub(in crate::run) fn policies_reported(
        &mut self,
        reported: Result<Vec<(StatusWrite, WriteError)>, JoinError>,
    ) {
        let Ok(failed) = reported else { return };
        if failed.is_empty() {
            self.health.has(Right::ReportPolicies);
        }
        for (write, error) in failed {
            self.index.policies.not_written(&write, self.clock.now());
            match error {
                WriteError::Denied(words) => {
                    self.health.lacks(Right::ReportPolicies, &words);
                    self.report_trouble(&words, "cannot write the status of SidecarPolicies");
                }
                WriteError::Failed { error, .. } => {
                    tracing::debug!(
                        error,
                        "the status of a policy was not written; trying again"
                    );
                }
                WriteError::Conflict | WriteError::Gone => {}
            }
        }
    }

    /// Takes the time of day from the API server, or else from this machine.
    fn set_time(&mut self, discovery: &Discovery, settings: &Settings) {
        let by_server = discovery.clock().now();
        self.today = by_server.unwrap_or_else(|| settings.time_of_day.now());
        self.index.set_time(self.clock.now(), self.today);
    }
}
