//! Whether objects of one kind are seen as they are now.

use std::time::Duration;

use tokio::time::Instant;

/// A watch lives 45 s, and one that is dead is given up after 55 s ([`crate::frame::watch`]); then
/// another one is opened at once. What is older is not what the cluster is now, whatever the
/// reason: a server that does not answer, or a loop that does not take what it is told.
pub(crate) const STALE: Duration = Duration::from_secs(60);

/// What is known of the watch of one kind of objects.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    listed: bool,
    /// When the watch was opened last; of several the one that was opened first.
    current: Option<Instant>,
    /// What went wrong last, and when.
    trouble: Option<(String, Instant)>,
}

impl Sight {
    /// A list was complete.
    pub(crate) const fn listed(&mut self) {
        self.listed = true;
    }

    /// Whether a list ever was complete.
    pub(crate) const fn is_listed(&self) -> bool {
        self.listed
    }

    /// A watch was opened then. A list alone does not end a trouble: it may be the watch that is
    /// forbidden.
    pub(crate) fn current(&mut self, since: Instant) {
        self.current = Some(since);
        self.trouble.take_if(|(_, at)| *at <= since);
    }

    /// Something went wrong; whether that is new.
    pub(crate) fn trouble(&mut self, error: &str) -> bool {
        let before = self.trouble.replace((error.to_owned(), Instant::now()));
        before.is_none_or(|(before, _)| before != error)
    }

    /// Why the objects are not seen as they are now.
    pub(crate) fn why_not(&self) -> Option<String> {
        let stale = || {
            let age = self.current?.elapsed();
            (age > STALE).then(|| {
                format!(
                    "no watch was opened for {} s, so what is seen may be old",
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
            "no watch was opened for 61 s, so what is seen may be old"
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
