//! The image caches that swaplet has created, and the requests of jobs for more.

use std::collections::BTreeMap;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::image_cache::{CacheOptions, CacheState, ImageCache, NewImageCache, state};

use crate::frame::isolated::read;
use crate::frame::store::Store;
use crate::frame::watch::Event;
use crate::frame::writer::is_missing_right;

/// The most caches: each is billed, so users who may create jobs must not get any number of them.
const MOST: usize = 50;
/// The back-off before a cache is created again. For one that was created and is gone it doubles
/// each time, because each is billed; for one that was not created after [`SOON`] attempts.
const AGAIN: Backoff = Backoff::seconds(30, 3600);

/// After how many attempts that failed one after the other the next ones become rarer.
const SOON: u32 = 3;

/// How long a created cache may be missing from the watch: a dead watch is noticed by then.
const UNSEEN: Duration = Duration::from_secs(60);

/// All image caches of swaplet, and the attempts to create them.
pub(crate) struct Caches {
    pub options: CacheOptions,
    /// False while the API server is known not to serve image caches; `None` until the first event.
    served: Option<bool>,
    known: Store<ImageCache>,
    attempts: BTreeMap<Box<str>, Attempt>,
    /// How many caches each namespace has, those on their way included.
    taken: BTreeMap<Box<str>, usize>,
    /// The earliest time of any attempt, after one that lacked a right.
    not_before: Moment,
    /// Why image caches cannot be watched; `None` while they can.
    trouble: Option<String>,
}

/// The attempts to create one image cache.
#[derive(Default)]
struct Attempt {
    /// The namespace of the job that the cache is for.
    namespace: Box<str>,
    /// The earliest time of the next attempt; `None` while one is in flight.
    again: Option<Moment>,
    /// How often it was created.
    made: u32,
    /// How many attempts have failed since then.
    failures: u32,
    /// When it was last created.
    made_at: Option<Moment>,
    /// Why the last attempt failed.
    trouble: Option<String>,
}

impl Attempt {
    /// Returns true if an attempt is in flight, or the watch may not show the created cache yet.
    fn is_under_way(&self, now: Moment) -> bool {
        self.again.is_none() || self.made_at.is_some_and(|made| now < made + UNSEEN)
    }

    fn is_due(&self, now: Moment) -> bool {
        self.again.is_some_and(|again| now >= again) && !self.is_under_way(now)
    }
}

impl Caches {
    pub fn new(options: CacheOptions) -> Self {
        Self {
            options,
            served: None,
            known: Store::default(),
            attempts: BTreeMap::new(),
            taken: BTreeMap::new(),
            not_before: Moment::START,
            trouble: None,
        }
    }

    /// Returns true unless image caches are known not to be served.
    pub fn may_be_served(&self) -> bool {
        self.served != Some(false)
    }

    /// Records an event of the watch; `are_served` is false while the API server is known not to serve
    /// image caches.
    pub fn observe(&mut self, are_served: bool, event: Event<BoundedObject>, now: Moment) {
        self.served = Some(are_served);
        if let Some(why) = event.trouble() {
            self.trouble = Some(format!("ImageCaches cannot be watched: {why}"));
        } else if matches!(event, Event::Current(_)) {
            self.trouble = None;
        }
        let read = |cache| read("image cache", || ImageCache::read(cache));
        drop(self.known.observe(event, now, read));
    }

    fn cache(&self, name: &str) -> Option<&ImageCache> {
        let (cache, ()) = self.known.get(&(Box::default(), name.into()))?;
        Some(cache)
    }

    /// Counts the caches of each namespace, before each step: in a step many jobs ask for one.
    pub fn count(&mut self, now: Moment) {
        let unseen = self
            .attempts
            .iter()
            .filter(|(name, _)| self.cache(name).is_none());
        let under_way = unseen
            .filter(|(_, attempt)| attempt.is_under_way(now))
            .map(|(_, attempt)| &attempt.namespace);
        let there = self.known.iter().map(|(_, cache, ())| &cache.namespace);
        let mut taken: BTreeMap<Box<str>, usize> = BTreeMap::new();
        for namespace in there.chain(under_way) {
            *taken.entry(namespace.clone()).or_default() += 1;
        }
        self.taken = taken;
    }

    /// Returns the state of a cache. While caches cannot be watched, the last observed state holds,
    /// because a cache stays as it was created.
    pub fn state(&self, wanted: &NewImageCache, now: Moment) -> CacheState {
        let found = self.cache(&wanted.name);
        match self.obstacle(wanted, now).filter(|_| found.is_none()) {
            Some(obstacle) => CacheState::Waits(obstacle),
            None => state(wanted, found),
        }
    }

    /// Returns why this cache, if it is missing, is not being created; `None` if nothing prevents
    /// it.
    fn obstacle(&self, wanted: &NewImageCache, now: Moment) -> Option<String> {
        let attempt = self.attempts.get(&wanted.name);
        if self.served.is_none() {
            return Some("it is not known yet whether there are ImageCaches".to_owned());
        }
        let trouble = self.trouble.clone().or_else(|| attempt?.trouble.clone());
        let is_under_way = attempt.is_some_and(|attempt| attempt.is_under_way(now));
        trouble.or_else(|| {
            if is_under_way {
                None
            } else {
                self.too_many(&wanted.namespace)
            }
        })
    }

    /// Returns true if the cache is to be created now, and counts it as in flight then. False while
    /// caches are being listed.
    pub fn is_to_be_made(&mut self, wanted: &NewImageCache, now: Moment) -> bool {
        let attempt = self.attempts.get(&wanted.name);
        let is_due = attempt.is_none_or(|attempt| attempt.is_due(now));
        if !self.known.is_complete()
            || self.known.is_listing()
            || self.cache(&wanted.name).is_some()
            || !is_due
            || now < self.not_before
            || self.too_many(&wanted.namespace).is_some()
        {
            return false;
        }
        let namespace = &wanted.namespace;
        let attempt = self.attempts.entry(wanted.name.clone()).or_default();
        (attempt.namespace, attempt.again) = (namespace.clone(), None);
        *self.taken.entry(namespace.clone()).or_default() += 1;
        true
    }

    /// Returns why no further cache is created for a namespace; `None` if one may be. A namespace
    /// gets one only while more are free than it has: so it has half of them at most, and however
    /// many jobs it has, something is left for the next one.
    fn too_many(&self, namespace: &str) -> Option<String> {
        let own = self.taken.get(namespace).copied().unwrap_or_default();
        let all: usize = self.taken.values().sum();
        let free = MOST.saturating_sub(all);
        (own >= free).then(|| {
            format!("there are {all} ImageCaches of swaplet already, which are billed, {own} of them for this namespace, and of {MOST} at most {free} are left for others: delete some, or wait until they expire")
        })
    }

    pub fn was_written(
        &mut self,
        cache: &NewImageCache,
        answer: &Result<(), WriteError>,
        now: Moment,
    ) {
        // Attempts that nothing has repeated for a long time are dropped.
        self.attempts.retain(|_, attempt| {
            attempt
                .again
                .is_none_or(|again| now < again + AGAIN.longest)
        });
        let name = &cache.name;
        let attempt = self.attempts.entry(name.clone()).or_default();
        attempt.trouble = answer.as_ref().err().map(|error| trouble(name, error));
        if let Err(error) = answer {
            let is_of_all = matches!(error, WriteError::Denied(why) if is_missing_right(why));
            if is_of_all {
                self.not_before = now + AGAIN.first;
            } else {
                attempt.failures += 1;
            }
            attempt.again = Some(now + AGAIN.after(attempt.failures.saturating_sub(SOON)));
        } else {
            tracing::info!(cache = %name, images = cut(&format!("{:?}", cache.images), MESSAGE), days = cache.retention_days, "an ImageCache is created, which is billed");
            attempt.again = Some(now + AGAIN.after(attempt.made));
            (attempt.made, attempt.failures) = (attempt.made + 1, 0);
            attempt.made_at = Some(now);
        }
    }
}

/// Returns why a cache was not created.
fn trouble(name: &str, error: &WriteError) -> String {
    match error {
        WriteError::Conflict => {
            format!("there is an ImageCache {name} without the label of swaplet")
        }
        WriteError::Gone => "ImageCaches are no longer served".to_owned(),
        WriteError::Denied(error) | WriteError::Failed { error, .. } => {
            // A missing right is reported once, for all caches.
            if !is_missing_right(error) {
                tracing::warn!(cache = %name, error, "the ImageCache was not created; retrying");
            }
            format!("ImageCache {name} was not created: {error}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::after_start(Duration::from_secs(100));

    fn wanted(namespace: &str, number: usize) -> NewImageCache {
        NewImageCache {
            name: format!("{namespace}-{number}").into(),
            namespace: namespace.into(),
            images: [format!("r.example/{number}").into()].into(),
            pull_secrets: Vec::new(),
            size: 20,
            retention_days: 7,
        }
    }

    /// The state after a list of these caches.
    fn listed(there: &[NewImageCache]) -> Caches {
        let mut caches = Caches::new(CacheOptions {
            exit_image: None,
            size: 20,
            retention_days: 7,
        });
        let there = there.iter().map(|cache| cache.object().into());
        for event in Event::list_of(there) {
            caches.observe(true, event, NOW);
        }
        caches
    }

    /// How many caches a namespace gets that has sixty jobs.
    fn made(caches: &mut Caches, namespace: &str) -> usize {
        caches.count(NOW);
        (0..60)
            .filter(|number| caches.is_to_be_made(&wanted(namespace, *number), NOW))
            .count()
    }

    #[test]
    fn a9_a_namespace_gets_a_cache_only_while_more_are_free_than_it_has() {
        let mut caches = listed(&[]);
        let each = ["greedy", "modest", "third", "late"];
        assert_eq!(each.map(|each| made(&mut caches, each)), [25, 13, 6, 3]);
        caches.count(NOW);
        let state = caches.state(&wanted("greedy", 59), NOW);
        assert!(
            matches!(&state, CacheState::Waits(why) if why.contains("25 of them for this namespace")),
            "{state:?}"
        );
    }

    /// How often a cache is asked for in an hour in which it is denied.
    fn asked(caches: &mut Caches, cache: &NewImageCache, why: &str) -> usize {
        let seconds = (0..3600).map(|second| Moment::after_start(Duration::from_secs(second)));
        let asked = seconds.filter(|now| {
            caches.count(*now);
            let is_asked = caches.is_to_be_made(cache, *now);
            if is_asked {
                caches.was_written(cache, &Err(WriteError::Denied(why.to_owned())), *now);
            }
            is_asked
        });
        asked.count()
    }

    #[test]
    fn a_cache_that_is_denied_again_and_again_is_asked_for_less_and_less_often() {
        let policy =
            "imagecaches.eci.alibabacloud.com is forbidden: ValidatingAdmissionPolicy denied it";
        let mut caches = listed(&[]);
        assert_eq!(asked(&mut caches, &wanted("team", 1), policy), 9);
    }

    #[test]
    fn without_the_right_all_caches_wait_for_the_next_attempt_together() {
        let right = "imagecaches is forbidden: User \"swaplet\" cannot create resource";
        let mut caches = listed(&[]);
        let (one, other) = (wanted("team", 1), wanted("other", 2));
        caches.count(NOW);
        assert!(caches.is_to_be_made(&one, NOW));
        caches.was_written(&one, &Err(WriteError::Denied(right.to_owned())), NOW);
        assert!(!caches.is_to_be_made(&other, NOW + Duration::from_secs(29)));
        assert!(caches.is_to_be_made(&other, NOW + AGAIN.first));
        assert_eq!(
            asked(&mut listed(&[]), &one, right),
            120,
            "a right may come"
        );
    }

    #[test]
    fn a9_whose_a_cache_is_outlives_the_process() {
        let there: Vec<_> = (0..25).map(|number| wanted("greedy", number)).collect();
        let mut caches = listed(&there);
        assert_eq!(made(&mut caches, "greedy"), 0);
        assert_eq!(made(&mut caches, "modest"), 13);
    }
}
