//! The backoff of writes that were not applied.

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::memory::denials::Denials;

use crate::frame::writer::RETRY;
use crate::frame::writer::report::Notice;
use crate::restart::write::RestartWrite;

/// The number of failures, about a minute, after which they are reported.
const LASTING: u32 = 8;

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
        let (wait, lasting) = match error {
            WriteError::Denied(words) => (
                self.denials.one_more(RETRY.longest),
                self.denials.are_lasting().then_some(("forbids", words)),
            ),
            WriteError::Failed { retry_after, error } => (
                // A request has to end, however long a server asks to wait.
                wait.max(retry_after.unwrap_or_default()).min(RETRY.longest),
                (self.failures >= LASTING).then_some(("does not apply", error)),
            ),
            WriteError::Conflict | WriteError::Gone => (wait, None),
        };
        let news = lasting.filter(|_| !std::mem::replace(&mut self.reported, true));
        let news = news.and_then(|(fails, words)| {
            let (resource, name) = (write.resource(), &write.request.name);
            let note =
                format!("the API server {fails} a write to the {resource} of {name}: {words}");
            let reason = Reason::WriteDenied;
            write.notice(Report { reason, note })
        });
        (now + wait, news.into_iter().collect())
    }
}
