//! The handle of a server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::faults::Faults;
use super::objects::log::LogKey;
use super::request::record::Recorded;
use super::storage::shared::Shared;
use super::storage::state::{StreamedLists, UpdateWebhook, Webhook};
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
    /// Returns a server with only the usual namespaces that runs on this clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            shared: Arc::new(Shared::new(clock)),
            faults: Faults::default(),
            recorded: Arc::default(),
        }
    }

    /// Returns a kube client for this server, without sockets. Needs a tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Returns a kube client with this user agent, which faults and records can refer to.
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

    /// Returns its clock.
    pub fn clock(&self) -> Clock {
        self.shared.clock()
    }

    /// Sets a function that changes every object created from now on, before it is validated, like
    /// a mutating admission webhook.
    pub fn set_webhook(&self, webhook: Webhook) {
        self.shared.lock().webhook = Some(webhook);
    }

    /// Sets a function that changes each update and patch from now on, before it is validated, like
    /// a mutating admission webhook; `None` ends that.
    pub fn set_update_webhook(&self, webhook: Option<UpdateWebhook>) {
        self.shared.lock().update_webhook = webhook;
    }

    /// Sets the log of a container.
    pub fn set_log(&self, of: LogKey, written: &[u8]) {
        self.shared.lock().logs.insert(of, written.to_owned());
    }

    /// Stops serving an API group, as if its CRDs were not installed.
    pub fn remove_group(&self, group: &str) {
        self.shared.lock().kinds.retain(|kind| kind.group != group);
    }

    /// Refuses watches that begin with a list, as without the feature gate `WatchList`.
    pub fn stream_no_lists(&self) {
        self.shared.lock().streamed_lists = StreamedLists::Refused;
    }

    /// Ignores the parameter for watches that begin with a list, like Kubernetes before 1.27.
    pub fn ignore_streamed_lists(&self) {
        self.shared.lock().streamed_lists = StreamedLists::Unknown;
    }

    /// Returns its faults.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns every request for a resource so far, in order.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.records().clone()
    }

    /// Forgets the requests so far.
    pub fn forget_recorded(&self) {
        self.records().clear();
    }

    /// Returns the revision of the latest change.
    pub fn revision(&self) -> u64 {
        self.shared.lock().store.revision()
    }

    /// Forgets the history: watches and lists from older versions get 410.
    pub fn compact(&self) {
        let mut state = self.shared.lock();
        let revision = state.store.revision();
        state.store.compact(revision);
    }

    /// Restores the objects of an older revision, like a restore of etcd from a backup; later
    /// changes get the next revisions. Open watches stay open, and are silent until the revision is
    /// where it was.
    pub fn restore(&self, revision: u64) {
        let mut state = self.shared.lock();
        state.store.restore(revision);
        self.shared.announce(state.store.revision());
    }

    /// Returns a stored object, bypassing faults and records: `resource` is `pods` or `jobs.batch`.
    pub fn peek(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.shared
            .lock()
            .store
            .get(resource, &Key::new(namespace, name))
    }

    /// Returns all stored objects of a resource, bypassing faults and records.
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
