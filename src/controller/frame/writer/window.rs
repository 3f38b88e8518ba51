//! The limit of writes in flight: as many as make the API server write faster, and half as many
//! where it refuses one.
//!
//! A server that is far away, or has many processors, answers more writes a second when more are in
//! flight; one that is busy only answers each later. So more are tried now and then, and kept if
//! the rate rises.

use swaplet_core::objects::moment::Moment;

/// The size at the beginning, unless fewer are allowed.
const FIRST: usize = 16;
/// The least size, however much is refused, unless fewer are allowed.
const LEAST: usize = 4;
/// The answers whose rate is one measurement; twice the writes in flight, if those are more.
const ROUND: usize = 64;
/// The measurements before more writes are tried again.
const KEPT: u32 = 16;
/// The factor of the rate from which more writes are kept: half as many more could reach 1.5.
const GAIN: f64 = 1.1;

/// The writes that a loop may have in flight.
#[derive(Debug)]
pub(crate) struct Window {
    most: usize,
    size: usize,
    next: Next,
    /// True if as many writes were in flight as may be, when the last ones were started.
    is_full: bool,
    /// The measurement. It begins with an answer, and ends when the loop writes less than it may.
    round: Option<Round>,
    /// Answers still to come of writes that were sent before the size was halved.
    sent_before: usize,
}

#[derive(Debug)]
struct Round {
    begun: Moment,
    answers: usize,
}

#[derive(Debug)]
enum Next {
    /// The size stays for this many measurements.
    Keep(u32),
    /// The size is larger than `before`, which had this rate, and goes back to it unless the rate
    /// has risen.
    Prove { before: usize, rate: f64 },
}

impl Window {
    /// Returns a window of never more than `most` writes.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            size: FIRST.min(most),
            next: Next::Keep(0),
            is_full: false,
            round: None,
            sent_before: 0,
        }
    }

    /// Returns how many writes may be in flight now.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Records how many writes are in flight, after all were started that may be.
    pub(crate) fn started(&mut self, under_way: usize) {
        self.is_full = under_way >= self.size;
        if !self.is_full {
            self.round = None;
        }
    }

    /// Records that a write was answered at this time.
    pub(crate) fn answered(&mut self, now: Moment) {
        self.sent_before = self.sent_before.saturating_sub(1);
        if !self.is_full {
            return;
        }
        let round = self.round.get_or_insert(Round {
            begun: now,
            answers: 0,
        });
        round.answers += 1;
        let took = now.since(round.begun);
        if round.answers < ROUND.max(2 * self.size) || took.is_zero() {
            return;
        }
        let rate = round.answers as f64 / took.as_secs_f64();
        self.round = None;
        self.judge(rate);
    }

    /// Records that a write was refused, or not answered in time, while `others` are in flight. If
    /// those are refused as well, that proves nothing new.
    pub(crate) fn refused(&mut self, others: usize) {
        self.round = None;
        if self.sent_before > 0 {
            self.sent_before -= 1;
            return;
        }
        self.sent_before = others;
        self.size = (self.size / 2).max(LEAST.min(self.most));
        self.next = Next::Keep(KEPT);
    }

    fn judge(&mut self, rate: f64) {
        match self.next {
            Next::Keep(left) if left > 0 => self.next = Next::Keep(left - 1),
            Next::Prove { before, rate: past } if rate < past * GAIN => {
                self.size = before;
                self.next = Next::Keep(KEPT);
            }
            Next::Keep(_) | Next::Prove { .. } => self.try_more(rate),
        }
    }

    fn try_more(&mut self, rate: f64) {
        if self.size == self.most {
            self.next = Next::Keep(KEPT);
            return;
        }
        self.next = Next::Prove {
            before: self.size,
            rate,
        };
        self.size = (self.size + self.size.div_ceil(2)).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Answers so many writes of a server that needs `latency` for one, and has `seats` for those
    /// that it works on at the same time.
    fn answer(window: &mut Window, writes: usize, latency: f64, seats: usize, now: &mut f64) {
        for _ in 0..writes {
            window.started(window.size());
            *now += latency / window.size().min(seats) as f64;
            window.answered(Moment::after_start(Duration::from_secs_f64(*now)));
        }
    }

    #[test]
    fn a_server_that_takes_more_gets_more_up_to_the_most() {
        let (mut window, mut now) = (Window::new(64), 0.0);
        assert_eq!(window.size(), 16);
        answer(&mut window, 1_000, 0.05, 1_000, &mut now);
        assert_eq!(window.size(), 64);
        answer(&mut window, 10_000, 0.05, 1_000, &mut now);
        assert_eq!(window.size(), 64);
    }

    #[test]
    fn a_busy_server_is_tried_with_more_and_then_gets_as_many_as_before() {
        let (mut window, mut now) = (Window::new(64), 0.0);
        let mut tried = 0;
        for _ in 0..10_000 {
            answer(&mut window, 1, 0.05, 8, &mut now);
            assert!(window.size() <= 24, "{window:?}");
            tried += usize::from(window.size() > 16);
        }
        assert!((1..1_500).contains(&tried), "{tried} of 10,000");
    }

    #[test]
    fn the_limit_of_a_server_is_found() {
        let (mut window, mut now) = (Window::new(200), 0.0);
        answer(&mut window, 3_000, 0.05, 40, &mut now);
        assert!((36..=60).contains(&window.size()), "{window:?}");
    }

    #[test]
    fn a_refusal_halves_it_once_for_all_that_were_under_way_and_it_grows_again() {
        let (mut window, mut now) = (Window::new(64), 0.0);
        answer(&mut window, 1_000, 0.05, 1_000, &mut now);
        for others in (0..64).rev() {
            window.refused(others);
        }
        assert_eq!(window.size(), 32);
        window.refused(31);
        assert_eq!(window.size(), 16);
        for _ in 0..200 {
            window.refused(0);
        }
        assert_eq!(window.size(), LEAST);
        answer(&mut window, 10_000, 0.05, 1_000, &mut now);
        assert_eq!(window.size(), 64);
    }

    #[test]
    fn answers_tell_nothing_while_less_waits_than_could_be_written() {
        let (mut window, mut now) = (Window::new(64), 0.0);
        for _ in 0..10_000 {
            now += 0.001;
            window.started(1);
            window.answered(Moment::after_start(Duration::from_secs_f64(now)));
        }
        assert_eq!(window.size(), 16);
    }

    #[test]
    fn where_few_are_allowed_no_more_are_under_way() {
        for most in 1..=4 {
            let (mut window, mut now) = (Window::new(most), 0.0);
            answer(&mut window, 1_000, 0.05, 1_000, &mut now);
            window.refused(0);
            assert_eq!(window.size(), most);
        }
    }
}
