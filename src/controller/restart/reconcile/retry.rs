//! When a write is made again that was not applied.

use std::time::Duration;

use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::denials::Denials;

use crate::frame::writer::Outcome;
use crate::frame::writer::report::Notice;
use crate::restart::write::RestartWrite;

/// The wait after failed writes; the longest is that after denied ones too.
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(60),
};

/// The writes that have failed since the last one that was applied.
#[derive(Default)]
pub(crate) struct Retry {
    failures: u32,
    denials: Denials,
    told: bool,
}

impl Retry {
    /// A write has failed: before which time no other is made, and what is to be told.
    pub fn after(
        &mut self,
        write: &RestartWrite,
        outcome: &Outcome,
        now: Duration,
    ) -> (Duration, Vec<Notice>) {
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        let (wait, denial) = match outcome {
            Outcome::Denied(words) => (
                self.denials.one_more(RETRY.longest),
                Some(words).filter(|_| self.denials.are_lasting()),
            ),
            Outcome::Failed { retry_after, .. } => {
                (wait.max(retry_after.unwrap_or_default()), None)
            }
            Outcome::Applied(_) | Outcome::Conflict | Outcome::Gone => (wait, None),
        };
        let news = denial.filter(|_| !std::mem::replace(&mut self.told, true));
        let note = |words: &String| {
            format!(
                "the API server forbids a write to the {} of {}: {words}",
                write.resource(),
                write.request.name
            )
        };
        let news = news.and_then(|words| {
            write.notice(Report {
                reason: Reason::WriteDenied,
                note: note(words),
            })
        });
        (now.saturating_add(wait), news.into_iter().collect())
    }
}
