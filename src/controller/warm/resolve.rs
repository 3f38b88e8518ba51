//! Asking registries which digest a tag stands for, in the background: the loop goes on meanwhile.
//!
//! Whoever makes a job names the registries, so each question is bounded, and this machine is asked
//! only where the administrator has listed it.

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

/// Jobs whose images are asked for at once: more than jobs usually begin in one moment, for one
/// registry that hangs must not hold up all.
const AT_ONCE: usize = 16;
/// What the question for one image may take with all its tries.
const EACH: Duration = Duration::from_secs(20);
/// After this time a job is told what is known so far, and asks for the rest anew.
const TOGETHER: Duration = Duration::from_secs(30);

/// Asks for the digest of a tag.
#[derive(Clone)]
pub struct Resolve(Arc<dyn Fn(ImageReference) -> BoxFuture<'static, Resolved> + Send + Sync>);

impl fmt::Debug for Resolve {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Resolve")
    }
}

impl Resolve {
    /// By any means.
    pub fn by<F: Future<Output = Resolved> + Send + 'static>(
        resolve: impl Fn(ImageReference) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |image| resolve(image).boxed()))
    }

    /// Asks for one, for a bounded time.
    pub async fn resolve(&self, image: ImageReference) -> Resolved {
        // One strange answer of a registry must not end the process: it is tried again like others.
        match AssertUnwindSafe(timeout(EACH, (self.0)(image)))
            .catch_unwind()
            .await
        {
            Ok(Ok(resolved)) => resolved,
            Ok(Err(_)) => Err(trouble(format!("no answer within {} s", EACH.as_secs()))),
            Err(_) => Err(trouble(
                "it broke off, which is a defect of swaplet: please report it with the log",
            )),
        }
    }
}

/// What was asked for somebody.
pub(crate) type Answers = Vec<(Box<str>, Resolved)>;

/// The questions that are under way, each for a `K`, and those that wait for their turn, namespace
/// by namespace.
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

    /// Asks for these, for somebody of this namespace; the answers come back by
    /// [`next`](Self::next).
    pub(crate) fn start(&mut self, namespace: &str, whose: K, images: Vec<Box<str>>) {
        self.waiting.insert(whose.clone(), images);
        self.line.push(namespace, whose);
        self.go_on();
    }

    fn go_on(&mut self) {
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

    /// The next answers; `None` while nothing is asked.
    pub(crate) async fn next(&mut self) -> Option<(K, Answers)> {
        // A task ends in an error only when the whole process ends.
        let answers = self.under_way.join_next().await?.ok();
        self.go_on();
        answers
    }
}

/// One after the other. A registry that does not answer is not asked for the next image, too.
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
