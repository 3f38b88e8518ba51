//! Writes that the API server did not take: no answer came, it is in trouble, or a webhook cannot be
//! reached. They are repeated, more and more rarely, and not for ever.

use std::time::Duration;

use super::NodeProgress;
use crate::objects::moment::Moment;
use crate::objects::values::backoff::Backoff;
use crate::report::write_error::WriteError;
use crate::warm::warming::action::{Action, Limits};

/// The wait before the next try, unless the server requests a longer one.
const WRITE_AGAIN: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: Duration::from_secs(60),
};
/// The longest time for which writes are repeated. A job whose tries take less gives up earlier,
/// and one of type `Never` does not give up.
const PATIENCE: Duration = Duration::from_secs(600);

/// The writes for a node that were not taken, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Untaken {
    since: Moment,
    count: u32,
    /// Why the last one was not taken.
    pub why: Box<str>,
}

/// Returns why a write was not taken, and the wait that the server requests; `None` for an answer
/// to it. The error of a webhook that cannot be reached is one of all writes, not of this one.
pub(super) fn not_taken(error: &WriteError) -> Option<(&str, Option<Duration>)> {
    match error {
        WriteError::Failed { error, retry_after } => Some((error.as_str(), *retry_after)),
        WriteError::Denied(why) if why.contains("failed calling webhook") => {
            Some((why.as_str(), None))
        }
        _ => None,
    }
}

impl NodeProgress {
    /// Records a write that was not taken. When patience is over the node fails, or, if the write
    /// was a swap, another pod is tried.
    pub(super) fn was_not_taken(
        &mut self,
        action: &Action,
        (why, retry_after): (&str, Option<Duration>),
        limits: &Limits,
        now: Moment,
    ) {
        let untaken = self.untaken.get_or_insert(Untaken {
            since: now,
            count: 0,
            why: Box::default(),
        });
        let wait = WRITE_AGAIN.after(untaken.count);
        (untaken.count, untaken.why) = (untaken.count + 1, why.into());
        self.not_before = now + retry_after.unwrap_or_default().max(wait);
        let tries = limits.backoff_limit.saturating_add(1);
        let is_late = limits.ask_again.is_none()
            && now >= untaken.since + limits.timeout.saturating_mul(tries).min(PATIENCE);
        match action {
            Action::Swap { to, .. } => {
                // It may have been applied all the same.
                self.pod.iter_mut().for_each(|seen| seen.stored = None);
                if is_late {
                    self.first = self.open(to);
                }
            }
            Action::Create { .. } if is_late => self.fail_all(why),
            Action::Delete { .. } if is_late => self.cannot_delete(why),
            Action::Create { .. } | Action::Delete { .. } => return,
        }
        if is_late {
            self.untaken = None;
        }
    }
}
