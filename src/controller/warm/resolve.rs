//! Queries registries for the digest of a tag, in the background, so that the loop continues.
//!
//! Users who create jobs choose the registries. So each query is bounded, and this machine is
//! queried only if the administrator has listed it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use swaplet_core::image::ImageReference;
use swaplet_core::warm::pull_job::pins::{Resolved, Unresolved};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::frame::queue::FairQueue;

/// The number of jobs whose images are queried at a time: more than jobs usually begin at once,
/// because one registry that hangs must not hold up all.
const AT_ONCE: usize = 16;
/// The deadline of the query for one image, with all its tries.
const EACH: Duration = Duration::from_secs(20);
/// The time after which a job gets the answers so far; it queries the rest again.
const TOGETHER: Duration = Duration::from_secs(30);

/// A function that queries a registry for the digest of a tag.
#[derive(Clone)]
pub struct Resolve(Arc<dyn Fn(ImageReference) -> BoxFuture<'static, Resolved> + Send + Sync>);

impl fmt::Debug for Resolve {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Resolve")
    }
}

impl Resolve {
    /// Wraps a function that resolves an image.
    pub fn by<F: Future<Output = Resolved> + Send + 'static>(
        resolve: impl Fn(ImageReference) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |image| resolve(image).boxed()))
    }

    /// Resolves one image, within a deadline.
    pub async fn resolve(&self, image: ImageReference) -> Resolved {
        // A panic over one strange answer of a registry must not end the process; it is retried
        // like other failures.
        match AssertUnwindSafe(timeout(EACH, (self.0)(image)))
            .catch_unwind()
            .await
        {
            Ok(Ok(resolved)) => resolved,
            Ok(Err(_)) => Err(trouble(format!("no answer within {} s", EACH.as_secs()))),
            Err(_) => Err(trouble(
                "it was aborted, which is a defect of swaplet: please report it with the log",
            )),
        }
    }
}

/// The results for the images of one key.
pub(crate) type Answers = Vec<(Box<str>, Resolved)>;

/// The queries in flight, each for a key `K`, and those that are queued, in turns by namespace.
pub(crate) struct Resolver<K> {
    resolve: Resolve,
    waiting: HashMap<K, Vec<Box<str>>>,
    line: FairQueue<K>,
    under_way: JoinSet<(K, Answers)>,
}

impl<K: Clone + Eq + Hash + Send + 'static> Resolver<K> {
    pub(crate) fn new(resolve: Resolve) -> Self {
        Self {
            resolve,
            waiting: HashMap::new(),
            line: FairQueue::default(),
            under_way: JoinSet::new(),
        }
    }

    /// Enqueues a query for images, in the turn of this namespace. [`next`](Self::next) returns the
    /// answers.
    pub(crate) fn start(&mut self, namespace: &str, whose: K, images: Vec<Box<str>>) {
        self.waiting.insert(whose.clone(), images);
        self.line.push(namespace, whose);
        self.advance();
    }

    /// Forgets the queued queries for keys that nobody needs any more, with their images. Those in
    /// flight are few, and end by themselves.
    pub(crate) fn keep(&mut self, is_needed: impl Fn(&K) -> bool) {
        self.waiting.retain(|whose, _| is_needed(whose));
        self.line.retain(is_needed);
    }

    fn advance(&mut self) {
        while self.under_way.len() < AT_ONCE {
            let Some(whose) = self.line.pop() else { return };
            let Some(images) = self.waiting.remove(&whose) else {
                continue;
            };
            let resolve = self.resolve.clone();
            self.under_way
                .spawn(async move { (whose, ask(&resolve, images).await) });
        }
    }

    /// Waits for the next answers; `None` while no query is in flight.
    pub(crate) async fn next(&mut self) -> Option<(K, Answers)> {
        // A task ends in an error only when the whole process ends.
        let answers = self.under_way.join_next().await?.ok();
        self.advance();
        answers
    }
}

/// Resolves images one after the other. A registry that does not answer is not queried again.
async fn ask(resolve: &Resolve, images: Vec<Box<str>>) -> Answers {
    let (until, mut silent, mut answers) = (
        Instant::now() + TOGETHER,
        BTreeMap::<String, Unresolved>::new(),
        Answers::new(),
    );
    for image in images {
        if Instant::now() >= until {
            break;
        }
        let Ok(reference) = ImageReference::parse(&image) else {
            continue;
        };
        let registry = reference.registry().to_owned();
        let resolved = match silent.get(&registry) {
            Some(trouble) => Err(trouble.clone()),
            None => resolve.resolve(reference).await,
        };
        if let Some(trouble) = resolved.as_ref().err().filter(|trouble| !trouble.is_answer) {
            silent.insert(registry, trouble.clone());
        }
        answers.push((image, resolved));
    }
    answers
}

fn trouble(words: impl ToString) -> Unresolved {
    Unresolved {
        words: words.to_string().into(),
        is_answer: false,
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_does_not_answer_is_asked_once_and_the_others_all_the_same() {
        let resolve = Resolve::by(|image| async move {
            assert!(image.registry() != "breaks.example", "a defect");
            if image.registry() == "hangs.example" {
                std::future::pending().await
            } else {
                Ok("sha256:1".into())
            }
        });
        let mut resolver = Resolver::new(resolve);
        let began = Instant::now();
        let images = [
            "hangs.example/a:1",
            "good.example/a:1",
            "hangs.example/b:1",
            "breaks.example/c:1",
        ];
        resolver.start(
            "team",
            "job",
            images.iter().map(|image| Box::from(*image)).collect(),
        );
        let (whose, answers) = resolver.next().await.unwrap();
        assert_eq!((whose, answers.len(), began.elapsed()), ("job", 4, EACH));
        let words = |index: usize| answers[index].1.as_ref().unwrap_err().words.clone();
        assert!(
            words(0).contains("20 s")
                && words(2).contains("20 s")
                && words(3).contains("defect of swaplet")
        );
        assert_eq!(answers[1].1.as_deref(), Ok("sha256:1"));
        assert!(resolver.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_is_told_in_parts() {
        let resolve = Resolve::by(|_| async move {
            tokio::time::sleep(Duration::from_secs(19)).await;
            Ok("sha256:1".into())
        });
        let mut resolver = Resolver::new(resolve);
        resolver.start(
            "team",
            (),
            (0..9)
                .map(|number| format!("r{number}.example/a").into())
                .collect(),
        );
        assert_eq!(resolver.next().await.unwrap().1.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_needs_any_more_is_forgotten_and_not_asked() {
        let resolve = Resolve::by(|image| async move {
            assert!(image.registry() != "gone.example", "nobody needs it");
            Ok("sha256:1".into())
        });
        let mut resolver = Resolver::new(resolve);
        for number in 0..AT_ONCE {
            resolver.start("team", number, vec!["good.example/a:1".into()]);
        }
        for number in AT_ONCE..1000 {
            resolver.start("team", number, vec!["gone.example/a:1".into()]);
        }
        resolver.start("other", 1000, vec!["good.example/a:1".into()]);
        resolver.keep(|number| *number == 1000);
        assert_eq!((resolver.waiting.len(), resolver.line.len()), (1, 1));
        let mut answers = 0;
        while resolver.next().await.is_some() {
            answers += 1;
        }
        assert_eq!(answers, AT_ONCE + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a9_a_crowd_of_questions_to_silent_registries_keeps_another_namespace_waiting_for_one_of_them_only()
     {
        let resolve = Resolve::by(|image| async move {
            if image.registry() == "good.example" {
                Ok("sha256:1".into())
            } else {
                std::future::pending().await
            }
        });
        let mut resolver = Resolver::new(resolve);
        for number in 0..1000 {
            resolver.start(
                "greedy",
                number,
                vec![format!("silent{number}.example/a:1").into()],
            );
        }
        let began = Instant::now();
        resolver.start("modest", 1000, vec!["good.example/a:1".into()]);
        while resolver.next().await.unwrap().0 != 1000 {}
        println!(
            "a9: the modest one waits {:?} for its digest",
            began.elapsed()
        );
        assert!(began.elapsed() <= EACH, "{:?}", began.elapsed());
    }
}
