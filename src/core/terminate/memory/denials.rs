//! The writes that the API server has denied (a policy, a webhook, or a missing right), and when
//! they are retried.
//!
//! A single denial proves little: a webhook may not have been reached, or an API server's view of
//! roles may lag behind. So the first retries follow within seconds, and are not reported. What is
//! still denied then stays denied until an administrator changes something. A write that the API
//! server does not apply for a minute, whatever its answers are, counts as one that it denies.

use std::time::Duration;

use crate::objects::moment::Moment;
use crate::objects::values::backoff::Backoff;
use crate::report::decision::Method;

/// The number of quick retries of a denied write, within seconds. Whatever reports a denial, or
/// uses another method because of it, waits for them ([`Denials::are_lasting`]).
pub const QUICK_DENIED_RETRIES: u32 = 3;
/// The wait before the first of these retries; it doubles with each further one.
const QUICK_RETRY: Duration = Duration::from_millis(500);
/// The first wait after these retries; it doubles too.
const DENIED_RETRY: Duration = Duration::from_secs(60);

/// A number of denials, one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Denials(u32);

impl Denials {
    /// Counts one more denial. Returns the wait until the next retry, at most `longest`.
    pub fn one_more(&mut self, longest: Duration) -> Duration {
        let before = self.0;
        self.0 = before.saturating_add(1);
        let (first, doubled) = match before.checked_sub(QUICK_DENIED_RETRIES) {
            None => (QUICK_RETRY, before),
            Some(lasting) => (DENIED_RETRY, lasting),
        };
        Backoff { first, longest }.after(doubled)
    }

    /// Returns true if the quick retries were denied as well.
    #[must_use]
    pub const fn are_lasting(self) -> bool {
        self.0 > QUICK_DENIED_RETRIES
    }

    /// Returns true if the latest denial has made them lasting: the time to report it.
    #[must_use]
    pub const fn are_news(self) -> bool {
        self.0 == QUICK_DENIED_RETRIES + 1
    }
}

/// The denials of the writes to one pod, by method; few, because there are few methods.
#[derive(Clone, Debug, Default)]
pub struct DeniedWays(Vec<DeniedWay>);

#[derive(Clone, Debug)]
struct DeniedWay {
    method: Method,
    denials: Denials,
    words: Box<str>,
    until: Moment,
}

impl DeniedWays {
    /// Returns the denials of this method, one after another.
    #[must_use]
    pub fn of(&self, method: Method) -> Denials {
        self.way(method)
            .map_or_else(Denials::default, |way| way.denials)
    }

    /// Returns true if those of some method are lasting.
    #[must_use]
    pub fn are_lasting(&self) -> bool {
        self.0.iter().any(|way| way.denials.are_lasting())
    }

    /// Records a denied write of this method, with its error. Returns the end of the wait before
    /// the next retry, at most `longest` from now.
    pub fn remember(
        &mut self,
        method: Method,
        words: Box<str>,
        now: Moment,
        longest: Duration,
    ) -> Moment {
        let mut denials = self.of(method);
        let until = now + denials.one_more(longest);
        self.forget(method);
        self.0.push(DeniedWay {
            method,
            denials,
            words,
            until,
        });
        until
    }

    /// Records that writes of this method have failed for so long that it counts as denied, until
    /// then.
    pub fn failed(&mut self, method: Method, words: Box<str>, until: Moment) {
        let denials = Denials(
            self.of(method)
                .0
                .max(QUICK_DENIED_RETRIES)
                .saturating_add(1),
        );
        self.forget(method);
        self.0.push(DeniedWay {
            method,
            denials,
            words,
            until,
        });
    }

    /// Forgets the denials of this method, because a write was applied.
    pub fn forget(&mut self, method: Method) {
        self.0.retain(|way| way.method != method);
    }

    /// Returns until when this method is closed, and the error; denials that do not last close
    /// none.
    pub(crate) fn closes(&self, method: Method, now: Moment) -> Option<(Moment, &str)> {
        let way = self
            .way(method)
            .filter(|way| way.denials.are_lasting() && now < way.until)?;
        Some((way.until, &way.words))
    }

    fn way(&self, method: Method) -> Option<&DeniedWay> {
        self.0.iter().find(|way| way.method == method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_the_first_tries_follow_within_seconds_and_the_later_ones_rarely() {
        let mut denials = Denials::default();
        let mut next = || {
            (
                denials.one_more(Duration::from_secs(900)).as_millis(),
                denials.are_lasting(),
            )
        };
        assert_eq!(
            [next(), next(), next()],
            [(500, false), (1000, false), (2000, false)]
        );
        assert_eq!(
            [next(), next(), next()],
            [(60_000, true), (120_000, true), (240_000, true)]
        );
        for _ in 0..100 {
            next();
        }
        assert_eq!(next(), (900_000, true));
    }
}
