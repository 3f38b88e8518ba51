//! The rate at which a provider may be requested to change pods: a token bucket without a clock.

use std::time::Duration;

use crate::objects::moment::Moment;

/// The part of the rate that can be used at once after a pause: one second's worth, so that the
/// provider's own limit (counted per minute) does not notice a burst.
const BURST: Duration = Duration::from_secs(1);

/// A rate of updates, with a small burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    interval: Duration,
}

/// The remainder of a rate. A new bucket is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// When the bucket is full again.
    full_at: Moment,
}

impl Rate {
    /// Returns the rate of one update per interval.
    pub const fn every(interval: Duration) -> Self {
        Self { interval }
    }

    /// Returns the rate in updates per second.
    pub fn per_second(self) -> f64 {
        self.interval.as_secs_f64().recip()
    }
}

impl Bucket {
    /// Returns when the next update may be made; a time not after `now` means now.
    pub fn next(&self, rate: Rate) -> Moment {
        let burst = BURST.saturating_sub(rate.interval);
        self.full_at - burst
    }

    /// Counts an update that is made now.
    pub fn take(&mut self, rate: Rate, now: Moment) {
        self.full_at = self.full_at.max(now) + rate.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many updates a greedy caller makes, asking every millisecond for so many seconds.
    fn greedy(bucket: &mut Bucket, rate: Rate, from: u64, seconds: u64) -> u64 {
        let times = (from * 1000..(from + seconds) * 1000)
            .map(|milliseconds| Moment::after_start(Duration::from_millis(milliseconds)));
        times
            .filter(|now| {
                bucket.next(rate) <= *now && {
                    bucket.take(rate, *now);
                    true
                }
            })
            .count() as u64
    }

    #[test]
    fn four_per_second_with_one_second_of_burst() {
        let rate = Rate::every(Duration::from_millis(250));
        let mut bucket = Bucket::default();
        assert_eq!(greedy(&mut bucket, rate, 0, 1), 4 + 3);
        assert_eq!(greedy(&mut bucket, rate, 1, 60), 4 * 60);
        assert_eq!(
            greedy(&mut bucket, rate, 100, 1),
            4 + 3,
            "after a pause the burst is back, and no more than that"
        );
    }

    #[test]
    fn a_rate_below_one_per_second_has_no_burst() {
        let rate = Rate::every(Duration::from_secs(10));
        let mut bucket = Bucket::default();
        assert_eq!(greedy(&mut bucket, rate, 0, 100), 10);
        assert_eq!(
            bucket.next(rate),
            Moment::after_start(Duration::from_secs(100))
        );
    }
}
