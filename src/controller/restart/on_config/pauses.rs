//! Pauses of namespaces whose writes take long, as behind a webhook that hardly answers: the loop
//! waits for each write, and so do the pods of other namespaces.

use std::collections::BTreeMap;
use std::time::Duration;

/// Writes that take less than this need no pause.
const SLOW: Duration = Duration::from_secs(1);
/// The pause after a slow write, as a multiple of the time that it took.
const TIMES: u32 = 20;

/// The times until which no write of a namespace is tried.
#[derive(Default)]
pub(super) struct Pauses(BTreeMap<Box<str>, Duration>);

impl Pauses {
    /// Returns the time until which no write of a namespace is tried; `None` if one may be.
    pub(super) fn until(&self, namespace: &str, now: Duration) -> Option<Duration> {
        let until = self.0.get(namespace).copied();
        until.filter(|until| *until > now)
    }

    /// Records a write that began at `began` and is over.
    pub(super) fn note(&mut self, namespace: &str, began: Duration, now: Duration) {
        let took = now.saturating_sub(began);
        if took >= SLOW {
            self.0.retain(|_, until| *until > now);
            self.0.insert(namespace.into(), now + took * TIMES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_pauses_after_a_slow_write_and_others_do_not() {
        let at = Duration::from_secs;
        let mut pauses = Pauses::default();
        pauses.note("fast", at(0), at(0));
        assert_eq!(pauses.until("fast", at(0)), None);
        pauses.note("slow", at(0), at(10));
        assert_eq!(pauses.until("slow", at(10)), Some(at(210)));
        assert_eq!(pauses.until("fast", at(10)), None);
        assert_eq!(pauses.until("slow", at(210)), None);
        pauses.note("other", at(300), at(302));
        assert_eq!(pauses.0.len(), 1, "what is over is not kept");
    }
}
