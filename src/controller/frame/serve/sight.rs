//! The state of the watch of one kind of objects.

use std::time::Duration;

use tokio::time::Instant;

/// The age from which what was observed counts as stale. A watch lives 45 s, a dead one is given up
/// after 55 s ([`crate::frame::watch`]), and another one is opened at once. What is older is not
/// the present cluster: the server does not answer, or a loop does not take its events.
pub(crate) const STALE: Duration = Duration::from_secs(60);

/// The watch of one kind of objects: whether it was listed, is current or in trouble.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    listed: bool,
    /// The time at which the watch was opened last; of several watches, the earliest.
    current: Option<Instant>,
    /// The last error, and when it occurred.
    trouble: Option<(String, Instant)>,
}

impl Sight {
    /// Records that a list is complete.
    pub(crate) const fn listed(&mut self) {
        self.listed = true;
    }

    /// Returns true if any list was complete.
    pub(crate) const fn is_listed(&self) -> bool {
        self.listed
    }

    /// Records that a watch was opened at `since`. A list alone does not end a trouble, because it
    /// may be the watch that is forbidden.
    pub(crate) fn current(&mut self, since: Instant) {
        self.current = Some(since);
        self.trouble.take_if(|(_, at)| *at <= since);
    }

    /// Records an error; returns true if it is new.
    pub(crate) fn trouble(&mut self, error: &str) -> bool {
        let before = self.trouble.replace((error.to_owned(), Instant::now()));
        before.is_none_or(|(before, _)| before != error)
    }

    /// Returns why the objects are not observed as they are now; `None` if they are.
    pub(crate) fn why_not(&self) -> Option<String> {
        let stale = || {
            let age = self.current?.elapsed();
            (age > STALE).then(|| {
                format!(
                    "no watch was opened for {} s, so their state may be out of date",
                    age.as_secs()
                )
            })
        };
        self.trouble
            .as_ref()
            .map(|(error, _)| error.clone())
            .or_else(stale)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_not_renewed_is_stale_after_a_minute() {
        let mut sight = Sight::default();
        advance(STALE * 2).await;
        assert_eq!(
            sight.why_not(),
            None,
            "nothing was seen yet, so nothing is old"
        );
        sight.current(Instant::now());
        advance(STALE).await;
        assert_eq!(sight.why_not(), None);
        advance(Duration::from_secs(1)).await;
        assert_eq!(
            sight.why_not().unwrap(),
            "no watch was opened for 61 s, so their state may be out of date"
        );
        sight.current(Instant::now());
        assert_eq!(sight.why_not(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trouble_ends_with_a_watch_that_was_opened_after_it() {
        let mut sight = Sight::default();
        let before = Instant::now();
        advance(Duration::from_secs(1)).await;
        assert!(sight.trouble("pods is forbidden"));
        assert!(!sight.trouble("pods is forbidden"));
        sight.listed();
        sight.current(before);
        assert_eq!(sight.why_not().unwrap(), "pods is forbidden");
        sight.current(Instant::now());
        assert_eq!(sight.why_not(), None);
    }
}
