//! The objects of one list and watch, each kept once and as new as anybody has shown it: what the
//! watch reports, and what the API server has answered to writes. No I/O and no clock.
//!
//! * **A list**: what it does not name is gone; while one is in progress, what is known stays.
//! * **Newer and older**: an answer counts if its version is later than the one that is kept. An
//!   event that is older than the answer is ignored, also for an object that is not kept any more,
//!   until the watch shows its version or a later one; or until a list begins after it, because
//!   etcd may have been restored; or for two minutes. Versions of one resource are numbers that
//!   grow (Kubernetes: KEP-5504). Where they are not, the watch wins, and an answer counts while it
//!   has shown nothing since the decision.
//! * **A creation** counts from its answer, or from when none came, until a list that begins later
//!   does not name the object.
//! * **An object that cannot be read**, or of which nothing is to be kept, is gone: the store reads
//!   its name, uid and version itself.

use std::collections::BTreeMap;
use std::mem::replace;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use swaplet_core::objects::moment::Moment;

use super::watch::Event;

/// A namespace, which is empty for an object of the cluster, and a name.
pub type Key = (Box<str>, Box<str>);

/// For how long an answer may be ahead of the watch: one that is dead is noticed within a minute,
/// and its events come within another.
const AHEAD: Duration = Duration::from_secs(120);

/// The objects `T`, with `M` kept beside each for as long as its uid is the same.
pub(crate) struct Store<T, M = ()> {
    slots: BTreeMap<Key, Slot<T, M>>,
    /// The answers that the watch has not shown yet, also of objects that are not kept any more.
    ahead: BTreeMap<Key, Ahead>,
    /// The number of lists that have begun.
    list: u64,
    is_listing: bool,
    is_complete: bool,
    hidden: Option<String>,
}

struct Slot<T, M> {
    object: T,
    memory: M,
    uid: Box<str>,
    version: Box<str>,
    /// The last list that has named it, or after whose begin the watch has shown it.
    list: u64,
}

struct Ahead {
    uid: Box<str>,
    version: Box<str>,
    /// The last list that had begun when the answer came.
    list: u64,
    until: Moment,
}

/// What an event or an answer has changed.
#[must_use]
#[derive(Debug)]
pub(crate) struct Changes<T, M> {
    /// The objects that do not exist any more, or of which nothing is to be kept, with what was kept
    /// beside them; also one whose name another object has now.
    pub gone: Vec<(Key, T, M)>,
    /// The key of the object that is new, or may have changed, and its state before if it is not new.
    pub put: Option<(Key, Option<T>)>,
}

/// The names that are gone, with what was kept beside each, and the object that is new or changed.
type Names<T, M> = (Vec<(Key, M)>, Option<(Key, T)>);

/// The identity of an object, and its `resourceVersion`.
struct Meta {
    key: Key,
    uid: Box<str>,
    version: Box<str>,
}

impl Meta {
    fn of(object: &impl Resource) -> Self {
        let ObjectMeta {
            namespace,
            name,
            uid,
            resource_version,
            ..
        } = object.meta();
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
        Self {
            key: (text(namespace), text(name)),
            uid: text(uid),
            version: text(resource_version),
        }
    }
}

impl<T, M> Default for Store<T, M> {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            ahead: BTreeMap::new(),
            list: 0,
            is_listing: false,
            is_complete: false,
            hidden: None,
        }
    }
}

impl<T, M> Store<T, M> {
    /// Returns true once all objects have been listed.
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns true while a list is in progress, also one that failed and is repeated: some of the
    /// objects may be gone.
    pub const fn is_listing(&self) -> bool {
        self.is_listing
    }

    /// Returns why the API server refuses to list some of the objects, until the next list shows one
    /// or is complete.
    pub fn hidden(&self) -> Option<&str> {
        self.hidden.as_deref()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn has(&self, key: &Key) -> bool {
        self.slots.contains_key(key)
    }

    pub fn get(&self, key: &Key) -> Option<(&T, &M)> {
        let slot = self.slots.get(key)?;
        Some((&slot.object, &slot.memory))
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<(&T, &mut M)> {
        let slot = self.slots.get_mut(key)?;
        Some((&slot.object, &mut slot.memory))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &T, &M)> {
        let slots = self.slots.iter();
        slots.map(|(key, slot)| (key, &slot.object, &slot.memory))
    }

    /// Returns the objects of a namespace.
    pub fn of(&self, namespace: &str) -> impl Iterator<Item = (&T, &M)> {
        let first: Key = (namespace.into(), Box::default());
        let slots = self.slots.range(first.clone()..);
        let slots = slots.take_while(move |(key, _)| key.0 == first.0);
        slots.map(|(_, slot)| (&slot.object, &slot.memory))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &T, &mut M)> {
        let slots = self.slots.iter_mut();
        slots.map(|(key, slot)| (key, &slot.object, &mut slot.memory))
    }

    /// Stops keeping an object about which nothing is to be done now.
    pub fn forget(&mut self, key: &Key) -> Option<(T, M)> {
        let slot = self.slots.remove(key)?;
        Some((slot.object, slot.memory))
    }

    /// Stores the object in an answer to a write that was decided on the version `seen`; it has this
    /// uid and version. It does not count if it is another object, or the watch has shown a later
    /// version.
    pub fn answered(
        &mut self,
        key: Key,
        (uid, version): (Box<str>, Box<str>),
        seen: &str,
        object: T,
        now: Moment,
    ) -> Changes<T, M> {
        let (gone, put) = (Vec::new(), None);
        let is_news =
            |slot: &&mut Slot<T, M>| slot.uid == uid && is_newer(&version, &slot.version, seen);
        let Some(slot) = self.slots.get_mut(&key).filter(is_news) else {
            return Changes { gone, put };
        };
        slot.version.clone_from(&version);
        let ahead = Ahead {
            uid,
            version,
            list: self.list,
            until: now + AHEAD,
        };
        self.ahead.retain(|_, ahead| now < ahead.until);
        self.ahead.insert(key.clone(), ahead);
        let put = Some((key, Some(replace(&mut slot.object, object))));
        Changes { gone, put }
    }
}

impl<T, M: Default> Store<T, M> {
    /// Stores the object in an answer to its creation; with an empty uid one whose creation may have
    /// been made. What the watch has shown under its name stays, and then it returns false.
    pub fn created(&mut self, key: Key, (uid, version): (Box<str>, Box<str>), object: T) -> bool {
        let known = self.slots.get(&key);
        if known.is_some_and(|slot| !slot.uid.is_empty()) {
            return false;
        }
        let assumed = self.slots.remove(&key);
        let slot = Slot {
            object,
            memory: assumed.map_or_else(M::default, |slot| slot.memory),
            uid,
            version,
            list: self.list,
        };
        self.slots.insert(key, slot);
        true
    }

    /// Stores what an event shows. `read` returns what is to be kept of an object.
    pub fn observe<K: Resource>(
        &mut self,
        event: Event<K>,
        now: Moment,
        read: impl FnOnce(K) -> Option<T>,
    ) -> Changes<T, M> {
        let (mut gone, mut put) = (Vec::new(), None);
        if matches!(event, Event::Listed(_) | Event::ListEnd) {
            self.hidden = None;
        }
        match event {
            Event::ListStart => {
                self.list += 1;
                self.is_listing = true;
            }
            Event::Listed(object) | Event::Applied(object) => {
                let meta = Meta::of(&object);
                if self.is_news(&meta, now) {
                    put = self.put(meta, read(object), &mut gone);
                }
            }
            Event::ListEnd => {
                (self.is_listing, self.is_complete) = (false, true);
                let list = self.list;
                self.ahead.retain(|_, ahead| ahead.list == list);
                let unnamed = self.slots.extract_if(.., |_, slot| slot.list != list);
                gone.extend(unnamed.map(|(key, slot)| (key, slot.object, slot.memory)));
            }
            Event::Deleted(object) => {
                let Meta { key, uid, .. } = Meta::of(&object);
                if self.ahead.get(&key).is_some_and(|ahead| ahead.uid == uid) {
                    self.ahead.remove(&key);
                }
                if self.slots.get(&key).is_some_and(|slot| slot.uid == uid) {
                    self.leaves(key, &mut gone);
                }
            }
            Event::Hidden(why) => self.hidden = Some(why),
            // As where a list begins: etcd may have been restored.
            Event::Relists(true) => self.ahead.clear(),
            Event::Current(_) | Event::Relists(false) | Event::Trouble(_) | Event::Forbidden(_) => {
            }
        }
        Changes { gone, put }
    }

    /// Returns false for a state that is older than an answer; then the object exists, at least.
    fn is_news(&mut self, meta: &Meta, now: Moment) -> bool {
        let Some(ahead) = self.ahead.get(&meta.key) else {
            return true;
        };
        let is_old = ahead.uid == meta.uid
            && ahead.list == self.list
            && now < ahead.until
            && is_before(&meta.version, &ahead.version) == Some(true);
        if !is_old {
            self.ahead.remove(&meta.key);
        } else if let Some(slot) = self.slots.get_mut(&meta.key) {
            slot.list = self.list;
        }
        !is_old
    }

    fn put(
        &mut self,
        Meta { key, uid, version }: Meta,
        object: Option<T>,
        gone: &mut Vec<(Key, T, M)>,
    ) -> Option<(Key, Option<T>)> {
        let list = self.list;
        let known = self.slots.get_mut(&key).filter(|slot| slot.uid == uid);
        if let (Some(slot), true) = (known, object.is_some()) {
            (slot.version, slot.list) = (version, list);
            return Some((key, object.map(|object| replace(&mut slot.object, object))));
        }
        self.leaves(key.clone(), gone);
        let slot = Slot {
            object: object?,
            memory: M::default(),
            uid,
            version,
            list,
        };
        self.slots.insert(key.clone(), slot);
        Some((key, None))
    }

    fn leaves(&mut self, key: Key, gone: &mut Vec<(Key, T, M)>) {
        let left = self.forget(&key);
        gone.extend(left.map(|(object, memory)| (key, object, memory)));
    }
}

impl<M: Default> Store<(), M> {
    /// Like [`observe`](Self::observe), for objects of which the owner keeps what is read. Returns
    /// those that are gone, and what was read of one that is new or may have changed.
    pub fn observe_names<K: Resource, T>(
        &mut self,
        event: Event<K>,
        now: Moment,
        read: impl FnOnce(K) -> Option<T>,
    ) -> Names<T, M> {
        let mut found = None;
        let changes = self.observe(event, now, |object| {
            found = read(object);
            found.as_ref().map(|_| ())
        });
        let gone = changes.gone.into_iter();
        let put = changes.put.map(|(key, _)| key).zip(found);
        (gone.map(|(key, (), memory)| (key, memory)).collect(), put)
    }
}

/// Returns true if the version of an answer is newer than the one that the watch has `shown`; `seen`
/// is the one that the write was decided on.
fn is_newer(answer: &str, shown: &str, seen: &str) -> bool {
    is_before(shown, answer).unwrap_or(shown == seen)
}

/// Returns true if the first version is the older one; `None` where versions have no order.
pub(super) fn is_before(one: &str, other: &str) -> Option<bool> {
    let number = |version: &str| version.parse::<u64>().ok();
    Some(number(one)? < number(other)?)
}

#[cfg(test)]
mod tests;
