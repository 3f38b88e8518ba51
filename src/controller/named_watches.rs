//! Watches of single objects, each by its name, or of a few, for as long as they are needed.

use std::collections::{BTreeMap, BTreeSet};

use kube::Api;
use kube::api::ListParams;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::watch::{Event, watch_noted};
use super::watch_age::WatchAges;

/// Events between the watches and the loop.
const BUFFER: usize = 256;

/// The watches: `K` names an object, and `T` is what is passed on of it.
pub struct NamedWatches<K, T> {
    open: Open<K, T>,
    ages: WatchAges,
    watches: BTreeMap<K, Watch>,
    listener: mpsc::Sender<(K, Event<T>)>,
    receiver: mpsc::Receiver<(K, Event<T>)>,
}

/// Starts a watch.
type Open<K, T> = Box<dyn Fn(&K, Listener<K, T>) -> JoinHandle<()> + Send + Sync>;

/// Where the events of a watch go.
pub struct Listener<K, T> {
    key: K,
    ages: WatchAges,
    sender: mpsc::Sender<(K, Event<T>)>,
}

/// It ends when it is dropped.
struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<K: Ord + Clone + Send + 'static, T: Send + 'static> NamedWatches<K, T> {
    /// Nothing is watched yet; `open` starts a watch with [`Listener::watch`], whose age is noted in `ages`.
    #[must_use]
    pub fn new(ages: WatchAges, open: impl Fn(&K, Listener<K, T>) -> JoinHandle<()> + Send + Sync + 'static) -> Self {
        let (listener, receiver) = mpsc::channel(BUFFER);
        Self { open: Box::new(open), ages, watches: BTreeMap::new(), listener, receiver }
    }

    /// Watches exactly these objects.
    pub fn follow<'a>(&mut self, objects: impl Iterator<Item = &'a K>) {
        let wanted: BTreeSet<_> = objects.cloned().collect();
        self.watches.retain(|object, _| wanted.contains(object));
        for object in wanted {
            if !self.watches.contains_key(&object) {
                let listener = Listener { key: object.clone(), ages: self.ages.clone(), sender: self.listener.clone() };
                let watch = Watch((self.open)(&object, listener));
                self.watches.insert(object, watch);
            }
        }
    }

    /// What happens next; waits for ever where nothing is watched.
    pub async fn next(&mut self) -> Option<(K, Event<T>)> {
        self.receiver.recv().await
    }
}

impl<K: Clone + Send + 'static, T: Send + 'static> Listener<K, T> {
    /// Watches the object of this name, and passes on what `read` makes of it.
    pub fn watch<O>(self, api: Api<O>, name: &str, read: impl Fn(O) -> T + Send + 'static) -> JoinHandle<()>
    where
        O: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        self.watch_selected(api, ListParams::default().fields(&format!("metadata.name={name}")), read)
    }

    /// As [`watch`](Self::watch), of all objects that the selectors of `params` select.
    pub fn watch_selected<O>(self, api: Api<O>, params: ListParams, read: impl Fn(O) -> T + Send + 'static) -> JoinHandle<()>
    where
        O: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let mut events = watch_noted(api, params, &self.ages);
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if self.sender.send((self.key.clone(), event.map(&read))).await.is_err() {
                    break;
                }
            }
        })
    }
}
