//! The watches of the pods whose containers are to be restarted: one per pod, for as long as it is needed.

use std::collections::BTreeMap;

use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Key;
use crate::controller::watch::{Event, watch_selected};
use crate::objects::restart_pod::RestartPodWire;

/// Events between the watches and the loop.
const BUFFER: usize = 256;

/// The watches.
pub struct PodWatches {
    client: Client,
    watches: BTreeMap<Key, Watch>,
    sender: mpsc::Sender<(Key, Event<RestartPodWire>)>,
    receiver: mpsc::Receiver<(Key, Event<RestartPodWire>)>,
}

/// It ends when it is dropped.
struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PodWatches {
    /// No pod is watched yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let (sender, receiver) = mpsc::channel(BUFFER);
        Self { client, watches: BTreeMap::new(), sender, receiver }
    }

    /// Watches exactly these pods.
    pub fn follow<'a>(&mut self, pods: impl Iterator<Item = &'a Key>) {
        let wanted: Vec<_> = pods.cloned().collect();
        self.watches.retain(|pod, _| wanted.contains(pod));
        for pod in wanted {
            if !self.watches.contains_key(&pod) {
                let watch = self.watch(pod.clone());
                self.watches.insert(pod, watch);
            }
        }
    }

    /// What happens next; waits for ever where nothing is watched.
    pub async fn next(&mut self) -> Option<(Key, Event<RestartPodWire>)> {
        self.receiver.recv().await
    }

    fn watch(&self, pod: Key) -> Watch {
        let api: Api<RestartPodWire> = Api::namespaced(self.client.clone(), &pod.0);
        let mut events = watch_selected(api, ListParams::default().fields(&format!("metadata.name={}", pod.1)));
        let sender = self.sender.clone();
        Watch(tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if sender.send((pod.clone(), event)).await.is_err() {
                    break;
                }
            }
        }))
    }
}
