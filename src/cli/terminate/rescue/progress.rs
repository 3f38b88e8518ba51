//! The progress of the stuck pods, as the controller reports it.

use jiff::Timestamp;
use serde_json::json;
use swaplet_controller::frame::writer::report::Notice;
use swaplet_controller::terminate::selection::Progress;
use swaplet_core::objects::pod::{Phase, roles};
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use tokio::sync::mpsc;

use super::rows::{Stuck, header};
use crate::cli::program::table::{Output, printable, render};

/// The pods and their progress.
pub(super) struct Rescue {
    pods: Vec<Row>,
    news: mpsc::UnboundedReceiver<Progress>,
    /// True if somebody has ended it early.
    pub(super) is_interrupted: bool,
}

struct Row {
    stuck: Stuck,
    reason: Option<Reason>,
    reported: Vec<Report>,
    over: Option<Phase>,
}

impl Rescue {
    pub(super) fn new(stuck: Vec<Stuck>, news: mpsc::UnboundedReceiver<Progress>) -> Self {
        let pods = stuck
            .into_iter()
            .map(|stuck| Row {
                stuck,
                reason: None,
                reported: Vec::new(),
                over: None,
            })
            .collect();
        Self {
            pods,
            news,
            is_interrupted: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn ended(&self) -> usize {
        self.pods.iter().filter(|row| row.over.is_some()).count()
    }

    /// Returns true while a pod is left that may still end without intervention.
    pub(super) fn hopes(&self) -> bool {
        self.pods.iter().any(Row::hopes)
    }

    /// Returns true if all pods have ended, each like its main containers.
    pub(super) fn all_well(&self) -> bool {
        self.pods.iter().all(Row::is_well)
    }

    /// Waits for an event, and prints it.
    pub(super) async fn next(&mut self) {
        match self.news.recv().await {
            Some(news) => self.take(news),
            // Others observe the end of the controller.
            None => std::future::pending().await,
        }
    }

    /// Handles the events that were sent until the controller stopped.
    pub(super) fn rest(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take(news);
        }
    }

    fn take(&mut self, news: Progress) {
        match news {
            Progress::Decided { uid, reason } => self
                .pods
                .iter_mut()
                .filter(|row| row.stuck.pod.uid == uid)
                .for_each(|row| row.reason = Some(reason)),
            Progress::Reported(Notice { target, report }) => {
                let concerned = self.pods.iter_mut().filter(|row| row.is_about(&target.uid));
                concerned.for_each(|row| row.reported.push(report.clone()));
                say(&format!(
                    "{}/{}: {}: {}",
                    target.namespace, target.name, report.reason, report.note
                ));
            }
            Progress::Over { uid, phase } => {
                let Some(row) = self.pods.iter_mut().find(|row| row.stuck.pod.uid == uid) else {
                    return;
                };
                row.over = Some(phase);
                let (name, result) = (
                    format!("{}/{}", row.stuck.pod.namespace, row.stuck.pod.name),
                    row.result(),
                );
                say(&format!(
                    "{name}: {result}; {} of {} left",
                    self.pods.len() - self.ended(),
                    self.pods.len()
                ));
            }
        }
    }

    pub(super) fn table(&self, output: Output, now: Timestamp) -> anyhow::Result<String> {
        let mut lines = vec![header("RESULT")];
        let mut values = Vec::new();
        for row in &self.pods {
            lines.push(
                [
                    row.stuck.cells(now),
                    vec![row.result().to_owned(), row.details()],
                ]
                .concat(),
            );
            let mut value = row.stuck.value();
            value["ended"] = row.over.is_some().into();
            value["result"] = json!({"reason": row.result(), "details": row.details()});
            values.push(value);
        }
        render(output, &lines, &json!({ "pods": values }))
    }
}

impl Row {
    fn is_about(&self, uid: &str) -> bool {
        *self.stuck.pod.uid == *uid
            || self
                .stuck
                .pod
                .job
                .as_ref()
                .is_some_and(|job| *job.uid == *uid)
    }

    fn hopes(&self) -> bool {
        let reported = |reason| self.reported.iter().any(|report| report.reason == reason);
        // A Job that cannot be found is waited for until that is reported.
        let is_unknown = self.reason == Some(Reason::JobUnknown) && reported(Reason::JobUnknown);
        // A denied method leads to the next one.
        let is_denied = reported(Reason::WriteDenied) && self.reason == Some(Reason::WriteBackoff);
        self.over.is_none()
            && !is_denied
            && !is_unknown
            && !self.reason.is_some_and(Reason::needs_a_hand)
    }

    fn is_well(&self) -> bool {
        let failed = [
            Reason::PodFailedAfterSwap,
            Reason::PodFailedAfterFinish,
            Reason::PodFailedAfterRecreate,
        ];
        let is_lost = self.over == Some(Phase::Failed) && roles::mains_succeeded(&self.stuck.pod);
        self.over.is_some()
            && !is_lost
            && !self
                .reported
                .iter()
                .any(|report| failed.contains(&report.reason))
    }

    /// Returns the phase of a pod that has ended, else the reason why it has not.
    fn result(&self) -> &'static str {
        match (self.over, self.last_trouble(), self.reason) {
            (Some(phase), ..) if phase.is_terminal() => phase.as_str(),
            (Some(_), ..) => "Deleted",
            (None, Some(report), _) => report.reason.as_str(),
            (None, None, Some(reason)) => reason.as_str(),
            (None, None, None) => "NotSeen",
        }
    }

    fn details(&self) -> String {
        let words = || {
            self.reason
                .map_or("The controller has not observed the pod.", Reason::sentence)
                .to_owned()
        };
        match self.over {
            Some(_) => self.reported.last().map_or_else(
                || "It has ended by itself.".to_owned(),
                |report| report.note.clone(),
            ),
            None => self
                .last_trouble()
                .map_or_else(words, |report| report.note.clone()),
        }
    }

    /// Returns the last report, if it is about what keeps the pod from ending now.
    fn last_trouble(&self) -> Option<&Report> {
        let is_now = |report: &&Report| {
            Some(report.reason) == self.reason || report.reason == Reason::WriteDenied
        };
        self.reported.iter().rev().find(is_now)
    }
}

/// Prints progress on standard error, apart from the result.
fn say(line: &str) {
    eprintln!("{}", printable(line));
}
