//! The precedence of swaps: reports and stored state wait while a swap is queued or in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// The time without a swap that is waited for: pods of one burst come one after another.
const LULL: Duration = Duration::from_millis(100);
/// The longest wait for that: there may always be a swap.
const PATIENCE: Duration = Duration::from_secs(30);

/// The precedence that a loop claims for its swaps, and to which others yield. All clones are one.
#[derive(Clone, Debug)]
pub struct Precedence(Arc<watch::Sender<State>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A swap is queued or in flight.
    Swaps,
    /// There has been no swap since then.
    NoneSince(Instant),
    /// The loop has ended, and nothing yields any more.
    Lifted,
}

impl Default for Precedence {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State::NoneSince(
            Instant::now(),
        ))))
    }
}

impl Precedence {
    /// Records whether a swap is queued or in flight now.
    pub fn swaps(&self, are_any: bool) {
        self.0.send_if_modified(|state| {
            let next = match (are_any, *state) {
                (_, State::Lifted) | (true, State::Swaps) | (false, State::NoneSince(_)) => {
                    return false;
                }
                (true, State::NoneSince(_)) => State::Swaps,
                (false, State::Swaps) => State::NoneSince(Instant::now()),
            };
            *state = next;
            true
        });
    }

    /// Ends the precedence: nothing yields from now on.
    pub fn lift(&self) {
        self.0.send_replace(State::Lifted);
    }

    /// Waits until there was no swap for a while, on behalf of something that waits since `since`.
    /// Returns false if there still are swaps, but it has waited long enough.
    pub async fn yield_to_swaps(&self, since: Instant) -> bool {
        self.yield_with(since, since).await
    }

    /// Like [`yield_to_swaps`](Self::yield_to_swaps), for the next of a queue in which something
    /// waits since `oldest`, which is to wait no longer for others.
    pub(crate) async fn yield_with(&self, since: Instant, oldest: Instant) -> bool {
        timeout_at(oldest + PATIENCE, self.lull(since))
            .await
            .is_ok()
    }

    /// A report may come of the same event as a swap, and before it: so the lull comes after it.
    async fn lull(&self, reported: Instant) {
        let mut states = self.0.subscribe();
        loop {
            let state = *states.borrow_and_update();
            let changed = states.changed();
            match state {
                State::Lifted => return,
                // No error: the sender is here.
                State::Swaps => {
                    let _ = changed.await;
                }
                State::NoneSince(since) => {
                    let over = since.max(reported) + LULL;
                    if timeout_at(over, changed).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    async fn waits(precedence: &Precedence, since: Instant) -> (bool, Duration) {
        let begun = Instant::now();
        let passed = precedence.yield_to_swaps(since).await;
        (passed, begun.elapsed())
    }

    /// Timers are a millisecond late.
    fn about(waited: Duration) -> Duration {
        Duration::from_millis(u64::try_from(waited.as_millis()).unwrap() / 10 * 10)
    }

    #[tokio::test(start_paused = true)]
    async fn without_swaps_nothing_waits_longer_than_for_the_lull() {
        let precedence = Precedence::default();
        sleep(Duration::from_secs(1)).await;
        let since = Instant::now();
        let (passed, waited) = waits(&precedence, since).await;
        assert_eq!((passed, about(waited)), (true, LULL));
        let (passed, waited) = waits(&precedence, since).await;
        assert_eq!((passed, about(waited)), (true, Duration::ZERO));
        precedence.swaps(false);
        let (_, waited) = waits(&precedence, since).await;
        assert_eq!(about(waited), Duration::ZERO, "that is nothing new");
    }

    #[tokio::test(start_paused = true)]
    async fn swaps_go_first_and_their_lull_begins_anew() {
        let precedence = Precedence::default();
        precedence.swaps(true);
        let swaps = precedence.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                sleep(Duration::from_millis(250)).await;
                swaps.swaps(false);
                sleep(LULL / 2).await;
                swaps.swaps(true);
            }
            swaps.swaps(false);
        });
        let (passed, waited) = waits(&precedence, Instant::now()).await;
        let over = Duration::from_millis(20 * 300);
        assert!(
            passed && waited >= over + LULL && waited < over + 2 * LULL,
            "{waited:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_for_ever() {
        let precedence = Precedence::default();
        precedence.swaps(true);
        let since = Instant::now();
        sleep(Duration::from_secs(10)).await;
        let (passed, waited) = waits(&precedence, since).await;
        assert_eq!((passed, about(waited)), (false, Duration::from_secs(20)));
        let (passed, waited) = waits(&precedence, since).await;
        assert_eq!((passed, waited), (false, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_nothing_waits() {
        let precedence = Precedence::default();
        precedence.swaps(true);
        let lifting = precedence.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            lifting.lift();
        });
        let (passed, waited) = waits(&precedence, Instant::now()).await;
        assert_eq!((passed, about(waited)), (true, Duration::from_secs(1)));
        precedence.swaps(true);
        assert!(precedence.yield_to_swaps(Instant::now()).await);
    }
}
