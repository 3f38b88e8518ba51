//! Objects, their history and the revision: the counterpart of etcd and the watch cache.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::objects::json::{child, list, text};

/// A namespace and a name; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of an object.
    pub fn of(object: &Value) -> Self {
        Self::new(
            text(object, "/metadata/namespace"),
            text(object, "/metadata/name"),
        )
    }

    /// Returns a key from its parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// One change; there is exactly one per revision.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision of the change.
    pub revision: u64,
    /// The storage of the object, as in `Kind::storage`.
    pub storage: String,
    /// The key of the object.
    pub key: Key,
    /// The object after the change; for a deletion its last state with the revision of the
    /// deletion.
    pub object: Arc<Value>,
    /// The object before; `None` for a creation.
    pub previous: Option<Arc<Value>>,
    /// True if the object is gone.
    pub deleted: bool,
}

type Objects = BTreeMap<Key, Arc<Value>>;

/// All stored objects with their history.
#[derive(Debug, Default)]
pub struct Store {
    revision: u64,
    objects: HashMap<String, Objects>,
    history: VecDeque<Change>,
    /// Objects by the uid of one of their owners.
    dependents: HashMap<String, BTreeSet<(String, Key)>>,
    uids: HashMap<String, (String, Key)>,
}

/// The number of changes kept for watches that lag; more than any test makes, and a bound for a
/// server that runs for days.
const HISTORY: usize = 100_000;

impl Store {
    /// Returns the revision of the latest change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the oldest revision from which a watch can start.
    pub fn oldest(&self) -> u64 {
        self.revision - self.history.len() as u64
    }

    /// Returns one object.
    pub fn get(&self, storage: &str, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(storage)?.get(key).cloned()
    }

    /// Returns all objects of a storage, in the order of their keys.
    pub fn all<'a>(
        &'a self,
        storage: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> + use<'a> {
        self.objects.get(storage).into_iter().flatten()
    }

    /// Returns every object of every storage.
    pub fn everything(&self) -> impl Iterator<Item = (&String, &Key)> {
        self.objects
            .iter()
            .flat_map(|(storage, objects)| objects.keys().map(move |key| (storage, key)))
    }

    /// Returns the objects as of an older revision; `None` if that is compacted.
    pub fn at(&self, storage: &str, revision: u64) -> Option<Objects> {
        if revision < self.oldest() {
            return None;
        }
        let mut objects = self.objects.get(storage).cloned().unwrap_or_default();
        for change in self
            .since(revision)
            .rev()
            .filter(|change| change.storage == storage)
        {
            match &change.previous {
                Some(previous) => objects.insert(change.key.clone(), previous.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    /// Returns the changes after a revision, oldest first.
    pub fn since(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Change> {
        let skip = revision.saturating_sub(self.oldest());
        self.history.range(
            usize::try_from(skip)
                .unwrap_or(usize::MAX)
                .min(self.history.len())..,
        )
    }

    /// Creates or replaces an object and stamps it with the new revision.
    pub fn put(&mut self, storage: &str, mut object: Value) -> Arc<Value> {
        let key = Key::of(&object);
        let object = self.stamp(&mut object);
        let previous = self
            .objects
            .entry(storage.to_owned())
            .or_default()
            .insert(key.clone(), object.clone());
        self.forget_owners(storage, &key, previous.as_deref());
        self.index_owners(storage, &key, &object);
        self.uids.insert(
            text(&object, "/metadata/uid").to_owned(),
            (storage.to_owned(), key.clone()),
        );
        self.record(Change {
            revision: self.revision,
            storage: storage.to_owned(),
            key,
            object: object.clone(),
            previous,
            deleted: false,
        });
        object
    }

    /// Deletes an object; `last` is the state that watches show.
    pub fn remove(&mut self, storage: &str, mut last: Value) -> Arc<Value> {
        let key = Key::of(&last);
        let object = self.stamp(&mut last);
        let previous = self
            .objects
            .get_mut(storage)
            .and_then(|objects| objects.remove(&key));
        self.forget_owners(storage, &key, previous.as_deref());
        self.uids.remove(text(&object, "/metadata/uid"));
        self.record(Change {
            revision: self.revision,
            storage: storage.to_owned(),
            key,
            object: object.clone(),
            previous,
            deleted: true,
        });
        object
    }

    /// Undoes all changes after this revision, as far as they are kept.
    pub fn restore(&mut self, revision: u64) {
        while let Some(change) = self
            .history
            .pop_back_if(|change| change.revision > revision)
        {
            let Change {
                storage,
                key,
                object,
                previous,
                ..
            } = change;
            self.forget_owners(&storage, &key, Some(&object));
            self.uids.remove(text(&object, "/metadata/uid"));
            let objects = self.objects.entry(storage.clone()).or_default();
            objects.remove(&key);
            if let Some(previous) = previous {
                objects.insert(key.clone(), previous.clone());
                self.index_owners(&storage, &key, &previous);
                self.uids
                    .insert(text(&previous, "/metadata/uid").to_owned(), (storage, key));
            }
            self.revision -= 1;
        }
    }

    /// Forgets all changes up to and including `revision`; watches that need them get 410.
    pub fn compact(&mut self, revision: u64) {
        while self
            .history
            .front()
            .is_some_and(|change| change.revision <= revision)
        {
            self.history.pop_front();
        }
    }

    /// Returns the objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<(String, Key)> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Returns the place of the live object with this uid.
    pub fn by_uid(&self, uid: &str) -> Option<(String, Key)> {
        self.uids.get(uid).cloned()
    }

    fn stamp(&mut self, object: &mut Value) -> Arc<Value> {
        self.revision += 1;
        child(object, "metadata").insert(
            "resourceVersion".to_owned(),
            self.revision.to_string().into(),
        );
        Arc::new(object.take())
    }

    fn record(&mut self, change: Change) {
        self.history.push_back(change);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    fn index_owners(&mut self, storage: &str, key: &Key, object: &Value) {
        for owner in list(object, "/metadata/ownerReferences") {
            let entry = self
                .dependents
                .entry(text(owner, "/uid").to_owned())
                .or_default();
            entry.insert((storage.to_owned(), key.clone()));
        }
    }

    fn forget_owners(&mut self, storage: &str, key: &Key, object: Option<&Value>) {
        for owner in object.map_or(&[][..], |object| list(object, "/metadata/ownerReferences")) {
            let uid = text(owner, "/uid");
            if let Some(entry) = self.dependents.get_mut(uid) {
                entry.remove(&(storage.to_owned(), key.clone()));
                if entry.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
    }
}
