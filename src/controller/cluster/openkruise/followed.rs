//! A watch whose objects are told one by one: those that are there, and those that are gone.

use std::collections::HashSet;
use std::future::pending;

use tokio::sync::mpsc;

use super::News;
use crate::frame::watch::Event;
use crate::frame::writer::is_missing_right;

/// What comes of looking.
pub(crate) enum Next {
    /// This is to be told.
    News(Vec<News>),
    /// Something went wrong, and is tried again by itself.
    Trouble(String),
    /// The right to see something is missing. What that means depends on whether OpenKruise is
    /// really there.
    Forbidden,
    /// The watch is gone, which never ends by itself.
    Died,
}

/// How objects are told.
pub(crate) struct Tell<K> {
    /// The key of an object, and what to tell of it.
    pub read: fn(K) -> Option<(Box<str>, News)>,
    /// What to tell when the object of this key is gone.
    pub gone: fn(Box<str>) -> News,
}

/// A watch, and the keys of what it has shown: what a list no longer names is gone.
pub(crate) struct Followed<K> {
    open: Box<dyn Fn() -> mpsc::Receiver<Event<K>> + Send + Sync>,
    /// `None` while there is nothing to be seen, and no right to see it.
    events: Option<mpsc::Receiver<Event<K>>>,
    tell: Tell<K>,
    /// What cannot be done while it is forbidden.
    what: &'static str,
    known: HashSet<Box<str>>,
    listed: HashSet<Box<str>>,
    /// Why it may not be seen; or not all of it.
    forbidden: Option<String>,
    /// Whether a part of it may not be seen, which stays so until the next list.
    hidden: bool,
    /// Whether the first list is complete; or cannot be had, and is not waited for.
    pub settled: bool,
}

impl<K> Followed<K> {
    /// `open` starts the watch; `what` cannot be done without the right to.
    pub fn new(
        open: impl Fn() -> mpsc::Receiver<Event<K>> + Send + Sync + 'static,
        what: &'static str,
        tell: Tell<K>,
    ) -> Self {
        let events = Some(open());
        let (known, listed) = (HashSet::new(), HashSet::new());
        Self {
            open: Box::new(open),
            events,
            tell,
            what,
            known,
            listed,
            forbidden: None,
            hidden: false,
            settled: false,
        }
    }

    /// What happens next.
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
                vec![News::Has(self.what)]
            }
            Event::Listed(object) => self.add(object, true),
            Event::Applied(object) => self.add(object, false),
            Event::ListEnd => {
                let listed = std::mem::take(&mut self.listed);
                let before = std::mem::replace(&mut self.known, listed);
                before
                    .difference(&self.known)
                    .cloned()
                    .map(self.tell.gone)
                    .collect()
            }
            Event::Deleted(object) => {
                let gone = (self.tell.read)(object).map(|(key, _)| key).filter(|key| {
                    self.listed.remove(key);
                    self.known.remove(key)
                });
                gone.into_iter().map(self.tell.gone).collect()
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
        let Some((key, news)) = (self.tell.read)(object) else {
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

    /// Whether OpenKruise is really there. Where it is not there is nothing to be seen, so what is
    /// forbidden is not asked for until it comes.
    pub fn judge(&mut self, openkruise_is_there: bool) -> Vec<News> {
        match &self.forbidden {
            None => Vec::new(),
            Some(_) if openkruise_is_there && self.rests() => {
                self.events = Some((self.open)());
                Vec::new()
            }
            Some(why) if openkruise_is_there => vec![News::Lacks(self.what, why.clone())],
            Some(_) => {
                self.events = None;
                self.all_gone()
            }
        }
    }

    /// Whether it is not asked for.
    pub const fn rests(&self) -> bool {
        self.events.is_none()
    }

    /// Everything is gone, and no right is missing for what is not there.
    pub fn all_gone(&mut self) -> Vec<News> {
        std::mem::take(&mut self.known)
            .into_iter()
            .map(self.tell.gone)
            .chain([News::Has(self.what)])
            .collect()
    }
}
