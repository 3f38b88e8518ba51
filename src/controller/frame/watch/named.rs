//! Watches of single objects, each by its name, or of a few, for as long as they are needed.

use std::collections::{BTreeMap, BTreeSet};

use kube::Api;
use kube::api::ListParams;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::age::WatchAges;
use super::{BUFFER, Event, How, Watched, watch_by};

/// The watches: `K` is the key of an object, and `T` is what is reported of it.
pub struct NamedWatches<K, T> {
    open: Open<K, T>,
    ages: WatchAges,
    /// The running watches, each with its number. One that is dropped ends.
    watches: BTreeMap<K, (u64, JoinSet<()>)>,
    begun: u64,
    listener: mpsc::Sender<Heard<K, T>>,
    receiver: mpsc::Receiver<Heard<K, T>>,
}

/// An event, with the key and the number of its watch.
type Heard<K, T> = (K, u64, Event<T>);

/// A function that starts a watch.
type Open<K, T> = Box<dyn Fn(&K, Listener<K, T>) -> JoinSet<()> + Send + Sync>;

/// The receiver of the events of one watch.
pub struct Listener<K, T> {
    key: K,
    number: u64,
    ages: WatchAges,
    sender: mpsc::Sender<Heard<K, T>>,
}

impl<K: Ord + Clone + Send + 'static, T: Send + 'static> NamedWatches<K, T> {
    /// Returns an empty set. `open` starts a watch with [`Listener::watch`], whose age is recorded
    /// in `ages`.
    pub fn new(
        ages: WatchAges,
        open: impl Fn(&K, Listener<K, T>) -> JoinSet<()> + Send + Sync + 'static,
    ) -> Self {
        let (listener, receiver) = mpsc::channel(BUFFER);
        Self {
            open: Box::new(open),
            ages,
            watches: BTreeMap::new(),
            begun: 0,
            listener,
            receiver,
        }
    }

    /// Watches exactly these objects: starts and ends watches as needed.
    pub fn follow<'a>(&mut self, objects: impl Iterator<Item = &'a K>) {
        let wanted: BTreeSet<_> = objects.cloned().collect();
        self.watches.retain(|object, _| wanted.contains(object));
        for object in wanted {
            if !self.watches.contains_key(&object) {
                self.begun += 1;
                let listener = Listener {
                    key: object.clone(),
                    number: self.begun,
                    ages: self.ages.clone(),
                    sender: self.listener.clone(),
                };
                let watch = (self.open)(&object, listener);
                self.watches.insert(object, (self.begun, watch));
            }
        }
    }

    /// Returns the next event; waits forever while nothing is watched. The events of a watch that
    /// was dropped are left out: the end of its list says nothing about the list of the next one.
    pub async fn next(&mut self) -> Option<(K, Event<T>)> {
        loop {
            let (key, number, event) = self.receiver.recv().await?;
            let current = self.watches.get(&key).map(|(current, _)| *current);
            if current == Some(number) {
                return Some((key, event));
            }
        }
    }
}

impl<K: Clone + Send + 'static, T: Send + 'static> Listener<K, T> {
    /// Watches the object of this name, and reports what `read` makes of it.
    pub fn watch<O: Watched>(
        self,
        api: Api<O>,
        name: &str,
        read: impl Fn(O) -> T + Send + 'static,
    ) -> JoinSet<()> {
        self.watch_selected(
            api,
            ListParams::default().fields(&format!("metadata.name={}", escaped(name))),
            read,
        )
    }

    /// Like [`watch`](Self::watch), for all objects that the selectors of `params` match.
    pub fn watch_selected<O: Watched>(
        self,
        api: Api<O>,
        params: ListParams,
        read: impl Fn(O) -> T + Send + 'static,
    ) -> JoinSet<()> {
        let mut events = watch_by(How::Chosen, api, params, &self.ages);
        let mut watch = JoinSet::new();
        watch.spawn(async move {
            while let Some(event) = events.recv().await {
                let heard = (self.key.clone(), self.number, event.map(&read));
                if self.sender.send(heard).await.is_err() {
                    break;
                }
            }
        });
        watch
    }
}

/// Escapes a value for a field selector (`EscapeValue` of Kubernetes): whatever it is, it stays one
/// value.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace(',', "\\,")
        .replace('=', "\\=")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;
    use swaplet_testbed::apiserver::{Effect, Rule, Verb};
    use swaplet_testbed::{ApiServer, Clock};
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn d3_whatever_a_name_says_it_selects_by_one_name() {
        assert_eq!(escaped("web-0"), "web-0");
        assert_eq!(
            escaped("p,metadata.namespace=x\\"),
            "p\\,metadata.namespace\\=x\\\\"
        );
    }

    fn watches_of_pods(server: &ApiServer, ages: WatchAges) -> NamedWatches<String, Pod> {
        let client = server.client_as("test");
        NamedWatches::new(
            ages,
            move |name: &String, listener: Listener<String, Pod>| {
                listener.watch(
                    Api::<Pod>::default_namespaced(client.clone()),
                    name,
                    |pod| pod,
                )
            },
        )
    }

    #[tokio::test(start_paused = true)]
    async fn u140_nothing_is_heard_of_a_watch_that_was_dropped() {
        let server = ApiServer::new(Clock::default());
        let mut watches = watches_of_pods(&server, WatchAges::default());
        let name = "p".to_owned();
        watches.follow(std::iter::once(&name));
        // Its list is complete, and the end of it is not read yet.
        sleep(Duration::from_secs(1)).await;
        assert!(matches!(watches.next().await, Some((_, Event::ListStart))));
        watches.follow(std::iter::empty());
        watches.follow(std::iter::once(&name));
        assert!(matches!(watches.next().await, Some((_, Event::ListStart))));
        assert!(matches!(watches.next().await, Some((_, Event::ListEnd))));
    }

    /// Follows the pod of this name, and checks that it is given up as no question.
    async fn is_asked_seldom(server: &ApiServer, name: String) {
        let ages = WatchAges::default();
        let mut watches = watches_of_pods(server, ages.clone());
        watches.follow(std::iter::once(&name));
        assert!(matches!(watches.next().await, Some((_, Event::ListStart))));
        assert!(matches!(watches.next().await, Some((_, Event::Trouble(_)))));
        assert!(matches!(watches.next().await, Some((_, Event::ListStart))));
        assert!(
            matches!(watches.next().await, Some((_, Event::Hidden(_)))),
            "it was no accident"
        );
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(ages.all().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn d3_what_the_api_server_does_not_take_is_asked_seldom_and_says_nothing_of_the_watches()
    {
        // 414 and 431 are those of proxies, which take shorter URLs.
        for code in [400, 414, 431] {
            let server = ApiServer::new(Clock::default());
            let rule = server
                .faults()
                .add(Rule::new(Effect::reply(code)).verb(Verb::List));
            is_asked_seldom(&server, "p".to_owned()).await;
            assert!(
                server.faults().hits(rule) <= 13,
                "{code}: {}",
                server.faults().hits(rule)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn d3_what_no_url_has_room_for_says_nothing_of_the_watches() {
        is_asked_seldom(&ApiServer::new(Clock::default()), "p".repeat(70_000)).await;
    }
}
