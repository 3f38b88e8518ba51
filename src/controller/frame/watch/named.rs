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
    /// The running watches. One that is dropped ends.
    watches: BTreeMap<K, JoinSet<()>>,
    listener: mpsc::Sender<(K, Event<T>)>,
    receiver: mpsc::Receiver<(K, Event<T>)>,
}

/// A function that starts a watch.
type Open<K, T> = Box<dyn Fn(&K, Listener<K, T>) -> JoinSet<()> + Send + Sync>;

/// The receiver of the events of one watch.
pub struct Listener<K, T> {
    key: K,
    ages: WatchAges,
    sender: mpsc::Sender<(K, Event<T>)>,
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
                let listener = Listener {
                    key: object.clone(),
                    ages: self.ages.clone(),
                    sender: self.listener.clone(),
                };
                let watch = (self.open)(&object, listener);
                self.watches.insert(object, watch);
            }
        }
    }

    /// Returns the next event; waits forever while nothing is watched.
    pub async fn next(&mut self) -> Option<(K, Event<T>)> {
        self.receiver.recv().await
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
                if self
                    .sender
                    .send((self.key.clone(), event.map(&read)))
                    .await
                    .is_err()
                {
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

    /// Follows the pod of this name, and checks that it is given up as no question.
    async fn is_asked_seldom(server: &ApiServer, name: String) {
        let (client, ages) = (server.client_as("test"), WatchAges::default());
        let mut watches: NamedWatches<String, Pod> = NamedWatches::new(
            ages.clone(),
            move |name: &String, listener: Listener<String, Pod>| {
                listener.watch(
                    Api::<Pod>::default_namespaced(client.clone()),
                    name,
                    |pod| pod,
                )
            },
        );
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
