//! The whole state of a server, and the steps that reads and writes share.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::objects::json::{child, text};
use crate::apiserver::objects::kinds::{self, Kind};
use crate::apiserver::objects::log::LogKey;
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::request::Request;
use crate::apiserver::storage::store::{Key, Store};
use crate::apiserver::strategy;
use crate::clock::Clock;

/// The whole state of a server.
#[derive(Debug)]
pub struct State {
    /// The objects and their history.
    pub store: Store,
    /// The served kinds.
    pub kinds: Vec<Arc<Kind>>,
    /// The clock of the server.
    pub clock: Clock,
    /// The last applied object of each manager, by storage, key and manager.
    pub applied: HashMap<(String, Key, String), Value>,
    /// A function that changes new objects, like a mutating admission webhook.
    pub webhook: Option<Webhook>,
    /// A function that changes what others change, like a mutating admission webhook.
    pub update_webhook: Option<UpdateWebhook>,
    /// The handling of watches that begin with a list.
    pub streamed_lists: StreamedLists,
    /// The logs that were set.
    pub logs: HashMap<LogKey, Vec<u8>>,
    random: u64,
}

/// The handling of a watch that begins with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamedLists {
    /// The list is sent, and a bookmark ends it.
    Served,
    /// The watch is refused, as without the feature gate `WatchList`.
    Refused,
    /// The parameter is ignored, as before Kubernetes 1.27 or by a proxy that drops it: the watch
    /// begins with all objects, and no bookmark marks their end.
    Unknown,
}

/// A function that changes an object of this resource before it is stored.
pub type Webhook = fn(resource: &str, object: &mut Value);

/// A function that is given an object of this resource as it was, and changes what it is to become.
pub type UpdateWebhook = fn(resource: &str, old: &Value, new: &mut Value);

impl State {
    /// Returns a server with only the usual namespaces.
    pub fn new(clock: Clock) -> Self {
        let mut state = Self {
            store: Store::default(),
            kinds: kinds::builtin(),
            clock,
            applied: HashMap::new(),
            webhook: None,
            update_webhook: None,
            streamed_lists: StreamedLists::Served,
            logs: HashMap::new(),
            random: 0,
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            state.add_namespace(name);
        }
        state
    }

    fn add_namespace(&mut self, name: &str) {
        let mut namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let Some(kind) = self.find("", "v1", "namespaces") else {
            return;
        };
        strategy::prepare_create(&kind, &mut namespace);
        self.stamp_new(&mut namespace);
        self.store.put("namespaces", namespace);
    }

    /// Returns the kind of a path; `None` if it is not served.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Kind>> {
        let same = |kind: &&Arc<Kind>| {
            kind.group == group && kind.version == version && kind.resource == resource
        };
        self.kinds.iter().find(same).cloned()
    }

    /// Returns the kind in whose form objects of a storage are kept.
    pub fn stored_kind(&self, storage: &str) -> Option<Arc<Kind>> {
        self.kinds
            .iter()
            .find(|kind| kind.storage() == storage && !kind.is_new_event())
            .cloned()
    }

    /// Adds the kinds of a CRD, replacing older ones of the same name.
    pub fn serve_crd(&mut self, crd: &Value) {
        let fresh = kinds::from_crd(crd);
        let (group, resource) = (text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
        self.kinds
            .retain(|kind| kind.group != group || kind.resource != resource);
        self.kinds.extend(fresh);
    }

    /// Sets uid and creation time of a new object.
    pub fn stamp_new(&mut self, new: &mut Value) {
        let (uid, now) = (self.uid(), self.now());
        let metadata = child(new, "metadata");
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), now.into());
        for field in [
            "resourceVersion",
            "managedFields",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "generation",
        ] {
            metadata.remove(field);
        }
    }

    /// Returns the current time in the format of objects.
    pub fn now(&self) -> String {
        seconds(self.clock.now())
    }

    /// Returns a random name suffix like those of the real server; deterministic here.
    pub fn suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next();
        let mut pick = || {
            let index = usize::try_from(bits % ALPHABET.len() as u64).unwrap_or_default();
            bits /= ALPHABET.len() as u64;
            char::from(ALPHABET[index])
        };
        (0..5).map(|_| pick()).collect()
    }

    fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }

    /// splitmix64: deterministic and well mixed, which is all that ids need here.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the object of a request, or 404.
    pub fn current(&self, request: &Request) -> Result<Arc<Value>, ApiError> {
        let key = Key::new(&request.namespace, &request.name);
        self.store
            .get(&request.kind.storage(), &key)
            .ok_or_else(|| request.not_found())
    }
}

/// Formats a time by RFC 3339, in whole seconds.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
