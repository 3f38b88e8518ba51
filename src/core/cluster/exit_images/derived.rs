//! Exit images that are derived on demand: their paths, and which of them exist or are requested.
//! The reference of an image is derived from its paths alone, so losing this state loses nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::time::Duration;

use crate::image::reference::ImageReference;
use crate::objects::moment::Moment;
use crate::objects::values::backoff::Backoff;
use crate::objects::values::short_digest::hash_of;
use crate::report::decision::Paths;

/// The most images that the pods of one namespace may request in a day. The 105 sidecars in
/// `tests/command/sidecars.yaml` need 7 between them; a tenant who writes a new path into each pod
/// must not fill the registry.
const PER_NAMESPACE: usize = 20;
/// How long a requested image counts against the quota of its namespace.
const ASKED_FOR: Duration = Duration::from_secs(24 * 3600);
/// The bytes of the paths that are kept of images: thousands of ordinary ones. An image that is
/// forgotten is requested again, and found in the registry.
const MOST_KEPT: usize = 16 << 20;
/// The back-off after failed pushes. A registry that was away for a moment is back after the first;
/// the others end when an administrator grants permissions or repairs it.
const RETRY: Backoff = Backoff::seconds(10, 600);
/// The longest wait that a registry can request: its answer is not trusted.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// The images that are derived into one repository.
#[derive(Clone, Debug)]
pub struct DerivedImages {
    repository: ImageReference,
    images: BTreeMap<Paths, Image>,
    /// The times of the requests that count against the quota, by namespace and digest of the
    /// paths: an image that is forgotten and requested again does not count twice.
    asked: HashMap<Box<str>, HashMap<u64, Moment>>,
}

#[derive(Clone, Debug, Default)]
struct Image {
    /// The namespace and the time of the first request.
    by: Box<str>,
    asked_at: Moment,
    reference: Option<Box<str>>,
    /// Until when it is not taken for lost: nodes take minutes to pull again what they could not.
    trusted_until: Moment,
    under_way: bool,
    /// The error of the last try, if it failed.
    trouble: Option<String>,
    failures: u32,
    /// The earliest time of the next try.
    not_before: Moment,
}

/// The state of a derived image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Derived<'a> {
    /// The image exists, under this reference.
    Ready(&'a str),
    /// The image is pending: it has neither been pushed nor failed yet.
    Awaited,
    /// The push failed with this error; it is retried at this time, or in flight if `None`.
    Failed(&'a str, Option<Moment>),
    /// The namespace has used up its quota of a day.
    TooMany,
}

/// The error of a failed push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The text of the error.
    pub words: String,
    /// How long the registry requests to wait, if it does.
    pub retry_after: Option<Duration>,
}

impl DerivedImages {
    /// Creates a state without images. Of `repository`, neither tag nor digest counts.
    pub fn new(repository: ImageReference) -> Self {
        Self {
            repository,
            images: BTreeMap::new(),
            asked: HashMap::new(),
        }
    }

    /// Returns the repository of the images.
    pub fn repository(&self) -> &ImageReference {
        &self.repository
    }

    /// Returns true for any image in the repository, which holds nothing but exit images.
    pub fn contains(&self, image: &ImageReference) -> bool {
        self.repository.same_repository(image)
    }

    /// Returns the state of the image with these paths, for a pod of a namespace.
    pub fn find(&self, namespace: &str, paths: &[String]) -> Derived<'_> {
        match self.images.get(paths) {
            Some(Image {
                reference: Some(reference),
                ..
            }) => Derived::Ready(reference),
            Some(Image {
                trouble: Some(words),
                not_before,
                under_way,
                ..
            }) => Derived::Failed(words, (!under_way).then_some(*not_before)),
            Some(_) => Derived::Awaited,
            None if self.asked.get(namespace).is_some_and(|asked| {
                asked.len() >= PER_NAMESPACE && !asked.contains_key(&hash_of(paths))
            }) =>
            {
                Derived::TooMany
            }
            None => Derived::Awaited,
        }
    }

    /// Requests the image with these paths for a pod of a namespace. Returns true if it is to be
    /// pushed now.
    #[must_use]
    pub fn ask(&mut self, namespace: &str, paths: &[String], now: Moment) -> bool {
        if self.find(namespace, paths) == Derived::TooMany {
            return false;
        }
        if !self.images.contains_key(paths) {
            let asked = self.asked.entry(namespace.into()).or_default();
            asked.entry(hash_of(paths)).or_insert(now);
        }
        let new = || Image {
            by: namespace.into(),
            asked_at: now,
            ..Image::default()
        };
        let image = self.images.entry(paths.to_vec()).or_insert_with(new);
        let start = image.reference.is_none() && !image.under_way && image.not_before <= now;
        image.under_way |= start;
        start
    }

    /// Frees the quota of namespaces for images that they requested more than a day ago, and the
    /// memory of images, if all together take too much.
    pub fn give_back(&mut self, now: Moment) {
        self.asked.retain(|_, asked| {
            asked.retain(|_, at| now < *at + ASKED_FOR);
            !asked.is_empty()
        });
        self.forget_beyond(MOST_KEPT);
    }

    /// Forgets images until the paths of the others have no more than this many bytes: each time the
    /// oldest of the namespace that has most.
    fn forget_beyond(&mut self, most: usize) {
        let mut kept: usize = self.images.keys().map(|paths| bytes_of(paths)).sum();
        if kept <= most {
            return;
        }
        let mut of_namespace = HashMap::<_, (usize, Vec<_>)>::new();
        for (paths, image) in self.images.iter().filter(|(_, image)| !image.under_way) {
            let (bytes, images) = of_namespace.entry(image.by.clone()).or_default();
            *bytes += bytes_of(paths);
            images.push(Reverse((image.asked_at, paths.clone())));
        }
        let oldest = |images: &[Reverse<(Moment, Paths)>]| {
            let last = images.last();
            last.map(|Reverse((at, _))| Reverse(*at))
        };
        let mut largest = BinaryHeap::new();
        for (bytes, mut images) in of_namespace.into_values() {
            images.sort_unstable();
            largest.push((bytes, oldest(&images), images));
        }
        while kept > most
            && let Some((bytes, _, mut images)) = largest.pop()
            && let Some(Reverse((_, paths))) = images.pop()
        {
            let freed = bytes_of(&paths);
            kept -= freed;
            self.images.remove(&paths);
            largest.push((bytes - freed, oldest(&images), images));
        }
    }

    /// Forgets that an image was pushed, because a node could not pull it: its registry may have lost
    /// it. The next pod that needs it requests it again.
    pub fn lost(&mut self, reference: &str, now: Moment) {
        let is_lost = |image: &&mut Image| {
            image.reference.as_deref() == Some(reference) && image.trusted_until <= now
        };
        if let Some(image) = self.images.values_mut().find(is_lost) {
            image.reference = None;
        }
    }

    /// Records the result of a push: the reference to write, or the error.
    pub fn came(&mut self, paths: &[String], result: Result<Box<str>, Trouble>, now: Moment) {
        let image = self.images.entry(paths.to_vec()).or_default();
        image.under_way = false;
        match result {
            Ok(reference) => {
                *image = Image {
                    by: std::mem::take(&mut image.by),
                    asked_at: image.asked_at,
                    reference: Some(reference),
                    trusted_until: now + RETRY.longest,
                    ..Image::default()
                }
            }
            Err(Trouble { words, retry_after }) => {
                let wait = RETRY.after(image.failures);
                image.failures = image.failures.saturating_add(1);
                image.not_before =
                    now + wait.max(retry_after.unwrap_or_default().min(LONGEST_ASKED));
                image.trouble = Some(words);
            }
        }
    }
}

fn bytes_of(paths: &[String]) -> usize {
    paths
        .iter()
        .map(|path| size_of::<String>() + path.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::after_start(Duration::from_secs(100));

    fn images() -> DerivedImages {
        DerivedImages::new(ImageReference::parse("r.example/derived").unwrap())
    }

    fn paths(path: &str) -> Paths {
        vec![path.to_owned()]
    }

    fn trouble(retry_after: Option<u64>) -> Trouble {
        Trouble {
            words: "403".to_owned(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    #[test]
    fn an_image_is_pushed_once_whoever_asks() {
        let mut images = images();
        assert_eq!(images.find("a", &paths("/x")), Derived::Awaited);
        assert!(images.ask("a", &paths("/x"), NOW));
        assert!(!images.ask("a", &paths("/x"), NOW) && !images.ask("b", &paths("/x"), NOW));
        images.came(&paths("/x"), Ok("r.example/derived@sha256:1".into()), NOW);
        assert_eq!(
            images.find("b", &paths("/x")),
            Derived::Ready("r.example/derived@sha256:1")
        );
        assert!(!images.ask("b", &paths("/x"), NOW + RETRY.longest));
    }

    #[test]
    fn u194_an_image_that_cannot_be_pulled_is_pushed_again_once_in_a_while() {
        let mut images = images();
        let x = paths("/x");
        assert!(images.ask("a", &x, NOW));
        images.came(&x, Ok("r".into()), NOW);
        let later = NOW + RETRY.longest;
        for (image, at) in [("r", NOW), ("other", later)] {
            images.lost(image, at);
            assert_eq!(images.find("a", &x), Derived::Ready("r"), "{image}");
        }
        images.lost("r", later);
        assert_eq!(images.find("a", &x), Derived::Awaited);
        assert!(images.ask("a", &x, later) && !images.ask("b", &x, later));
        images.came(&x, Ok("r".into()), later);
        images.lost("r", later);
        assert_eq!(images.find("a", &x), Derived::Ready("r"));
    }

    #[test]
    fn what_failed_is_told_until_it_succeeds_and_tried_ever_more_rarely() {
        let mut images = images();
        let mut now = NOW;
        for wait in [10, 20, 40, 80, 160, 320, 600, 600] {
            assert!(images.ask("a", &paths("/x"), now));
            images.came(&paths("/x"), Err(trouble(None)), now);
            let again = now + Duration::from_secs(wait);
            assert_eq!(
                images.find("a", &paths("/x")),
                Derived::Failed("403", Some(again))
            );
            assert!(!images.ask("a", &paths("/x"), again - Duration::from_secs(1)));
            now = again;
        }
        assert!(images.ask("a", &paths("/x"), now));
        assert_eq!(
            images.find("a", &paths("/x")),
            Derived::Failed("403", None),
            "also while it is tried again"
        );
        images.came(&paths("/x"), Ok("r".into()), now);
        assert_eq!(images.find("a", &paths("/x")), Derived::Ready("r"));
    }

    #[test]
    fn a_registry_that_wants_a_longer_wait_gets_it() {
        let mut images = images();
        assert!(images.ask("a", &paths("/x"), NOW));
        images.came(&paths("/x"), Err(trouble(Some(3600))), NOW);
        assert_eq!(
            images.find("a", &paths("/x")),
            Derived::Failed("403", Some(NOW + Duration::from_secs(3600)))
        );
    }

    #[test]
    fn a10_no_wait_that_a_registry_asks_for_is_too_long_for_the_clock() {
        for seconds in [3601, u64::MAX] {
            let mut images = images();
            assert!(images.ask("a", &paths("/x"), NOW));
            images.came(&paths("/x"), Err(trouble(Some(seconds))), NOW);
            assert_eq!(
                images.find("a", &paths("/x")),
                Derived::Failed("403", Some(NOW + LONGEST_ASKED))
            );
        }
    }

    #[test]
    fn a_namespace_that_asks_for_ever_new_images_gets_no_more() {
        let mut images = images();
        for number in 0..PER_NAMESPACE {
            assert!(images.ask("a", &paths(&format!("/{number}")), NOW));
        }
        assert_eq!(images.find("a", &paths("/x")), Derived::TooMany);
        assert!(!images.ask("a", &paths("/x"), NOW));
        assert!(images.ask("b", &paths("/x"), NOW), "another namespace does");
        assert_eq!(
            images.find("a", &paths("/x")),
            Derived::Awaited,
            "and what is there is for all"
        );
        images.give_back(NOW + ASKED_FOR - Duration::from_secs(1));
        assert_eq!(images.find("a", &paths("/y")), Derived::TooMany);
        images.give_back(NOW + ASKED_FOR);
        assert!(
            images.ask("a", &paths("/y"), NOW + ASKED_FOR),
            "a day later"
        );
    }

    /// 80 namespaces that ask for as many as they may do not cost one that asks for one.
    #[test]
    fn t11_who_has_most_is_forgotten_first_and_asking_again_costs_nothing() {
        let mut images = images();
        let long = |name: &str| paths(&format!("/{name}/{}", "x".repeat(16 << 10)));
        let victim: Vec<_> = (0..PER_NAMESPACE)
            .map(|nth| paths(&format!("/{nth}")))
            .collect();
        for paths in &victim {
            assert!(images.ask("victim", paths, NOW));
            images.came(paths, Ok("r".into()), NOW);
        }
        for nth in 0..80 * PER_NAMESPACE {
            let (by, paths) = (format!("n{}", nth % 80), long(&nth.to_string()));
            assert!(images.ask(&by, &paths, NOW + Duration::from_secs(1)));
            images.came(&paths, Ok("r".into()), NOW);
        }
        images.give_back(NOW + Duration::from_secs(2));
        let kept: usize = images.images.keys().map(|paths| bytes_of(paths)).sum();
        assert!(kept <= MOST_KEPT && kept > MOST_KEPT / 2, "{kept}");
        for paths in &victim {
            assert_eq!(images.find("victim", paths), Derived::Ready("r"));
        }
        let forgotten = (0..80 * PER_NAMESPACE).map(|nth| (nth % 80, long(&nth.to_string())));
        let (of, paths) = forgotten
            .into_iter()
            .find(|(_, paths)| !images.images.contains_key(paths))
            .unwrap();
        assert!(
            images.ask(&format!("n{of}"), &paths, NOW),
            "its quota is used up, and this is no new one"
        );
    }

    #[test]
    fn the_oldest_images_are_forgotten_when_all_take_too_much() {
        let mut images = images();
        let long = |number: u32| paths(&format!("/{number:02}/{}", "x".repeat(1 << 20)));
        for number in 0..20 {
            let at = NOW + Duration::from_secs(number.into());
            assert!(images.ask(&number.to_string(), &long(number), at));
            if number != 1 {
                images.came(&long(number), Ok("r".into()), at);
            }
        }
        images.give_back(NOW);
        let kept: usize = images.images.keys().map(|paths| bytes_of(paths)).sum();
        assert!(kept <= MOST_KEPT, "{kept}");
        assert!(
            images.images.contains_key(&long(1)),
            "one that is being pushed"
        );
        assert_eq!(images.find("a", &long(19)), Derived::Ready("r"));
        assert_eq!(images.find("a", &long(0)), Derived::Awaited);
        assert!(images.ask("a", &long(0), NOW), "and found again");
    }

    #[test]
    fn whatever_is_in_the_repository_is_an_exit_image() {
        let contains = |written: &str| images().contains(&ImageReference::parse(written).unwrap());
        assert!(
            contains("r.example/derived:d1")
                && contains(&format!("r.example/derived@sha256:{}", "a".repeat(64)))
        );
        assert!(!contains("r.example/other") && !contains("r.example/derived/more"));
    }
}
