//! The watches of several namespaces as one: it tells a list when each of them has listed, and lists all of them again when one has to.
//!
//! A namespace that must not be listed counts as empty, so that the others go on: its RoleBinding goes with the namespace itself.

use std::fmt::Debug;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::watch::{BUFFER, Event, HEALTHY, PAUSE, watch_noted};
use super::watch_age::WatchAges;

/// Starts watching, wherever `apis` are. The stream ends only when the receiver is dropped, or a watch has died.
pub fn watch_all<K>(apis: Vec<Api<K>>, field_selector: &str) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_all_noted(apis, field_selector, &WatchAges::default())
}

/// As [`watch_all`]; their ages are noted.
pub fn watch_all_noted<K>(apis: Vec<Api<K>>, field_selector: &str, ages: &WatchAges) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_all_selected(apis, &ListParams::default().fields(field_selector), ages)
}

/// As [`watch_all_noted`], of what the selectors of `params` select.
pub fn watch_all_selected<K>(mut apis: Vec<Api<K>>, params: &ListParams, ages: &WatchAges) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    match apis.pop() {
        Some(only) if apis.is_empty() => return watch_noted(only, params.clone(), ages),
        Some(last) => apis.push(last),
        None => {}
    }
    let (events, receiver) = mpsc::channel(BUFFER);
    let (params, ages) = (params.clone(), ages.clone());
    tokio::spawn(async move {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let watches = apis.iter().map(|api| watch_noted(api.clone(), params.clone(), &ages)).collect();
            if Round::new(watches, &events).run().await.is_err() {
                return;
            }
            failures = if began.elapsed() > HEALTHY { 0 } else { failures + 1 };
            sleep(pause(failures)).await;
        }
    });
    receiver
}

/// None after a round that lived for long.
fn pause(failures: u32) -> Duration {
    if failures == 0 { Duration::ZERO } else { PAUSE.0.saturating_mul(1 << failures.min(16)).min(PAUSE.1) }
}

/// How far one watch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was listed yet.
    Waits,
    /// Something was.
    Lists,
    /// The list is complete.
    Watches,
    /// It must not be listed.
    Hidden,
}

/// Nobody listens any more, or a watch has died.
struct Closed;

/// All watches, until one of them has to list again.
struct Round<'a, K> {
    watches: Vec<mpsc::Receiver<Event<K>>>,
    /// The one that has told something last.
    last: usize,
    states: Vec<State>,
    /// When each was opened last.
    current: Vec<Option<Instant>>,
    /// What is told once the list is complete: of each namespace that is hidden, why.
    hidden: Vec<String>,
    complete: bool,
    events: &'a mpsc::Sender<Event<K>>,
}

impl<'a, K: Send + 'static> Round<'a, K> {
    fn new(watches: Vec<mpsc::Receiver<Event<K>>>, events: &'a mpsc::Sender<Event<K>>) -> Self {
        let states = vec![State::Waits; watches.len()];
        let current = vec![None; watches.len()];
        Self { watches, last: 0, states, current, hidden: Vec::new(), complete: false, events }
    }

    /// Comes back when everything has to be listed again.
    async fn run(mut self) -> Result<(), Closed> {
        self.send(Event::ListStart).await?;
        loop {
            let (index, event) = tokio::select! {
                next = next(&mut self.watches, &mut self.last) => next?,
                () = self.events.closed() => return Err(Closed),
            };
            if self.must_list_again(index, &event) {
                return Ok(());
            }
            if let Some(event) = self.take(index, event) {
                self.send(event).await?;
            }
            self.complete_list().await?;
        }
    }

    /// What an earlier list of this watch has named may be gone, or what was hidden is seen.
    fn must_list_again(&self, index: usize, event: &Event<K>) -> bool {
        match self.states[index] {
            State::Waits => false,
            State::Lists | State::Watches => matches!(event, Event::ListStart),
            State::Hidden => matches!(event, Event::ListEnd),
        }
    }

    /// What is passed on.
    fn take(&mut self, index: usize, event: Event<K>) -> Option<Event<K>> {
        let state = &mut self.states[index];
        match event {
            Event::ListStart => None,
            Event::Listed(_) if *state == State::Hidden => None,
            Event::Listed(object) => {
                *state = State::Lists;
                Some(Event::Listed(object))
            }
            Event::ListEnd => {
                *state = State::Watches;
                None
            }
            Event::Current(since) => {
                self.current[index] = Some(since);
                self.oldest().map(Event::Current)
            }
            // Until the list is complete, what is new is a part of it.
            Event::Applied(object) if !self.complete => Some(Event::Listed(object)),
            Event::Forbidden(_) if *state == State::Hidden => None,
            Event::Forbidden(why) if *state == State::Waits => {
                *state = State::Hidden;
                self.hidden.push(why);
                None
            }
            other => Some(other),
        }
    }

    /// What is seen is as old as the watch that was opened first, once each was that may be.
    fn oldest(&self) -> Option<Instant> {
        let seen = self.states.iter().zip(&self.current).filter(|(state, _)| **state != State::Hidden);
        seen.map(|(_, since)| *since).min().flatten()
    }

    /// The list is complete as soon as nobody is waited for. Where everything is hidden, there is none.
    async fn complete_list(&mut self) -> Result<(), Closed> {
        if self.states.iter().all(|state| *state == State::Hidden) {
            return match std::mem::take(&mut self.hidden).pop() {
                Some(why) => self.send(Event::Forbidden(why)).await,
                None => Ok(()),
            };
        }
        if !self.complete && !self.states.iter().any(|state| matches!(state, State::Waits | State::Lists)) {
            self.complete = true;
            self.send(Event::ListEnd).await?;
        }
        if self.complete {
            for why in std::mem::take(&mut self.hidden) {
                self.send(Event::Hidden(why)).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, event: Event<K>) -> Result<(), Closed> {
        self.events.send(event).await.map_err(|_| Closed)
    }
}

/// What one of the watches tells next, with its number. They take turns.
async fn next<K>(watches: &mut [mpsc::Receiver<Event<K>>], last: &mut usize) -> Result<(usize, Event<K>), Closed> {
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

#[cfg(test)]
mod tests {
    use super::*;

    type Senders = Vec<mpsc::Sender<Event<&'static str>>>;

    /// A round of two watches, the ends on which to play them, and what it tells.
    fn round() -> (tokio::task::JoinHandle<bool>, Senders, mpsc::Receiver<Event<&'static str>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel(8)).unzip();
        let (events, told) = mpsc::channel(32);
        let round = tokio::spawn(async move { Round::new(receivers, &events).run().await.is_ok() });
        (round, senders, told)
    }

    async fn play(watch: &mpsc::Sender<Event<&'static str>>, events: Vec<Event<&'static str>>) {
        for event in events {
            watch.send(event).await.unwrap();
        }
        // The round takes them before anything else is played.
        while watch.capacity() < watch.max_capacity() {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
    }

    fn all(told: &mut mpsc::Receiver<Event<&'static str>>) -> Vec<String> {
        std::iter::from_fn(|| told.try_recv().ok()).map(|event| format!("{event:?}")).collect()
    }

    fn listed(name: &'static str) -> Vec<Event<&'static str>> {
        vec![Event::ListStart, Event::Listed(name), Event::ListEnd]
    }

    #[tokio::test]
    async fn a_list_is_complete_when_each_namespace_was_listed_and_all_are_listed_again_when_one_is() {
        let (round, watches, mut told) = round();
        play(&watches[0], listed("a")).await;
        play(&watches[0], vec![Event::Applied("a2")]).await;
        assert_eq!(all(&mut told), ["ListStart", "Listed(\"a\")", "Listed(\"a2\")"]);
        play(&watches[1], listed("b")).await;
        play(&watches[1], vec![Event::Applied("b2"), Event::Deleted("b")]).await;
        assert_eq!(all(&mut told), ["Listed(\"b\")", "ListEnd", "Applied(\"b2\")", "Deleted(\"b\")"]);
        play(&watches[0], vec![Event::ListStart]).await;
        assert!(round.await.unwrap());
        assert_eq!(all(&mut told), [""; 0]);
    }

    #[tokio::test]
    async fn a_hidden_namespace_does_not_keep_the_others_waiting_until_it_is_seen() {
        let (round, watches, mut told) = round();
        play(&watches[0], vec![Event::ListStart, Event::Forbidden("no".to_owned())]).await;
        play(&watches[1], listed("b")).await;
        play(&watches[0], vec![Event::ListStart, Event::Forbidden("no".to_owned())]).await;
        play(&watches[1], vec![Event::Applied("b2")]).await;
        assert_eq!(all(&mut told), ["ListStart", "Listed(\"b\")", "ListEnd", "Hidden(\"no\")", "Applied(\"b2\")"]);
        play(&watches[0], listed("a")).await;
        assert!(round.await.unwrap(), "to be listed in a list of all");
        assert_eq!(all(&mut told), [""; 0]);
    }

    #[tokio::test]
    async fn nothing_is_complete_where_everything_is_hidden_or_a_list_breaks_off() {
        let (_round, watches, mut told) = round();
        for watch in &watches {
            play(watch, vec![Event::ListStart, Event::Forbidden("no".to_owned())]).await;
        }
        assert_eq!(all(&mut told), ["ListStart", "Forbidden(\"no\")"]);

        let (round, watches, mut told) = self::round();
        play(&watches[1], listed("b")).await;
        play(&watches[0], vec![Event::ListStart, Event::Trouble("gone".to_owned()), Event::ListStart, Event::Listed("a")]).await;
        play(&watches[0], vec![Event::Trouble("gone".to_owned()), Event::ListStart]).await;
        assert!(round.await.unwrap(), "a was named by a list that is not complete");
        assert_eq!(all(&mut told), ["ListStart", "Listed(\"b\")", "Trouble(\"gone\")", "Listed(\"a\")", "Trouble(\"gone\")"]);
    }

    #[tokio::test]
    async fn a_watch_that_dies_ends_all() {
        let (round, mut watches, _told) = round();
        drop(watches.pop());
        assert!(!round.await.unwrap());
    }
}
