//! Pushing exit images that pods need, in the background: the loop goes on meanwhile.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use swaplet_core::cluster::exit_images::derived::Trouble;
use swaplet_core::report::decision::Paths;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Pushes at once: images are small, and a registry is shared.
const AT_ONCE: usize = 2;
/// What one push may take with all its tries; then it has failed.
const DEADLINE: Duration = Duration::from_secs(120);

/// What a push came to: the reference to write.
pub type Pushed = Result<Box<str>, Trouble>;

/// Pushes the exit image with these paths, unless it is there.
#[derive(Clone)]
pub struct Push(Arc<dyn Fn(Paths) -> BoxFuture<'static, Pushed> + Send + Sync>);

impl fmt::Debug for Push {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Push")
    }
}

impl Push {
    /// By any means.
    pub fn by<F: Future<Output = Pushed> + Send + 'static>(
        push: impl Fn(Paths) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |paths| push(paths).boxed()))
    }

    /// Pushes one.
    pub async fn push(&self, paths: Paths) -> Pushed {
        (self.0)(paths).await
    }
}

/// The pushes that are under way.
pub(crate) struct Deriver {
    push: Option<Push>,
    turns: Arc<Semaphore>,
    under_way: JoinSet<(Paths, Pushed)>,
}

impl Deriver {
    pub(crate) fn new(push: Option<Push>) -> Self {
        Self {
            push,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            under_way: JoinSet::new(),
        }
    }

    /// Starts a push; it comes back by [`next`](Self::next).
    pub(crate) fn start(&mut self, paths: Paths) {
        let Some(push) = self.push.clone() else {
            return;
        };
        let turns = Arc::clone(&self.turns);
        self.under_way.spawn(async move {
            let _turn = turns.acquire().await;
            // One strange answer of a registry must not end the process: the push has failed, and
            // is tried again like others.
            let pushed = AssertUnwindSafe(timeout(DEADLINE, push.push(paths.clone())))
                .catch_unwind()
                .await;
            let pushed = match pushed {
                Ok(Ok(pushed)) => pushed,
                Ok(Err(_)) => Err(trouble(format!("not done within {} s", DEADLINE.as_secs()))),
                Err(_) => Err(trouble(
                    "it broke off, which is a defect of swaplet: please report it with the log",
                )),
            };
            (paths, pushed)
        });
    }

    /// The next push that has come back; `None` while none is under way.
    pub(crate) async fn next(&mut self) -> Option<(Paths, Pushed)> {
        // A task ends in an error only when the whole process ends.
        self.under_way.join_next().await?.ok()
    }
}

fn trouble(words: impl Into<String>) -> Trouble {
    Trouble {
        words: words.into(),
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_breaks_off_or_hangs_has_failed() {
        let mut deriver = Deriver::new(Some(Push::by(|paths| async move {
            assert!(paths[0] != "/breaks", "a defect");
            std::future::pending().await
        })));
        for (path, words) in [("/breaks", "defect of swaplet"), ("/hangs", "120 s")] {
            deriver.start(vec![path.to_owned()]);
            let (paths, pushed) = deriver.next().await.unwrap();
            assert_eq!(paths, [path]);
            assert!(pushed.unwrap_err().words.contains(words));
        }
        assert_eq!(deriver.next().await, None);
    }
}
