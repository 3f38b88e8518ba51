//! Pushing exit images that pods need, in the background: the loop goes on meanwhile.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::decide::derived_images::{Paths, Trouble};
use crate::image::build::build_derived;
use crate::image::docker_config::{Credentials, DockerConfigError};
use crate::image::push::{PushError, push};
use crate::image::registry::{Registry, RegistryOptions};
use crate::image::registry_error::RegistryError;
use crate::image::{ImageReference, Kind};

/// Pushes at once: images are small, and a registry is shared.
const AT_ONCE: usize = 2;
/// What one push may take with all its tries; then it has failed.
const DEADLINE: Duration = Duration::from_secs(120);
/// As much of a digest as makes a tag that no other image has.
const TAG_DIGITS: usize = 16;

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
    pub fn by<F: Future<Output = Pushed> + Send + 'static>(push: impl Fn(Paths) -> F + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |paths| push(paths).boxed()))
    }

    /// To a repository. `credentials` is asked before each push: they may have been renewed.
    pub fn to(
        repository: ImageReference,
        options: RegistryOptions,
        credentials: impl Fn(&ImageReference) -> Result<Credentials, DockerConfigError> + Send + Sync + 'static,
    ) -> Self {
        Self::by(move |paths| {
            let (repository, options, credentials) = (repository.clone(), options.clone(), credentials(&repository));
            async move {
                let credentials = credentials.map_err(|error| trouble(error, None))?;
                push_derived(&repository, &credentials, options, &paths).await
            }
        })
    }

    /// Pushes one.
    pub async fn push(&self, paths: Paths) -> Pushed {
        (self.0)(paths).await
    }
}

/// The pushes that are under way.
pub(super) struct Deriver {
    push: Option<Push>,
    turns: Arc<Semaphore>,
    under_way: JoinSet<(Paths, Pushed)>,
}

impl Deriver {
    pub(super) fn new(push: Option<Push>) -> Self {
        Self { push, turns: Arc::new(Semaphore::new(AT_ONCE)), under_way: JoinSet::new() }
    }

    /// Starts a push; it comes back by [`next`](Self::next).
    pub(super) fn start(&mut self, paths: Paths) {
        let Some(push) = self.push.clone() else { return };
        let turns = Arc::clone(&self.turns);
        self.under_way.spawn(async move {
            let _turn = turns.acquire().await;
            // One strange answer of a registry must not end the process: the push has failed, and is tried again like others.
            let pushed = AssertUnwindSafe(timeout(DEADLINE, push.push(paths.clone()))).catch_unwind().await;
            let pushed = match pushed {
                Ok(Ok(pushed)) => pushed,
                Ok(Err(_)) => Err(trouble(format!("not done within {} s", DEADLINE.as_secs()), None)),
                Err(_) => Err(trouble("it broke off, which is a defect of swaplet: please report it with the log", None)),
            };
            (paths, pushed)
        });
    }

    /// The next push that has come back; `None` while none is under way.
    pub(super) async fn next(&mut self) -> Option<(Paths, Pushed)> {
        // A task ends in an error only when the whole process ends.
        self.under_way.join_next().await?.ok()
    }
}

fn trouble(words: impl ToString, retry_after: Option<Duration>) -> Trouble {
    Trouble { words: words.to_string(), retry_after }
}

/// The image is written by its digest, and kept under a tag, so that no registry takes it for rubbish.
async fn push_derived(repository: &ImageReference, credentials: &Credentials, options: RegistryOptions, paths: &[String]) -> Pushed {
    let image = build_derived(Kind::Exit, paths).map_err(|error| trouble(error, None))?;
    let digits = image.digest().trim_start_matches("sha256:").chars().take(TAG_DIGITS);
    let tag = repository.with_tag(&digits.collect::<String>()).map_err(|error| trouble(error, None))?;
    let by_digest = format!("{}/{}@{}", repository.registry(), repository.repository(), image.digest());
    let reference = ImageReference::parse(&by_digest).map_err(|error| trouble(error, None))?;
    let registry = Registry::connect(repository, credentials, options).await.map_err(of_registry)?;
    if registry.digest(&reference).await.map_err(of_registry)?.is_none() {
        push(&registry, &tag, &image, false).await.map_err(of_push)?;
    }
    Ok(by_digest.into())
}

fn of_registry(error: RegistryError) -> Trouble {
    trouble(&error, error.wait())
}

fn of_push(error: PushError) -> Trouble {
    match error {
        PushError::Registry(error) => of_registry(error),
        error => trouble(error, None),
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
