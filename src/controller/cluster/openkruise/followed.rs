//! A watch that reports its objects one by one, those that exist and those that are gone.

use std::collections::HashSet;
use std::future::pending;

use tokio::sync::mpsc;

use super::News;
use crate::frame::serve::rights::Right;
use crate::frame::watch::Event;
use crate::frame::writer::is_missing_right;

/// The result of a watch or a check.
pub(crate) enum Next {
    /// These events are to be reported.
    News(Vec<News>),
    /// A failure, which is retried automatically.
    Trouble(String),
    /// A right to watch something is missing. What that means depends on whether OpenKruise itself
    /// is installed.
    Forbidden,
    /// The watch has ended, which it never does by itself.
    Died,
}

/// The functions that turn objects into events.
pub(crate) struct Tell<K> {
    /// Returns the key of an object and its event; `None` skips the object.
    pub read: fn(K) -> Option<(Box<str>, News)>,
    /// Returns the event that the object of this key is gone.
    pub gone: fn(Box<str>) -> News,
}

/// A watch, and the keys of the objects that it has shown: one that a list does not name is gone.
pub(crate) struct Followed<K> {
    open: Box<dyn Fn() -> mpsc::Receiver<Event<K>> + Send + Sync>,
    /// `None` while the watch is forbidden and OpenKruise itself is not installed.
    events: Option<mpsc::Receiver<Event<K>>>,
    report: Tell<K>,
    /// The right that the watch needs.
    right: Right,
    known: HashSet<Box<str>>,
    listed: HashSet<Box<str>>,
    /// The reason why the watch, or a part of it, is forbidden.
    forbidden: Option<String>,
    /// True while a part of it is forbidden, which lasts until the next list.
    hidden: bool,
    /// Set once the first list is complete, or has failed and is not waited for.
    pub settled: bool,
}

impl<K> Followed<K> {
    /// Starts the watch with `open`, which needs the right.
    pub fn new(
        open: impl Fn() -> mpsc::Receiver<Event<K>> + Send + Sync + 'static,
        right: Right,
        report: Tell<K>,
    ) -> Self {
        let events = Some(open());
        let (known, listed) = (HashSet::new(), HashSet::new());
        Self {
            open: Box::new(open),
            events,
            report,
            right,
            known,
            listed,
            forbidden: None,
            hidden: false,
            settled: false,
        }
    }

    /// Waits for the next result, forever while the watch is given up.
    pub async fn next(&mut self) -> Next {
        let Some(events) = &mut self.events else {
            return pending().await;
        };
        match events.recv().await {
            Some(event) => self.take(event),
            None => Next::Died,
        }
    }

    fn take(&mut self, event: Event<K>) -> Next {
        self.settled |= matches!(
            event,
            Event::ListEnd | Event::Trouble(_) | Event::Forbidden(_)
        );
        Next::News(match event {
            Event::ListStart => {
                self.listed.clear();
                self.hidden = false;
                Vec::new()
            }
            Event::Current(_) if self.hidden => Vec::new(),
            Event::Current(_) => {
                self.forbidden = None;
                vec![News::Has(self.right)]
            }
            Event::Relists(_) => Vec::new(),
            Event::Listed(object) => self.add(object, true),
            Event::Applied(object) => self.add(object, false),
            Event::ListEnd => {
                let listed = std::mem::take(&mut self.listed);
                let before = std::mem::replace(&mut self.known, listed);
                before
                    .difference(&self.known)
                    .cloned()
                    .map(self.report.gone)
                    .collect()
            }
            Event::Deleted(object) => {
                let gone = (self.report.read)(object)
                    .map(|(key, _)| key)
                    .filter(|key| {
                        self.listed.remove(key);
                        self.known.remove(key)
                    });
                gone.into_iter().map(self.report.gone).collect()
            }
            Event::Trouble(trouble) if !is_missing_right(&trouble) => {
                return Next::Trouble(trouble);
            }
            Event::Hidden(why) => {
                self.hidden = true;
                return self.forbid(why);
            }
            Event::Trouble(why) | Event::Forbidden(why) => return self.forbid(why),
        })
    }

    fn add(&mut self, object: K, listed: bool) -> Vec<News> {
        let Some((key, news)) = (self.report.read)(object) else {
            return Vec::new();
        };
        if listed {
            self.listed.insert(key.clone());
        }
        self.known.insert(key);
        vec![news]
    }

    fn forbid(&mut self, why: String) -> Next {
        self.forbidden = Some(why);
        Next::Forbidden
    }

    /// Handles a forbidden watch. Where OpenKruise itself is not installed there is nothing to
    /// watch, so the watch is given up until it comes.
    pub fn judge(&mut self, openkruise_is_there: bool) -> Vec<News> {
        match &self.forbidden {
            None => Vec::new(),
            Some(_) if openkruise_is_there && self.rests() => {
                self.events = Some((self.open)());
                Vec::new()
            }
            Some(why) if openkruise_is_there => vec![News::Lacks(self.right, why.clone())],
            Some(_) => {
                self.events = None;
                self.all_gone()
            }
        }
    }

    /// Returns true while the watch is given up.
    pub const fn rests(&self) -> bool {
        self.events.is_none()
    }

    /// Returns the events that every object is gone, and that no right is missing.
    pub fn all_gone(&mut self) -> Vec<News> {
        std::mem::take(&mut self.known)
            .into_iter()
            .map(self.report.gone)
            .chain([News::Has(self.right)])
            .collect()
    }
}
