//! Which writes to a pod the API server has forbidden: a policy, a webhook, or a right that is missing.

use std::time::Duration;

use super::ladder::Rung;

/// The denials of one pod, by the way that was tried; few, for there are few ways.
#[derive(Clone, Debug, Default)]
pub struct Denials(Vec<Denial>);

/// Denials one after another.
#[derive(Clone, Debug)]
struct Denial {
    rung: Rung,
    times: u32,
    words: Box<str>,
    until: Duration,
}

impl Denials {
    /// How often writes of this way were denied one after another.
    #[must_use]
    pub fn times(&self, rung: Rung) -> u32 {
        self.of(rung).map_or(0, |denial| denial.times)
    }

    /// A write of this way was denied, in these words; it is not worth another try before `until`.
    pub fn remember(&mut self, rung: Rung, words: Box<str>, until: Duration) {
        let times = self.times(rung).saturating_add(1);
        self.forget(rung);
        self.0.push(Denial { rung, times, words, until });
    }

    /// A write of this way was applied.
    pub fn forget(&mut self, rung: Rung) {
        self.0.retain(|denial| denial.rung != rung);
    }

    /// Until when this way is closed, and the words; one denial alone closes none.
    pub(super) fn closes(&self, rung: Rung, now: Duration) -> Option<(Duration, &str)> {
        let denial = self.of(rung).filter(|denial| denial.times > 1 && now < denial.until)?;
        Some((denial.until, &denial.words))
    }

    fn of(&self, rung: Rung) -> Option<&Denial> {
        self.0.iter().find(|denial| denial.rung == rung)
    }
}
