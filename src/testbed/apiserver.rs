//! An API server in memory, under the real kube client as a service or on a loopback port for
//! `kubectl`.
//!
//! It keeps to the real server (1.34) in what clients of swaplet can observe: codes, reasons and
//! details of errors, the rules of pod and status updates, versions, watches, patches, deletion.
//!
//! What it does **not** do:
//!
//! * No authentication, authorization, policies, quotas, priority and fairness; of webhooks only
//!   one function at creation ([`ApiServer::set_webhook`]). Of the built-in admission only what
//!   changes pods: default tolerations, priority, namespace life cycle.
//! * JSON only: of protobuf no more than `kubectl create namespace`, `configmap` and `serviceaccount` send, no
//!   YAML bodies, no compression, no aggregated discovery, an empty OpenAPI v2, no schemas of types. So there is no
//!   `kubectl explain`, and no `kubectl create deployment x` and the like (415); `create -f` works.
//! * Of the schema of a CRD nothing is enforced, no defaults, no conversion beyond `apiVersion`;
//!   printer columns know simple paths.
//! * Server-side apply merges and removes what the same manager applied before; it knows no
//!   ownership, so no conflicts, and writes no `managedFields`. Lists of custom resources are
//!   replaced whole.
//! * Validation covers names, labels, containers, images, mounts, policies, jobs and events; other
//!   rules are missing. The diff in the refusal of a pod update lists changed paths. Of the types,
//!   fields newer than 1.33 are unknown and dropped.
//! * Zero values that the real types leave out may stay if a client sends them (`hostNetwork:
//!   false`).
//! * Only jobs have a controller (in this testbed), and nodes none: no leases expire, no pod is
//!   evicted, services get no address, service accounts no token, and pods no token volume.
//!   Deployments, disruption budgets and the like are stored and nothing else.
//! * The garbage collector works within the request that makes garbage; it never looks for owners
//!   that never existed.
//! * No logs, exec, attach, port-forward, proxy, eviction, scale, resize, ephemeral containers,
//!   token requests.
//! * `continue` tokens and resource versions are its own: one counter for everything, dense, from
//!   1.

mod apply;
mod delete;
mod discovery;
mod events;
mod faults;
mod http;
mod json;
mod kinds;
mod print_pod;
mod protobuf;
mod read;
mod record;
mod request;
mod selector;
mod serve;
mod state;
mod status;
mod store;
mod strategic;
mod strategy;
mod table;
mod typed;
mod view;
mod watch;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::Clock;
use state::State;
use store::Key;

pub use faults::{Effect, Faults, Reply, Rule, RuleId};
pub use http::ResponseBody;
pub use kinds::{Columns, Kind};
pub use record::Recorded;
pub use request::Verb;
pub use state::Webhook;

/// What all handles of one server share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    clock: Clock,
    faults: Faults,
    recorded: Mutex<Vec<Recorded>>,
    revisions: tokio::sync::watch::Sender<u64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not spread through the lock: every change of the state is complete
        // in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells watches that something may have changed.
    fn announce(&self, revision: u64) {
        self.revisions
            .send_if_modified(|known| std::mem::replace(known, revision) != revision);
    }
}

/// A server; clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

impl ApiServer {
    /// An empty server (but for the usual namespaces) that lives by this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let state = State::new(clock);
        let revisions = tokio::sync::watch::Sender::new(state.store.revision());
        let shared = Shared {
            state: Mutex::new(state),
            clock,
            faults: Faults::default(),
            recorded: Mutex::default(),
            revisions,
        };
        Self {
            shared: Arc::new(shared),
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
        let name = move |mut request: ::http::Request<kube::client::Body>| {
            request.headers_mut().insert(
                ::http::header::USER_AGENT,
                ::http::HeaderValue::from_static(user_agent),
            );
            request
        };
        kube::Client::new(tower::util::MapRequest::new(self.clone(), name), "default")
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Lets this function change every object that is created from now on, before it is validated:
    /// a mutating admission webhook.
    pub fn set_webhook(&self, webhook: Webhook) {
        self.shared.lock().webhook = Some(webhook);
    }

    /// Serves no kind of this API group any more, as where its CRDs are not installed.
    pub fn remove_group(&self, group: &str) {
        self.shared.lock().kinds.retain(|kind| kind.group != group);
    }

    /// Its faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
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

    fn records(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.shared
            .recorded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
