//! The backoff of writes that were not applied.

use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::memory::denials::Denials;

use crate::frame::writer::report::Notice;
use crate::restart::write::RestartWrite;

/// The backoff after failed writes; its longest wait is also that after denied ones.
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(60),
};

/// The failed writes since the last applied one.
#[derive(Default)]
pub(crate) struct Retry {
    failures: u32,
    denials: Denials,
    reported: bool,
}

impl Retry {
    /// Records a failed write; returns the earliest time of the next one, and what to report.
    pub fn after(
        &mut self,
        write: &RestartWrite,
        error: &WriteError,
        now: Moment,
    ) -> (Moment, Vec<Notice>) {
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        let (wait, denial) = match error {
            WriteError::Denied(words) => (
                self.denials.one_more(RETRY.longest),
                Some(words).filter(|_| self.denials.are_lasting()),
            ),
            WriteError::Failed { retry_after, .. } => {
                (wait.max(retry_after.unwrap_or_default()), None)
            }
            WriteError::Conflict | WriteError::Gone => (wait, None),
        };
        let news = denial.filter(|_| !std::mem::replace(&mut self.reported, true));
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
        (now + wait, news.into_iter().collect())
    }
}
