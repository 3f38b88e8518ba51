//! What becomes of a write that the API server forbids.

use std::time::Duration;

use super::entry::Entry;
use super::{Effect, Write, notice};
use crate::decide::decision::{Action, Report, Swap};
use crate::decide::reason::Reason;

/// The wait after the first denial: one alone may be a webhook that was being replaced, or a right that was being granted.
const DENIED_AGAIN: Duration = Duration::from_secs(5);
/// The wait after the second one: an administrator has to change something.
const DENIED_RETRY: Duration = Duration::from_secs(60);
/// The longest wait after denials.
const LAST_DENIED_RETRY: Duration = Duration::from_secs(15 * 60);

impl Entry {
    /// A swap that is denied again and again leads on to the next rung, which asks for another right; all other writes of the pod wait.
    pub(super) fn denied(&mut self, write: Write, words: &str, now: Duration) -> Vec<Effect> {
        let times = self.memory.denied.times(write.action.rung());
        let wait = match times {
            0 => DENIED_AGAIN,
            times => DENIED_RETRY.saturating_mul(1 << (times - 1).min(16)).min(LAST_DENIED_RETRY),
        };
        let until = now.saturating_add(wait);
        let note = format!("the API server forbids to {}: {words}", attempt(&write.action));
        self.memory.denied.remember(write.action.rung(), note.as_str().into(), until);
        if times == 0 || !matches!(write.action, Action::Swap(_)) {
            self.memory.not_before = Some(until);
        }
        // Told once of each way: what is denied of one says nothing of the other.
        if times != 1 {
            return Vec::new();
        }
        self.memory.first_time(Reason::WriteDenied);
        notice(write.target, Some(Report { reason: Reason::WriteDenied, note })).into_iter().collect()
    }
}

/// What was tried, in words that follow "forbids to".
fn attempt(action: &Action) -> String {
    match action {
        Action::Swap(swaps) => format!("change the image of {}", names(swaps)),
        Action::Finish(_) => "write the phase of the pod (grant patch of pods/status, or start with --finish=never)".to_owned(),
        Action::Recreate(containers) => format!("ask for an end of {}", containers.join(", ")),
    }
}

fn names(swaps: &[Swap]) -> String {
    swaps.iter().map(|swap| &*swap.container).collect::<Vec<_>>().join(", ")
}
