//! The writes of the loop: requests are created, and obsolete ones deleted.

use std::time::Duration;

use kube::Api;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::on_config::Contents;
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::round::Action;
use swaplet_core::restart::request::{RestartRequest, RestartRequestWire};

use super::{DENIED_RETRY, Run};
use crate::frame::list::words;
use crate::frame::serve::rights::Right;

/// The wait after a write with an unknown outcome.
const UNANSWERED: Duration = Duration::from_secs(5);

impl Run {
    /// Makes one write, unless the namespace pauses; returns when to retry if it was not applied.
    pub(crate) async fn act(&mut self, pod: &ConfiguredPod, action: Action) -> Option<Duration> {
        let began = self.clock.now();
        let paused = self.pauses.until(&pod.namespace, began);
        if paused.is_some() {
            return paused;
        }
        let again = match action {
            Action::Ask { name, target, done } => self.ask(pod, &name, target, done).await,
            Action::Forget { name, uid } => self.forget(pod, &name, &uid).await,
        };
        self.pauses.note(&pod.namespace, began, self.clock.now());
        again
    }

    async fn ask(
        &mut self,
        pod: &ConfiguredPod,
        name: &str,
        target: Contents,
        done: Report,
    ) -> Option<Duration> {
        let asked = self.writer.ask_for_restart(pod, name, &target).await;
        let known = match asked {
            Ok(request) => {
                self.health.has_in(Right::CreateRequests, &pod.namespace);
                request
            }
            // It exists already, from an earlier try or run.
            Err(WriteError::Conflict) => self.existing(&pod.namespace, name).await,
            Err(WriteError::Denied(words)) => {
                self.state.forget(&pod.namespace, &pod.uid, name);
                self.health
                    .note_denial(Right::CreateRequests, &pod.namespace, &words);
                return Some(self.denied(pod, &words));
            }
            Err(WriteError::Gone) => {
                self.state.forget(&pod.namespace, &pod.uid, name);
                return Some(self.clock.now() + DENIED_RETRY);
            }
            Err(WriteError::Failed { error, .. }) => {
                tracing::warn!(namespace = %pod.namespace, request = name, error, "a request may not have been created; trying again");
                None
            }
        };
        match known {
            Some(request) => {
                self.state.know(&request);
                self.report(pod, done);
                None
            }
            // No other pod may be restarted before the outcome is known.
            None => {
                self.state.assume(pod, name, target);
                Some(self.clock.now() + UNANSWERED)
            }
        }
    }

    async fn forget(&mut self, pod: &ConfiguredPod, name: &str, uid: &str) -> Option<Duration> {
        match self.writer.forget_request(&pod.namespace, name, uid).await {
            Ok(()) | Err(WriteError::Gone | WriteError::Conflict) => {
                self.state.forget(&pod.namespace, &pod.uid, name);
                Some(self.clock.now())
            }
            Err(WriteError::Denied(words)) => Some(self.denied(pod, &words)),
            Err(WriteError::Failed { .. }) => Some(self.clock.now() + UNANSWERED),
        }
    }

    async fn existing(&self, namespace: &str, name: &str) -> Option<RestartRequest> {
        let api: Api<RestartRequestWire> = Api::namespaced(self.client.clone(), namespace);
        match api.get_opt(name).await {
            Ok(request) => {
                self.health.has_in(Right::ReadOwnRequests, namespace);
                request.and_then(RestartRequestWire::read)
            }
            Err(error) => {
                self.health
                    .note_trouble(Right::ReadOwnRequests, namespace, &words(&error));
                None
            }
        }
    }

    fn denied(&mut self, pod: &ConfiguredPod, words: &str) -> Duration {
        let note = format!(
            "the API server forbids to restart containers for changed configuration: {words}"
        );
        self.report(
            pod,
            Report {
                reason: Reason::WriteDenied,
                note,
            },
        );
        self.clock.now() + DENIED_RETRY
    }
}
