//! Points in time, as the decisions read and keep them.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time by the process's own clock: how long after the start of the process it is.
///
/// It is a type of its own so that no length of time can be taken for a point in time. A time of
/// day is a [`jiff::Timestamp`] instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The start of the process.
    pub const START: Self = Self(Duration::ZERO);

    /// A point in time that never comes.
    pub const NEVER: Self = Self(Duration::MAX);

    /// Returns the point in time that is `since_start` after the start of the process.
    pub const fn after_start(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// Returns how long after the start of the process this is.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// Returns how long after `earlier` this is: zero where `earlier` is the later of the two.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Returns the point in time that much later, [`Moment::NEVER`] at the latest.
impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later_by: Duration) -> Self {
        Self(self.0.saturating_add(later_by))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, later_by: Duration) {
        *self = *self + later_by;
    }
}

/// Returns the point in time that much earlier, [`Moment::START`] at the earliest.
impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, earlier_by: Duration) -> Self {
        Self(self.0.saturating_sub(earlier_by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point in time stays between the start of the process and never, and no time is below zero.
    #[test]
    fn a_moment_stays_between_the_start_and_never() {
        let second = Duration::from_secs(1);
        let first = Moment::after_start(second);
        assert_eq!(first - second, Moment::START);
        assert_eq!(Moment::START - second, Moment::START);
        assert_eq!(Moment::NEVER + second, Moment::NEVER);
        let mut later = first;
        later += second;
        assert_eq!(later.since_start(), Duration::from_secs(2));
        assert_eq!(later.since(first), second);
        assert_eq!(first.since(later), Duration::ZERO);
    }
}
