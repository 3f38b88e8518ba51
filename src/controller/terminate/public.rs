//! Asks the registries of exit images, without credentials, whether nodes can pull them for every
//! pod: each repository once, and again only while there is no clear answer.

use std::time::Duration;

use swaplet_core::cluster::exit_images::Public;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::values::backoff::Backoff;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::call::Call;

/// The deadline of one question with all its requests.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long the loop of pods waits for the first answer: until then it would end pods by their
/// phase, or report that it cannot, where a registry answers in milliseconds.
pub(crate) const FIRST: Duration = Duration::from_secs(3);
/// The waits after unclear answers.
const AGAIN: Backoff = Backoff::seconds(10, 3600);

/// The answer: whether the image can be pulled without credentials, or why that is not known.
pub type Answer = Result<bool, String>;

/// A function that asks the registry of an image.
pub type AskPublic = Call<ImageReference, Answer>;

impl AskPublic {
    /// Asks once.
    pub async fn ask(&self, image: &ImageReference) -> Answer {
        let asked = self.within(DEADLINE, image.clone()).await;
        asked.unwrap_or_else(Err)
    }

    /// Asks until there is a clear answer.
    async fn until_clear(self, image: ImageReference) -> (ImageReference, Public) {
        let mut tries = 0;
        loop {
            let wait = AGAIN.after(tries);
            match self.ask(&image).await {
                Ok(true) => return (image, Public::Yes),
                Ok(false) => return (image, Public::No),
                Err(error) => tracing::warn!(
                    %image, error, again_in_seconds = wait.as_secs(),
                    "it is not known whether the exit image can be pulled without credentials: pods under restartPolicy Never are ended by their phase; --exit-image-is-public can say it"
                ),
            }
            sleep(wait).await;
            tries += 1;
        }
    }
}

/// The questions that have no answer yet.
pub(crate) struct Questions {
    ask: Option<AskPublic>,
    /// One image of each repository that was asked about.
    asked: Vec<ImageReference>,
    /// As many as there are repositories, and without shares: most of the time they wait.
    open: JoinSet<(ImageReference, Public)>,
}

impl Questions {
    /// Returns the state in which nothing was asked. Without `ask`, nothing ever is.
    pub(crate) fn new(ask: Option<AskPublic>) -> Self {
        Self {
            ask,
            asked: Vec::new(),
            open: JoinSet::new(),
        }
    }

    /// Asks about the repository of an image, unless that was done.
    pub(crate) fn ask(&mut self, image: &ImageReference) {
        let was_asked = self.asked.iter().any(|asked| asked.same_repository(image));
        if let Some(ask) = self.ask.clone().filter(|_| !was_asked) {
            self.asked.push(image.clone());
            self.open.spawn(ask.until_clear(image.clone()));
        }
    }

    /// Waits for the next clear answer; `None` if no question is open.
    pub(crate) async fn next(&mut self) -> Option<(ImageReference, Public)> {
        // A task ends in an error only when the whole process ends.
        self.open.join_next().await?.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::{Instant, timeout};

    use super::*;

    fn image(written: &str) -> ImageReference {
        ImageReference::parse(written).unwrap()
    }

    /// Returns questions that get these answers in turn, and the seconds at which each is asked.
    fn answering(answers: Vec<Answer>) -> (Questions, Arc<Mutex<Vec<u64>>>) {
        let (start, asked) = (Instant::now(), Arc::<Mutex<Vec<u64>>>::default());
        let (times, answers) = (Arc::clone(&asked), Mutex::new(answers.into_iter()));
        let ask = AskPublic::by(move |_| {
            times.lock().unwrap().push(start.elapsed().as_secs());
            let answer = answers.lock().unwrap().next();
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        });
        (Questions::new(Some(ask)), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn l3_a_clear_answer_is_asked_for_once_for_each_repository() {
        let (mut questions, asked) = answering(vec![Ok(true), Ok(false)]);
        questions.ask(&image("r.example/exit:v1"));
        questions.ask(&image("r.example/exit:v2"));
        let first = questions.next().await;
        assert_eq!(first, Some((image("r.example/exit:v1"), Public::Yes)));
        questions.ask(&image("r.example/derived:a"));
        let second = questions.next().await;
        assert_eq!(second, Some((image("r.example/derived:a"), Public::No)));
        assert_eq!(questions.next().await, None);
        assert_eq!(asked.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn l3_it_is_asked_again_ever_more_rarely_until_the_answer_is_clear() {
        let unclear = || Err("503".to_owned());
        let (mut questions, asked) = answering(vec![unclear(), unclear(), unclear(), Ok(true)]);
        questions.ask(&image("r.example/exit:v1"));
        assert_eq!(questions.next().await.unwrap().1, Public::Yes);
        assert_eq!(*asked.lock().unwrap(), [0, 10, 30, 70]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_never_answers_is_left_after_the_deadline() {
        let (mut questions, asked) = answering(Vec::new());
        questions.ask(&image("r.example/exit:v1"));
        let waited = timeout(Duration::from_secs(24 * 3600), questions.next()).await;
        assert!(waited.is_err());
        let asked = asked.lock().unwrap();
        assert_eq!(asked[..3], [0, 40, 90]);
        assert!(asked.len() < 40, "once an hour at last: {}", asked.len());
    }
}
