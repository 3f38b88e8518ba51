//! What the server holds, and the steps that reads and writes share.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::Clock;
use super::events;
use super::json::{child, object, text};
use super::kinds::{self, Kind};
use super::request::Request;
use super::status::ApiError;
use super::store::{Key, Store};
use super::typed;

/// All state of a server.
#[derive(Debug)]
pub struct State {
    /// Objects and history.
    pub store: Store,
    /// Served kinds.
    pub kinds: Vec<Arc<Kind>>,
    /// The time.
    pub clock: Clock,
    /// What each manager applied last, by storage, key and manager.
    pub applied: HashMap<(String, Key, String), Value>,
    /// Changes objects that are created, as a mutating admission webhook does.
    pub webhook: Option<Webhook>,
    random: u64,
}

/// Changes an object of this resource before it is stored.
pub type Webhook = fn(resource: &str, object: &mut Value);

impl State {
    /// A server with the usual namespaces and nothing else.
    pub fn new(clock: Clock) -> Self {
        let mut state = Self {
            store: Store::default(),
            kinds: kinds::builtin(),
            clock,
            applied: HashMap::new(),
            webhook: None,
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
        super::strategy::prepare_create(&kind, &mut namespace);
        self.stamp_new(&mut namespace);
        self.store.put("namespaces", namespace);
    }

    /// The kind of a path.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Kind>> {
        let same = |kind: &&Arc<Kind>| {
            kind.group == group && kind.version == version && kind.resource == resource
        };
        self.kinds.iter().find(same).cloned()
    }

    /// The kind in whose form objects of a storage are kept.
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

    /// Gives a new object its uid and time of creation.
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

    /// Now, as objects write it.
    pub fn now(&self) -> String {
        seconds(self.clock.now())
    }

    /// A random name suffix as the real server makes them; here the same on every run.
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

    /// The object of a request, or 404.
    pub fn current(&self, request: &Request) -> Result<Arc<Value>, ApiError> {
        let key = Key::new(&request.namespace, &request.name);
        self.store
            .get(&request.kind.storage(), &key)
            .ok_or_else(|| request.not_found())
    }
}

/// RFC 3339 with whole seconds.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A stored object as this kind shows it.
pub fn show(kind: &Kind, stored: &Arc<Value>) -> Arc<Value> {
    let version = kind.api_version();
    if kind.is_new_event() {
        return Arc::new(events::from_core(stored));
    }
    if stored["apiVersion"] == version.as_str() && stored["kind"] == kind.kind.as_str() {
        return stored.clone();
    }
    let mut shown = Value::clone(stored);
    object(&mut shown).insert("apiVersion".to_owned(), version.into());
    object(&mut shown).insert("kind".to_owned(), kind.kind.as_str().into());
    Arc::new(shown)
}

/// A body of this kind in its stored form.
pub fn decode(request: &Request, mut body: Value) -> Result<Value, DecodeError> {
    let kind = &request.kind;
    for (field, value) in [
        ("apiVersion", kind.api_version()),
        ("kind", kind.kind.clone()),
    ] {
        super::json::default(object(&mut body), field, value);
    }
    check_type(kind, &body)?;
    let decoded = typed::decode(kind, body).map_err(DecodeError::Type)?;
    if request.strict() && !decoded.unknown.is_empty() {
        let fields: Vec<_> = decoded
            .unknown
            .iter()
            .map(|field| format!("unknown field {field:?}"))
            .collect();
        return Err(DecodeError::Type(format!(
            "strict decoding error: {}",
            fields.join(", ")
        )));
    }
    let mut object = if kind.is_new_event() {
        events::to_core(&decoded.object)
    } else {
        decoded.object
    };
    if kind.is_core("events") {
        events::complete(super::json::object(&mut object));
    }
    child(&mut object, "metadata").remove("managedFields");
    Ok(object)
}

/// Why a body could not be decoded.
pub enum DecodeError {
    /// Another kind than the path says.
    Kind(String),
    /// A field of the wrong type, or an unknown one under strict validation.
    Type(String),
}

impl DecodeError {
    /// As an answer to a create or an update.
    pub fn of_body(self, kind: &Kind) -> ApiError {
        match self {
            Self::Kind(message) => ApiError::bad_request(message),
            Self::Type(why) => {
                let (name, version) = (&kind.kind, &kind.version);
                ApiError::bad_request(format!(
                    "{name} in version {version:?} cannot be handled as a {name}: {why}"
                ))
            }
        }
    }

    /// As an answer to a patch, whose result was `patched`.
    pub fn of_patch(self, patched: &Value) -> ApiError {
        let (Self::Kind(why) | Self::Type(why)) = self;
        let text = Value::from(patched.to_string());
        let error = super::status::FieldError::invalid("patch", &text, &why);
        ApiError::invalid("", "", "", &[error])
    }
}

fn check_type(kind: &Kind, body: &Value) -> Result<(), DecodeError> {
    let (version, name) = (text(body, "/apiVersion"), text(body, "/kind"));
    if version == kind.api_version() && name == kind.kind {
        return Ok(());
    }
    let (from, to) = (
        version.rsplit('/').next().unwrap_or_default(),
        kind.group.split('.').next().unwrap_or_default(),
    );
    let to = if to.is_empty() { "core" } else { to };
    let what = format!(
        "{name} in version {from:?} cannot be handled as a {0}",
        kind.kind
    );
    Err(DecodeError::Kind(format!(
        "{what}: converting ({from}.{name}) to ({to}.{}): unknown conversion",
        kind.kind
    )))
}
