//! Pushes the exit images that pods need, in the background: the loop continues meanwhile.

use std::time::Duration;

use swaplet_core::cluster::exit_images::derived::Trouble;
use swaplet_core::report::decision::Paths;

use super::call::Call;
use crate::frame::in_flight::InFlight;
use crate::frame::queue::FairQueue;

/// Pushes in progress at once, of which each namespace has a share: images are small, and a
/// registry is shared.
const AT_ONCE: usize = 4;
/// The deadline of one push with all its tries; after that it has failed.
const DEADLINE: Duration = Duration::from_secs(120);

/// The result of a push: the reference to write to pods.
pub type Pushed = Result<Box<str>, Trouble>;

/// A function that pushes the exit image with these paths, unless the registry has it.
pub type Push = Call<Paths, Pushed>;

/// The pushes in progress, and those that wait for their turn.
pub(crate) struct Deriver {
    push: Option<Push>,
    /// The images that are to be pushed, each with the namespace whose pod has asked for it.
    waiting: FairQueue<(Box<str>, Paths)>,
    under_way: InFlight<(Box<str>, Paths), Result<Pushed, String>>,
}

impl Deriver {
    pub(crate) fn new(push: Option<Push>) -> Self {
        Self {
            push,
            waiting: FairQueue::default(),
            under_way: InFlight::new(AT_ONCE, |(namespace, _)| namespace),
        }
    }

    /// Starts a push for a pod of a namespace, when it is its turn; its result comes from
    /// [`next`](Self::next).
    pub(crate) fn start(&mut self, namespace: Box<str>, paths: Paths) {
        if self.push.is_some() {
            self.waiting.push(&namespace.clone(), (namespace, paths));
            self.begin();
        }
    }

    /// Begins the pushes for which there is room.
    fn begin(&mut self) {
        let Some(push) = &self.push else {
            return;
        };
        let waiting = &mut self.waiting;
        while let Some(next) = self.under_way.turn(|may_begin| waiting.pop_of(may_begin)) {
            self.under_way
                .begin(push.clone(), next, |push, (_, paths)| {
                    Box::pin(push.within(DEADLINE, paths.clone()))
                });
        }
    }

    /// Waits for the next push to finish, and returns it with the namespace whose pod has asked for
    /// it; `None` while none is in progress.
    pub(crate) async fn next(&mut self) -> Option<(Box<str>, Paths, Pushed)> {
        let (next, pushed) = self.under_way.finished().await?;
        // That a push fails says nothing about who has asked for it.
        self.under_way.end(&next, false);
        self.begin();
        // It is retried like a push that has failed.
        let trouble = |words| Trouble {
            words,
            retry_after: None,
        };
        let pushed = pushed.flatten().unwrap_or_else(|words| Err(trouble(words)));
        Some((next.0, next.1, pushed))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_breaks_off_or_hangs_has_failed() {
        let mut deriver = Deriver::new(Some(Push::by(|paths| async move {
            assert!(paths[0] != "/breaks", "a defect");
            std::future::pending().await
        })));
        for (path, words) in [("/breaks", "defect of swaplet"), ("/hangs", "120 s")] {
            deriver.start("a".into(), vec![path.to_owned()]);
            let (_, paths, pushed) = deriver.next().await.unwrap();
            assert_eq!(paths, [path]);
            assert!(pushed.unwrap_err().words.contains(words));
        }
        assert_eq!(deriver.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_asks_for_many_images_keeps_no_other_one_waiting() {
        let start = Instant::now();
        let mut deriver = Deriver::new(Some(Push::by(|paths| async move {
            sleep(Duration::from_secs(60)).await;
            Ok(paths.concat().into())
        })));
        for nth in 0..20 {
            deriver.start("greedy".into(), vec![format!("/{nth}")]);
        }
        for path in ["/modest", "/modest2"] {
            deriver.start("modest".into(), vec![path.to_owned()]);
        }
        let mut seconds = Vec::new();
        while let Some((_, paths, _)) = deriver.next().await {
            if paths[0].starts_with("/modest") {
                seconds.push(start.elapsed().as_secs());
            }
        }
        assert_eq!(seconds, [60, 120]);
        let all = start.elapsed().as_secs();
        assert!(
            (330..=480).contains(&all),
            "{all}: the greedy one has his, too"
        );
    }
}
