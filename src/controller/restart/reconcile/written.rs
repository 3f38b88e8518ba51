//! Handles finished writes, and what is reported of them.

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::decision::Report;
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::reconcile::{Acceptance, Action};
use swaplet_core::restart::request::{ACTIVE, JOURNAL, POD_UID, RestartRequest};

use super::by_pod::pod_key;
use super::pods::Seen;
use super::retry::Retry;
use super::{Entry, Restarts};
use crate::frame::writer::report::Notice;
use crate::frame::writer::{Target, TargetKind};
use crate::restart::write::{RestartWrite, Stored, is_later};

impl Restarts {
    /// Handles the outcome of a write; returns what to report.
    pub fn written(
        &mut self,
        write: RestartWrite,
        outcome: Result<Stored, WriteError>,
        now: Moment,
    ) -> Vec<Notice> {
        if write.is_for_orphan {
            return self.orphans.written(write, outcome, now);
        }
        let key = (write.request.namespace.clone(), write.request.name.clone());
        let entry = self
            .requests
            .get_mut(&key)
            .filter(|entry| entry.request.uid == write.request.uid);
        let Some(entry) = entry else {
            return if outcome.is_ok() {
                write.notices()
            } else {
                Vec::new()
            };
        };
        entry.memory.in_flight = false;
        self.fresh.push(&key.0, key.clone());
        match outcome.and_then(|stored| write.is_stored(stored)) {
            Ok(stored) => {
                entry.retry = Retry::default();
                entry.memory.not_before = None;
                if write.is_of_pod() {
                    entry.memory.note_applied();
                }
                if let (Action::Swap(change), Stored::Pod(pod)) = (&write.action, &stored) {
                    entry.memory.note_stored(change, pod);
                }
                self.store(&write, stored, now);
                write.notices()
            }
            Err(error) => {
                // Of writes to the request only those that a webhook has undone: a right that is
                // missing may come.
                if let WriteError::Denied(words) | WriteError::Failed { error: words, .. } = &error
                    && (write.is_of_pod() || words.contains(UNDONE))
                {
                    entry.memory.note_in_vain(words, now);
                }
                let (not_before, news) = entry.retry.after(&write, &error, now);
                entry.memory.not_before = Some(not_before);
                news
            }
        }
    }

    /// Stores what we know to be written, because the event of our own write may come later. If the
    /// watch has shown a later version than the answer, that one counts.
    fn store(&mut self, write: &RestartWrite, stored: Stored, now: Moment) {
        match stored {
            Stored::Request(request) => {
                let key = (request.namespace.clone(), request.name.clone());
                let entry = self
                    .requests
                    .get_mut(&key)
                    .filter(|entry| entry.request.uid == request.uid);
                let is_news = |entry: &Entry| {
                    is_later(
                        &request.version,
                        &entry.request.version,
                        &write.request.version,
                    )
                };
                if let Some(entry) = entry.filter(|entry| is_news(entry)) {
                    self.by_pod.remove(&entry.request);
                    self.by_pod.add(&request);
                    entry.request = *request;
                    let pod = pod_key(&entry.request);
                    self.pod_has_changed(&pod, now);
                }
            }
            Stored::Pod(pod) => {
                let key = (pod.pod.namespace.clone(), pod.pod.name.clone());
                if let Some(entry) = self.pods.get_mut(&key)
                    && let Seen::There(seen) = &entry.sight
                    && seen.pod.uid == pod.pod.uid
                    && is_later(&pod.pod.version, &seen.pod.version, &write.seen)
                {
                    entry.sight = Seen::There(pod);
                }
            }
            Stored::Nothing => {}
        }
    }
}

impl RestartWrite {
    /// Returns what is stored; a denial if a webhook has stored another journal in the request than
    /// was written, or not the labels without which it is nobody's.
    fn is_stored(&self, stored: Stored) -> Result<Stored, WriteError> {
        let (Action::Accept(Acceptance { journal, .. }) | Action::WriteDown(journal)) =
            &self.action
        else {
            return Ok(stored);
        };
        match stored {
            Stored::Request(request) if request.journal.as_ref() != Some(journal) => {
                Err(WriteError::Denied(format!(
                    "{UNDONE}: its annotation {JOURNAL} or its labels {POD_UID} and {ACTIVE} are not those that were written"
                )))
            }
            stored => Ok(stored),
        }
    }

    pub(super) fn notices(&self) -> Vec<Notice> {
        self.done
            .iter()
            .filter_map(|report| self.notice(report.clone()))
            .collect()
    }

    /// Returns a notice about the pod, even if the pod is gone.
    pub(super) fn notice(&self, report: Report) -> Option<Notice> {
        let RestartRequest {
            namespace,
            pod_name,
            pod_uid,
            ..
        } = &self.request;
        let gone = || {
            Some(Target {
                kind: TargetKind::Pod,
                namespace: namespace.clone(),
                name: pod_name.clone(),
                uid: pod_uid.clone()?,
            })
        };
        Some(Notice {
            target: self.pod.clone().or_else(gone)?,
            report,
        })
    }
}
