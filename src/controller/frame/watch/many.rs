//! One watch of several namespaces. Each namespace is listed by itself: only the first list covers
//! all of them, and ends when each has been listed. One that is listed again later is reported by
//! its changes, and by [`Event::Relists`].
//!
//! A namespace that must not be listed counts as empty, so that the others continue: its
//! RoleBinding is deleted with the namespace. Unless [`Unlisted::AreWaitedFor`], so does one whose
//! list keeps failing while others are observed.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::mem::take;
use std::task::Poll;
use std::time::Duration;

use super::age::WatchAges;
use super::{BUFFER, Event, HEALTHY, How, PAUSE, Watched, watch_by};
use kube::api::ListParams;
use kube::{Api, Resource};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

/// The treatment of a namespace whose list keeps failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// The namespace is waited for, and its known objects stay: right where something is done about
    /// objects that are gone.
    AreWaitedFor,
    /// The namespace counts as empty while others are observed: right where nothing is done about
    /// objects that are not observed.
    AreHidden,
    /// Like [`Unlisted::AreHidden`], for at least this long: right where a write that was decided
    /// before may still be in flight, and is not counted any more once its object is absent.
    AreHiddenFor(Duration),
}

impl Unlisted {
    fn are_hidden(self) -> bool {
        self != Self::AreWaitedFor
    }

    const fn for_at_least(self) -> Duration {
        match self {
            Self::AreHiddenFor(least) => least,
            Self::AreWaitedFor | Self::AreHidden => Duration::ZERO,
        }
    }
}

/// Starts a watch of the objects of all `apis` that the selectors of `params` match, with the ages
/// recorded in `ages`. The stream ends only if the receiver is dropped, or a watch has died.
pub fn watch_all<K: Watched>(
    apis: Vec<Api<K>>,
    params: &ListParams,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<K>> {
    watch_all_kept(apis, params, ages, Unlisted::AreWaitedFor, K::clone)
}

/// Like [`watch_all`]. For several namespaces, `keep` reduces each object to what its
/// deletion is reported with: less than all of it where much is watched.
pub fn watch_all_kept<K: Watched>(
    mut apis: Vec<Api<K>>,
    params: &ListParams,
    ages: &WatchAges,
    unlisted: Unlisted,
    keep: fn(&K) -> K,
) -> mpsc::Receiver<Event<K>> {
    match apis.pop() {
        Some(only) if apis.is_empty() => {
            return watch_by(How::Streamed, only, params.clone(), ages);
        }
        Some(last) => apis.push(last),
        None => {}
    }
    let (events, receiver) = mpsc::channel(BUFFER);
    let (params, ages) = (params.clone(), ages.clone());
    tokio::spawn(async move {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let watches = apis
                .iter()
                .map(|api| watch_by(How::Streamed, api.clone(), params.clone(), &ages))
                .collect();
            if Round::new(watches, &events, unlisted, keep)
                .run()
                .await
                .is_err()
            {
                return;
            }
            if began.elapsed() > HEALTHY {
                failures = 0;
            } else {
                failures += 1;
                sleep(PAUSE.after(failures)).await;
            }
        }
    });
    receiver
}

/// The error that the receiver was dropped, or a watch has died.
struct Closed;

/// A round of all watches, until one that was hidden is observed again.
struct Round<'a, K> {
    watches: Vec<mpsc::Receiver<Event<K>>>,
    /// The index of the watch that has sent the last event.
    last: usize,
    places: Vec<Place<K>>,
    unlisted: Unlisted,
    /// The reasons to report once the list is complete: one of each namespace that is hidden.
    hidden: Vec<Event<K>>,
    complete: bool,
    /// The last reported [`Event::Relists`].
    relists: bool,
    /// When objects that may exist were last reported as absent.
    forgotten: Option<Instant>,
    /// True if a namespace that is hidden has been listed again.
    is_seen_again: bool,
    events: &'a mpsc::Sender<Event<K>>,
}

impl<'a, K: Resource + Send + 'static> Round<'a, K> {
    fn new(
        watches: Vec<mpsc::Receiver<Event<K>>>,
        events: &'a mpsc::Sender<Event<K>>,
        unlisted: Unlisted,
        keep: fn(&K) -> K,
    ) -> Self {
        let places = watches.iter().map(|_| Place::new(keep)).collect();
        Self {
            watches,
            last: 0,
            places,
            unlisted,
            hidden: Vec::new(),
            complete: false,
            relists: false,
            forgotten: None,
            is_seen_again: false,
            events,
        }
    }

    /// Returns when everything has to be listed again.
    async fn run(mut self) -> Result<(), Closed> {
        self.send(Event::ListStart).await?;
        loop {
            let end = self.ends_at();
            let (index, event) = tokio::select! {
                next = next(&mut self.watches, &mut self.last) => next?,
                () = self.events.closed() => return Err(Closed),
                () = until(end) => return Ok(()),
            };
            let may_hide = self.unlisted.are_hidden() && self.others_are_seen(index);
            match self.places[index].take(event, may_hide) {
                Take::Pass(events) => {
                    for event in events {
                        self.pass(event).await?;
                    }
                }
                Take::Hide { gone, why } => {
                    self.forgotten = Some(Instant::now());
                    self.hidden.push(why);
                    for event in gone {
                        self.pass(event).await?;
                    }
                    self.send_current().await?;
                }
                Take::SeenAgain => self.is_seen_again = true,
            }
            self.complete_list().await?;
            self.send_relists().await?;
        }
    }

    /// Returns when everything has to be listed again; `None` while nothing that is hidden was
    /// listed again.
    fn ends_at(&self) -> Option<Instant> {
        let forgotten = self.forgotten.filter(|_| self.is_seen_again)?;
        Some(forgotten + self.unlisted.for_at_least())
    }

    fn others_are_seen(&self, index: usize) -> bool {
        self.places
            .iter()
            .enumerate()
            .any(|(other, place)| other != index && place.is_watched())
    }

    async fn pass(&mut self, event: Event<K>) -> Result<(), Closed> {
        match event {
            // Until the list is complete, what is new is a part of it; later nothing is.
            Event::Applied(object) if !self.complete => self.send(Event::Listed(object)).await,
            Event::Listed(object) if self.complete => self.send(Event::Applied(object)).await,
            Event::Current(_) => self.send_current().await,
            event => self.send(event).await,
        }
    }

    /// Reports the time of the watch that was opened first, once each is open that may be, and none
    /// is in trouble: all is as old as that.
    async fn send_current(&mut self) -> Result<(), Closed> {
        if self.places.iter().any(|place| place.is_troubled) {
            return Ok(());
        }
        let seen = self.places.iter().filter(|place| !place.is_hidden());
        let oldest = seen.map(Place::current).min().flatten();
        match oldest {
            Some(since) => self.send(Event::Current(since)).await,
            None => Ok(()),
        }
    }

    /// Ends the list as soon as no namespace is waited for. One that is already listed again is,
    /// unless that may last for ever: between the end and [`Event::Relists`] all would count as
    /// seen. Where every namespace is hidden, there is no list.
    async fn complete_list(&mut self) -> Result<(), Closed> {
        if self.places.iter().all(Place::is_hidden) {
            return match std::mem::take(&mut self.hidden).pop() {
                Some(why) => self.send(why).await,
                None => Ok(()),
            };
        }
        let may_be_hidden = self.unlisted.are_hidden();
        let is_waited_for =
            |place: &Place<K>| place.is_waited_for() || (may_be_hidden && place.is_relisted());
        if !self.complete && !self.places.iter().any(is_waited_for) {
            self.complete = true;
            // What is hidden is absent from this list, which ends now.
            self.forgotten = self.forgotten.map(|_| Instant::now());
            self.send(Event::ListEnd).await?;
        }
        if self.complete {
            for why in std::mem::take(&mut self.hidden) {
                let (Event::Forbidden(why) | Event::Trouble(why)) = why else {
                    continue;
                };
                self.send(Event::Hidden(why)).await?;
            }
        }
        Ok(())
    }

    /// Reports when the first list of a namespace after the list of all begins, and when none is
    /// left.
    async fn send_relists(&mut self) -> Result<(), Closed> {
        let relists = self.complete && self.places.iter().any(Place::is_relisted);
        if relists == self.relists {
            return Ok(());
        }
        self.relists = relists;
        self.send(Event::Relists(relists)).await
    }

    async fn send(&mut self, event: Event<K>) -> Result<(), Closed> {
        self.events.send(event).await.map_err(|_| Closed)
    }
}

/// Waits until then; forever for `None`.
async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// Returns the next event of any watch, with the index of the watch. They take turns.
async fn next<K>(
    watches: &mut [mpsc::Receiver<Event<K>>],
    last: &mut usize,
) -> Result<(usize, Event<K>), Closed> {
    poll_fn(|context| {
        let count = watches.len();
        for index in (1..=count).map(|step| (*last + step) % count) {
            if let Poll::Ready(event) = watches[index].poll_recv(context) {
                *last = index;
                return Poll::Ready(event.map(|event| (index, event)).ok_or(Closed));
            }
        }
        Poll::Pending
    })
    .await
}

// One namespace of several that are watched.

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
    /// True from a failure until its watch is opened.
    is_troubled: bool,
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
            is_troubled: false,
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
                (self.current, self.is_troubled) = (Some(since), false);
                return Take::Pass(vec![Event::Current(since)]);
            }
            other => {
                self.is_troubled |= other.trouble().is_some();
                return Take::Pass(vec![other]);
            }
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
        (self.state, self.listing, self.is_troubled) = (State::Hidden, None, false);
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

#[cfg(test)]
mod tests;
