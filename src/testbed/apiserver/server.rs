//! The handle of a server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::faults::Faults;
use super::objects::log::LogKey;
use super::request::record::Recorded;
use super::storage::shared::Shared;
use super::storage::state::{StreamedLists, Webhook};
use super::storage::store::Key;
use crate::clock::Clock;

/// A server; clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(super) shared: Arc<Shared>,
    pub(super) faults: Faults,
    recorded: Arc<Mutex<Vec<Recorded>>>,
}

impl ApiServer {
    /// An empty server (but for the usual namespaces) that lives by this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            shared: Arc::new(Shared::new(clock)),
            faults: Faults::default(),
            recorded: Arc::default(),
        }
    }

    /// A kube client on this server, without sockets. Needs a tokio runtime.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// A kube client that names itself, so that faults and records can tell clients apart.
    #[must_use]
    pub fn client_as(&self, user_agent: &'static str) -> kube::Client {
        let name = move |mut request: http::Request<kube::client::Body>| {
            request.headers_mut().insert(
                http::header::USER_AGENT,
                http::HeaderValue::from_static(user_agent),
            );
            request
        };
        kube::Client::new(tower::util::MapRequest::new(self.clone(), name), "default")
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.clock()
    }

    /// Lets this function change every object that is created from now on, before it is validated:
    /// a mutating admission webhook.
    pub fn set_webhook(&self, webhook: Webhook) {
        self.shared.lock().webhook = Some(webhook);
    }

    /// Says what is in the log of a container.
    pub fn set_log(&self, of: LogKey, written: &[u8]) {
        self.shared.lock().logs.insert(of, written.to_owned());
    }

    /// Serves no kind of this API group any more, as where its CRDs are not installed.
    pub fn remove_group(&self, group: &str) {
        self.shared.lock().kinds.retain(|kind| kind.group != group);
    }

    /// Begins no watch with a list any more, as Kubernetes without the feature gate `WatchList`.
    pub fn stream_no_lists(&self) {
        self.shared.lock().streamed_lists = StreamedLists::Refused;
    }

    /// Ignores it where a watch is to begin with a list, as Kubernetes before 1.27.
    pub fn ignore_streamed_lists(&self) {
        self.shared.lock().streamed_lists = StreamedLists::Unknown;
    }

    /// Its faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Every request for a resource so far, in order.
    #[must_use]
    pub fn recorded(&self) -> Vec<Recorded> {
        self.records().clone()
    }

    /// Forgets the requests so far.
    pub fn forget_recorded(&self) {
        self.records().clear();
    }

    /// The revision of the latest change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.shared.lock().store.revision()
    }

    /// Forgets the history: watches and lists from older versions get 410.
    pub fn compact(&self) {
        let mut state = self.shared.lock();
        let revision = state.store.revision();
        state.store.compact(revision);
    }

    /// Goes back to what was stored at an older revision, as after a restore of etcd from a backup;
    /// whatever happens then has the next revisions. Watches that are open go on, silent until the
    /// revision is where it was.
    pub fn restore(&self, revision: u64) {
        let mut state = self.shared.lock();
        state.store.restore(revision);
        self.shared.announce(state.store.revision());
    }

    /// A stored object, past all faults and records: `resource` is `pods` or `jobs.batch`.
    #[must_use]
    pub fn peek(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.shared
            .lock()
            .store
            .get(resource, &Key::new(namespace, name))
    }

    /// All stored objects of a resource, past all faults and records.
    #[must_use]
    pub fn peek_all(&self, resource: &str) -> Vec<Arc<Value>> {
        self.shared
            .lock()
            .store
            .all(resource)
            .map(|(_, object)| object.clone())
            .collect()
    }

    pub(super) fn records(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
