//! One namespace of several that are watched.

use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::time::Duration;

use kube::Resource;
use tokio::time::Instant;

use crate::frame::watch::Event;

/// The time after which a list that keeps failing is not waited for.
const LISTED_WITHIN: Duration = Duration::from_secs(5);

/// The progress of its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its first list is not complete.
    Waits,
    /// A list was complete.
    Watches,
    /// A list was complete, and the next one has begun.
    Relists,
    /// The namespace counts as empty.
    Hidden,
}

/// The watch of one namespace.
pub(crate) struct Place<K> {
    state: State,
    /// The time at which its watch was opened last.
    current: Option<Instant>,
    /// The time since which its list is tried; `None` while no list is in progress.
    listing: Option<Instant>,
    /// The objects that exist, by name, as their deletion is reported.
    known: HashMap<String, K>,
    /// The known objects that the list in progress has not named yet.
    unlisted: HashSet<String>,
    keep: fn(&K) -> K,
}

/// The result of an event.
pub(crate) enum Take<K> {
    /// These events are to be reported.
    Pass(Vec<Event<K>>),
    /// The namespace counts as empty from now on.
    Hide {
        /// The deletions of its objects.
        gone: Vec<Event<K>>,
        /// The event with the reason.
        why: Event<K>,
    },
    /// The namespace was hidden, and has been listed again.
    SeenAgain,
}

impl<K: Resource> Place<K> {
    pub(crate) fn new(keep: fn(&K) -> K) -> Self {
        Self {
            state: State::Waits,
            current: None,
            listing: None,
            known: HashMap::new(),
            unlisted: HashSet::new(),
            keep,
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.state == State::Watches
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.state == State::Waits
    }

    /// Returns true while a list is in progress that is not the first.
    pub(crate) fn is_relisted(&self) -> bool {
        self.state == State::Relists
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.state == State::Hidden
    }

    pub(crate) const fn current(&self) -> Option<Instant> {
        self.current
    }

    /// Handles an event of its watch. With `may_hide`, the namespace need not be waited for while
    /// its list fails.
    pub(crate) fn take(&mut self, event: Event<K>, may_hide: bool) -> Take<K> {
        if self.is_hidden() {
            return if matches!(event, Event::ListEnd) {
                Take::SeenAgain
            } else {
                Take::Pass(Vec::new())
            };
        }
        match event {
            Event::ListStart => self.list_starts(),
            Event::ListEnd => return Take::Pass(self.list_ends()),
            Event::Listed(object) => return Take::Pass(self.observe(object, Event::Listed)),
            Event::Applied(object) => return Take::Pass(self.observe(object, Event::Applied)),
            Event::Deleted(object) => {
                self.known.remove(name(&object));
                return Take::Pass(vec![Event::Deleted(object)]);
            }
            Event::Forbidden(_) if self.listing.is_some() => return self.hide(event),
            Event::Trouble(_)
                if may_hide
                    && self
                        .listing
                        .is_some_and(|since| since.elapsed() >= LISTED_WITHIN) =>
            {
                return self.hide(event);
            }
            Event::Current(since) => {
                self.current = Some(since);
                return Take::Pass(vec![Event::Current(since)]);
            }
            other => return Take::Pass(vec![other]),
        }
        Take::Pass(Vec::new())
    }

    /// Starts a list, also after one that broke off: what that has named may be gone.
    fn list_starts(&mut self) {
        self.listing.get_or_insert_with(Instant::now);
        self.unlisted = self.known.keys().cloned().collect();
        if self.state == State::Watches {
            self.state = State::Relists;
        }
    }

    fn list_ends(&mut self) -> Vec<Event<K>> {
        (self.state, self.listing) = (State::Watches, None);
        take(&mut self.unlisted)
            .into_iter()
            .filter_map(|name| self.known.remove(&name))
            .map(Event::Deleted)
            .collect()
    }

    /// Adds an object. An older one of its name but another uid is gone.
    fn observe(&mut self, object: K, reported: fn(K) -> Event<K>) -> Vec<Event<K>> {
        let name = name(&object);
        self.unlisted.remove(name);
        let before = self.known.insert(name.to_owned(), (self.keep)(&object));
        let gone = before.filter(|before| before.meta().uid != object.meta().uid);
        gone.map(Event::Deleted)
            .into_iter()
            .chain([reported(object)])
            .collect()
    }

    fn hide(&mut self, why: Event<K>) -> Take<K> {
        (self.state, self.listing) = (State::Hidden, None);
        self.unlisted.clear();
        Take::Hide {
            gone: take(&mut self.known)
                .into_values()
                .map(Event::Deleted)
                .collect(),
            why,
        }
    }
}

fn name<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}
