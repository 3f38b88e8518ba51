//! A watch whose objects are told one by one: those that are there, and those that are gone.

use std::collections::HashSet;

use tokio::sync::mpsc;

use super::News;
use crate::controller::watch::Event;

/// What comes of looking.
pub(super) enum Next {
    /// This is to be told.
    News(Vec<News>),
    /// Something went wrong, and is tried again by itself.
    Trouble(String),
    /// The watch is gone, which never ends by itself.
    Died,
}

/// A watch, and the keys of what it has shown: what a list no longer names is gone.
pub(super) struct Followed<K> {
    events: mpsc::Receiver<Event<K>>,
    read: fn(K) -> Option<(Box<str>, News)>,
    gone: fn(Box<str>) -> News,
    known: HashSet<Box<str>>,
    listed: HashSet<Box<str>>,
    /// Whether the first list is complete; or cannot be had, and is not waited for.
    pub settled: bool,
}

impl<K> Followed<K> {
    /// `read` gives the key of an object and what to tell of it; `gone` what to tell when it is gone.
    pub fn new(events: mpsc::Receiver<Event<K>>, read: fn(K) -> Option<(Box<str>, News)>, gone: fn(Box<str>) -> News) -> Self {
        Self { events, read, gone, known: HashSet::new(), listed: HashSet::new(), settled: false }
    }

    /// What happens next.
    pub async fn next(&mut self) -> Next {
        match self.events.recv().await {
            Some(event) => self.take(event),
            None => Next::Died,
        }
    }

    fn take(&mut self, event: Event<K>) -> Next {
        self.settled |= matches!(event, Event::ListEnd | Event::Trouble(_) | Event::Forbidden(_));
        Next::News(match event {
            Event::ListStart => {
                self.listed.clear();
                Vec::new()
            }
            Event::Current(_) => Vec::new(),
            Event::Listed(object) => self.is_there(object, true),
            Event::Applied(object) => self.is_there(object, false),
            Event::ListEnd => {
                let listed = std::mem::take(&mut self.listed);
                let before = std::mem::replace(&mut self.known, listed);
                before.difference(&self.known).cloned().map(self.gone).collect()
            }
            Event::Deleted(object) => {
                let gone = (self.read)(object).map(|(key, _)| key).filter(|key| {
                    self.listed.remove(key);
                    self.known.remove(key)
                });
                gone.into_iter().map(self.gone).collect()
            }
            Event::Trouble(trouble) | Event::Forbidden(trouble) | Event::Hidden(trouble) => return Next::Trouble(trouble),
        })
    }

    fn is_there(&mut self, object: K, listed: bool) -> Vec<News> {
        let Some((key, news)) = (self.read)(object) else { return Vec::new() };
        if listed {
            self.listed.insert(key.clone());
        }
        self.known.insert(key);
        vec![news]
    }

    /// Everything is gone.
    pub fn all_gone(self) -> Vec<News> {
        self.known.into_iter().map(self.gone).collect()
    }
}
