//! Pushes the exit images that pods need, in the background: the loop continues meanwhile.

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

/// Pushes in progress at once: images are small, and a registry is shared.
const AT_ONCE: usize = 2;
/// The deadline of one push with all its tries; after that it has failed.
const DEADLINE: Duration = Duration::from_secs(120);

/// The result of a push: the reference to write to pods.
pub type Pushed = Result<Box<str>, Trouble>;

/// A function that pushes the exit image with these paths, unless the registry has it.
#[derive(Clone)]
pub struct Push(Arc<dyn Fn(Paths) -> BoxFuture<'static, Pushed> + Send + Sync>);

impl fmt::Debug for Push {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Push")
    }
}

impl Push {
    /// Wraps a function.
    pub fn by<F: Future<Output = Pushed> + Send + 'static>(
        push: impl Fn(Paths) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |paths| push(paths).boxed()))
    }

    /// Pushes one exit image.
    pub async fn push(&self, paths: Paths) -> Pushed {
        (self.0)(paths).await
    }
}

/// The pushes in progress.
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

    /// Starts a push; its result comes from [`next`](Self::next).
    pub(crate) fn start(&mut self, paths: Paths) {
        let Some(push) = self.push.clone() else {
            return;
        };
        let turns = Arc::clone(&self.turns);
        self.under_way.spawn(async move {
            let _turn = turns.acquire().await;
            // One strange answer of a registry must not end the process: the push has failed, and
            // is retried like others.
            let pushed = AssertUnwindSafe(timeout(DEADLINE, push.push(paths.clone())))
                .catch_unwind()
                .await;
            let pushed = match pushed {
                Ok(Ok(pushed)) => pushed,
                Ok(Err(_)) => Err(trouble(format!("not done within {} s", DEADLINE.as_secs()))),
                Err(_) => Err(trouble(
                    "it was aborted, which is a defect of swaplet: please report it with the log",
                )),
            };
            (paths, pushed)
        });
    }

    /// Waits for the next push to finish; `None` while none is in progress.
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
