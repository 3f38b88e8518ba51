//! The writes of the loop: requests are created, and obsolete ones deleted.

use std::time::Duration;

use kube::Api;
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::decision::Report;
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::round::Action;
use swaplet_core::restart::on_config::{Contents, from_text};
use swaplet_core::restart::request::{RestartRequest, RestartRequestWire};
use tokio::time::timeout;

use super::{DENIED_RETRY, RETRY, Run};
use crate::frame::clock::Clock;
use crate::frame::list::words;
use crate::frame::serve::rights::Right;
use crate::frame::writer::{Writer, is_unanswered};

/// How long after the first write of a round others begin. Those that are left are made in the next
/// round: meanwhile others have their turn.
const LAST_BEGINS: Duration = Duration::from_secs(10);
/// The deadline of reading a request that exists already.
const READ: Duration = Duration::from_secs(10);

/// The writes of a round, each with its pod and its outcome.
pub(super) struct Made {
    writes: Vec<(ConfiguredPod, Write)>,
    /// True if a write has failed, or its outcome is unknown.
    pub(super) has_failed: bool,
    /// True if no time was left for the others.
    is_cut: bool,
}

enum Write {
    Ask {
        name: String,
        target: Contents,
        done: Report,
        outcome: Result<Found, WriteError>,
    },
    Forget {
        name: Box<str>,
        outcome: Result<(), WriteError>,
    },
}

/// A request that is there after it was to be created.
enum Found {
    /// It was created; `None` if the answer cannot be decoded.
    New(Option<Box<RestartRequest>>),
    /// It exists already, from an earlier try or run; `None` if it is gone or cannot be decoded, or
    /// the error of reading it.
    Before(Result<Option<Box<RestartRequest>>, String>),
}

/// Makes the writes of a round, one after another.
pub(super) async fn make(
    writer: &Writer,
    clock: Clock,
    actions: Vec<(ConfiguredPod, Action)>,
) -> Made {
    let last_begins = clock.now() + LAST_BEGINS;
    let mut made = Made {
        writes: Vec::new(),
        has_failed: false,
        is_cut: false,
    };
    for (pod, action) in actions {
        if clock.now() >= last_begins {
            made.is_cut = true;
            break;
        }
        let write = match action {
            Action::Ask { name, target, done } => {
                let outcome = match writer.ask_for_restart(&pod, &name, &target).await {
                    Err(WriteError::Conflict) => {
                        Ok(Found::Before(read(writer, &pod.namespace, &name).await))
                    }
                    outcome => outcome.map(|request| Found::New(request.map(Box::new))),
                };
                made.has_failed |= match &outcome {
                    Ok(found) => matches!(found, Found::Before(Err(_))),
                    Err(error) => is_unanswered(error),
                };
                Write::Ask {
                    name,
                    target,
                    done,
                    outcome,
                }
            }
            Action::Forget { name, uid } => {
                let outcome = writer.forget_request(&pod.namespace, &name, &uid).await;
                made.has_failed |= outcome.as_ref().is_err_and(is_unanswered);
                Write::Forget { name, outcome }
            }
        };
        made.writes.push((pod, write));
    }
    made
}

async fn read(
    writer: &Writer,
    namespace: &str,
    name: &str,
) -> Result<Option<Box<RestartRequest>>, String> {
    let api: Api<RestartRequestWire> = Api::namespaced(writer.client.clone(), namespace);
    match timeout(READ, api.get_opt(name)).await {
        Ok(Ok(request)) => Ok(request.and_then(RestartRequestWire::read).map(Box::new)),
        Ok(Err(error)) => Err(words(&error)),
        Err(_) => Err(format!("no answer within {} s", READ.as_secs())),
    }
}

/// Returns true if a request says what it was to say: others may have changed it, or made it.
fn is_for(request: &RestartRequest, pod: &ConfiguredPod, target: &Contents) -> bool {
    let said = request.restart_on.as_deref().and_then(from_text);
    said.as_ref() == Some(target) && request.pod_uid.as_ref() == Some(&pod.uid)
}

impl Run {
    /// Applies the outcomes of the writes of a round; returns when to try again what was not
    /// applied.
    pub(super) fn made(&mut self, made: Made) -> Option<Moment> {
        let mut again = made.is_cut.then(|| self.clock.now());
        for (pod, write) in made.writes {
            let retry = match write {
                Write::Ask {
                    name,
                    target,
                    done,
                    outcome,
                } => self.asked(&pod, &name, target, done, outcome),
                Write::Forget { name, outcome } => self.forgotten(&pod, &name, outcome),
            };
            again = again.into_iter().chain(retry).min();
        }
        again
    }

    fn asked(
        &mut self,
        pod: &ConfiguredPod,
        name: &str,
        target: Contents,
        done: Report,
        outcome: Result<Found, WriteError>,
    ) -> Option<Moment> {
        let namespace = &pod.namespace;
        let known = match outcome {
            Ok(Found::New(request)) => {
                self.tools.health.has_in(Right::CreateRequests, namespace);
                request
            }
            Ok(Found::Before(Ok(request))) => {
                self.tools.health.has_in(Right::ReadOwnRequests, namespace);
                request
            }
            Ok(Found::Before(Err(error))) => {
                self.tools
                    .health
                    .note_trouble(Right::ReadOwnRequests, namespace, &error);
                None
            }
            Err(WriteError::Denied(words)) => {
                self.state.forget(namespace, &pod.uid, name);
                self.tools
                    .health
                    .note_denial(Right::CreateRequests, namespace, &words);
                return Some(self.denied(pod, &words));
            }
            Err(WriteError::Gone) => {
                self.state.forget(namespace, &pod.uid, name);
                return Some(self.clock.now() + DENIED_RETRY);
            }
            Err(error @ (WriteError::Conflict | WriteError::Failed { .. })) => {
                tracing::warn!(%namespace, request = name, ?error, "a request may not have been created; trying again");
                None
            }
        };
        match known {
            Some(request) if !is_for(&request, pod, &target) => {
                self.state.assume(pod, name, &request.uid, target);
                Some(self.denied(pod, &format!("{UNDONE}: the request {name} does not say for which content of which pod it is; no other pod of the same owner is restarted before it does or is deleted")))
            }
            Some(request) => {
                self.state.know(&request);
                self.report(pod, done);
                None
            }
            // No other pod may be restarted before the outcome is known.
            None => {
                self.state.assume(pod, name, "", target);
                Some(self.clock.now() + RETRY.longest)
            }
        }
    }

    fn forgotten(
        &mut self,
        pod: &ConfiguredPod,
        name: &str,
        outcome: Result<(), WriteError>,
    ) -> Option<Moment> {
        match outcome {
            Ok(()) | Err(WriteError::Gone | WriteError::Conflict) => {
                self.state.forget(&pod.namespace, &pod.uid, name);
                Some(self.clock.now())
            }
            Err(WriteError::Denied(words)) => Some(self.denied(pod, &words)),
            Err(WriteError::Failed { .. }) => Some(self.clock.now() + RETRY.longest),
        }
    }

    fn denied(&mut self, pod: &ConfiguredPod, words: &str) -> Moment {
        let note = format!(
            "the API server forbids to restart containers for changed configuration: {words}"
        );
        self.report(pod, Report::new(Reason::WriteDenied, note));
        self.clock.now() + DENIED_RETRY
    }
}
