//! Deletion: grace, finalizers, and the garbage collector, which here works within the request.

use std::sync::Arc;

use serde_json::{Value, json};

use super::checks::is_released;
use crate::apiserver::objects::json::{child, int, list, text};
use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::objects::status::{self, ApiError};
use crate::apiserver::request::Request;
use crate::apiserver::storage::state::{State, seconds};
use crate::apiserver::storage::store::Key;
use crate::apiserver::strategy;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The options of a delete.
#[derive(Clone, Debug, Default)]
struct Options {
    grace: Option<i64>,
    uid: String,
    version: String,
    propagation: String,
    dry_run: bool,
}

impl Options {
    fn of(request: &Request) -> Result<Self, ApiError> {
        let body = request.json()?;
        let text = |name: &str| match text(&body, &format!("/{name}")) {
            "" => request.query.get(name).to_owned(),
            text => text.to_owned(),
        };
        let orphan = body["orphanDependents"] == true || request.query.flag("orphanDependents");
        let propagation = text("propagationPolicy");
        Ok(Self {
            grace: int(&body, "/gracePeriodSeconds").or(request
                .query
                .number("gracePeriodSeconds")?
                .and_then(|seconds| i64::try_from(seconds).ok())),
            uid: self::text(&body, "/preconditions/uid").to_owned(),
            version: self::text(&body, "/preconditions/resourceVersion").to_owned(),
            propagation: if propagation.is_empty() && orphan {
                "Orphan".to_owned()
            } else {
                propagation
            },
            dry_run: request.dry_run() || body["dryRun"].is_array(),
        })
    }
}

impl State {
    /// Handles the DELETE of one object.
    pub fn delete(&mut self, request: &Request) -> Result<Arc<Value>, ApiError> {
        let options = Options::of(request)?;
        let old = self.current(request)?;
        check_preconditions(&request.kind, &options, &old)?;
        Ok(self.delete_object(&request.kind.clone(), &old, &options))
    }

    /// Handles the DELETE of all objects that a selector matches; returns their last states.
    pub fn delete_all(
        &mut self,
        request: &Request,
        objects: Vec<Arc<Value>>,
    ) -> Result<Vec<Arc<Value>>, ApiError> {
        let options = Options::of(request)?;
        for object in &objects {
            self.delete_object(&request.kind.clone(), object, &options);
        }
        Ok(objects)
    }

    fn delete_object(&mut self, kind: &Kind, old: &Arc<Value>, options: &Options) -> Arc<Value> {
        let storage = kind.storage();
        let mut new = Value::clone(old);
        if kind.is_core("namespaces") {
            return self.delete_namespace(old);
        }
        set_propagation(kind, &mut new, &options.propagation);
        if !self.mark(kind, &mut new, old, options) {
            return old.clone();
        }
        if options.dry_run {
            return if is_released(&new) && !kind.is_core("pods") {
                gone(kind, old)
            } else {
                Arc::new(new)
            };
        }
        if is_released(&new) {
            return self.finish(kind, old, new);
        }
        let stored = self.store.put(&storage, new);
        self.collect_garbage(&storage, &Key::of(&stored));
        stored
    }

    /// Completes a deletion that nothing holds up. As on the real server, watches show a pod as
    /// deleting before it goes.
    fn finish(&mut self, kind: &Kind, old: &Arc<Value>, new: Value) -> Arc<Value> {
        if !kind.is_core("pods") {
            self.remove(&kind.storage(), Value::clone(old));
            return gone(kind, old);
        }
        let marked = self.store.put("pods", new);
        self.remove("pods", Value::clone(&marked))
    }

    /// Sets deletion time and grace; returns false if nothing is left to do.
    fn mark(&self, kind: &Kind, new: &mut Value, old: &Value, options: &Options) -> bool {
        let pending = int(old, "/metadata/deletionGracePeriodSeconds")
            .filter(|_| old["metadata"].get("deletionTimestamp").is_some());
        let now = self.clock.now();
        let (end, grace) = match pending {
            Some(before) => {
                // The grace period of a deletion in progress can only become shorter.
                let asked = options.grace.map(|asked| if asked < 0 { 1 } else { asked });
                let Some(asked) = asked.filter(|asked| *asked < before) else {
                    return new != old;
                };
                shortened(old, before, asked, now)
            }
            None => {
                if let Some(generation) = int(old, "/metadata/generation") {
                    child(new, "metadata").insert("generation".to_owned(), (generation + 1).into());
                }
                let grace = if kind.is_core("pods") {
                    strategy::graceful_period(old, options.grace)
                } else {
                    0
                };
                (later(now, grace), grace)
            }
        };
        let metadata = child(new, "metadata");
        metadata.insert("deletionTimestamp".to_owned(), seconds(end).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        true
    }

    /// Removes an object from the store, and its dependents by garbage collection.
    pub fn remove(&mut self, storage: &str, last: Value) -> Arc<Value> {
        let removed = self.store.remove(storage, last);
        let uid = text(&removed, "/metadata/uid").to_owned();
        for (storage, key) in self.store.dependents(&uid) {
            self.orphaned(&storage, &key, &uid);
        }
        for owner in list(&removed, "/metadata/ownerReferences") {
            if let Some((storage, key)) = self.store.by_uid(text(owner, "/uid")) {
                self.collect_garbage(&storage, &key);
            }
        }
        self.finish_namespace(text(&removed, "/metadata/namespace"));
        removed
    }

    /// Handles a missing owner: the dependent is deleted, unless another owner exists.
    fn orphaned(&mut self, storage: &str, key: &Key, uid: &str) {
        let (Some(kind), Some(object)) = (self.stored_kind(storage), self.store.get(storage, key))
        else {
            return;
        };
        let alive = list(&object, "/metadata/ownerReferences")
            .iter()
            .any(|owner| self.store.by_uid(text(owner, "/uid")).is_some());
        if alive {
            self.drop_owner(storage, &object, uid);
        } else {
            let options = Options {
                propagation: "Background".to_owned(),
                ..Options::default()
            };
            self.delete_object(&kind, &object, &options);
        }
    }

    fn drop_owner(&mut self, storage: &str, object: &Value, uid: &str) {
        let mut new = object.clone();
        if let Some(owners) = new
            .pointer_mut("/metadata/ownerReferences")
            .and_then(Value::as_array_mut)
        {
            owners.retain(|owner| text(owner, "/uid") != uid);
        }
        if list(&new, "/metadata/ownerReferences").is_empty() {
            child(&mut new, "metadata").remove("ownerReferences");
        }
        self.store.put(storage, new);
    }

    /// Processes the two finalizers of the garbage collector.
    pub fn collect_garbage(&mut self, storage: &str, key: &Key) {
        let Some(object) = self
            .store
            .get(storage, key)
            .filter(|object| object["metadata"].get("deletionTimestamp").is_some())
        else {
            return;
        };
        let uid = text(&object, "/metadata/uid").to_owned();
        if has_finalizer(&object, ORPHAN) {
            for (storage, key) in self.store.dependents(&uid) {
                self.store
                    .get(&storage, &key)
                    .into_iter()
                    .for_each(|dependent| self.drop_owner(&storage, &dependent, &uid));
            }
            self.release(storage, key, ORPHAN);
        } else if has_finalizer(&object, FOREGROUND) && !self.blocked(&uid) {
            self.release(storage, key, FOREGROUND);
        }
    }

    /// Deletes the dependents; returns true while one is left that blocks the owner's deletion.
    fn blocked(&mut self, uid: &str) -> bool {
        for (storage, key) in self.store.dependents(uid) {
            let (Some(kind), Some(object)) =
                (self.stored_kind(&storage), self.store.get(&storage, &key))
            else {
                continue;
            };
            if object["metadata"].get("deletionTimestamp").is_none() {
                let options = Options {
                    propagation: "Foreground".to_owned(),
                    ..Options::default()
                };
                self.delete_object(&kind, &object, &options);
            }
        }
        let blocks =
            |owner: &Value| text(owner, "/uid") == uid && owner["blockOwnerDeletion"] == true;
        let left = self.store.dependents(uid);
        let mut left = left
            .iter()
            .filter_map(|(storage, key)| self.store.get(storage, key));
        left.any(|object| {
            list(&object, "/metadata/ownerReferences")
                .iter()
                .any(blocks)
        })
    }

    fn release(&mut self, storage: &str, key: &Key, finalizer: &str) {
        let Some(object) = self.store.get(storage, key) else {
            return;
        };
        let mut new = Value::clone(&object);
        remove_finalizer(&mut new, finalizer);
        if is_released(&new) {
            self.remove(storage, Value::clone(&object));
        } else {
            self.store.put(storage, new);
        }
    }

    fn delete_namespace(&mut self, old: &Arc<Value>) -> Arc<Value> {
        let mut new = Value::clone(old);
        let now = self.now();
        child(&mut new, "metadata").insert("deletionTimestamp".to_owned(), now.into());
        child(&mut new, "status").insert("phase".to_owned(), "Terminating".into());
        let stored = self.store.put("namespaces", new);
        let name = text(old, "/metadata/name").to_owned();
        let inside: Vec<_> = self
            .store
            .everything()
            .filter(|(_, key)| key.namespace == name)
            .map(|(storage, key)| (storage.clone(), key.clone()))
            .collect();
        for (storage, key) in inside {
            if let (Some(kind), Some(object)) =
                (self.stored_kind(&storage), self.store.get(&storage, &key))
            {
                let options = Options {
                    propagation: "Background".to_owned(),
                    ..Options::default()
                };
                self.delete_object(&kind, &object, &options);
            }
        }
        self.finish_namespace(&name);
        stored
    }

    /// Removes a terminating namespace once it is empty.
    fn finish_namespace(&mut self, name: &str) {
        let Some(namespace) = self.store.get("namespaces", &Key::new("", name)) else {
            return;
        };
        let terminating = namespace["metadata"].get("deletionTimestamp").is_some();
        if terminating
            && !self
                .store
                .everything()
                .any(|(_, key)| key.namespace == name)
        {
            self.store.remove("namespaces", Value::clone(&namespace));
        }
    }
}

fn gone(kind: &Kind, old: &Value) -> Arc<Value> {
    let (name, uid) = (text(old, "/metadata/name"), text(old, "/metadata/uid"));
    Arc::new(status::deleted(&kind.group, &kind.resource, name, uid))
}

fn check_preconditions(kind: &Kind, options: &Options, old: &Value) -> Result<(), ApiError> {
    let (uid, version, name) = (
        text(old, "/metadata/uid"),
        text(old, "/metadata/resourceVersion"),
        text(old, "/metadata/name"),
    );
    let conflict = |what: &str, asked: &str, is: &str, then: &str| {
        let why = format!(
            "the {what} in the precondition ({asked}) does not match the {what} in record ({is}). The object might have been {then}"
        );
        Err(ApiError::conflict(
            kind.storage_group(),
            &kind.kind,
            name,
            &why,
        ))
    };
    if !options.uid.is_empty() && options.uid != uid {
        return conflict("UID", &options.uid, uid, "deleted and then recreated");
    }
    if !options.version.is_empty() && options.version != version {
        return conflict("ResourceVersion", &options.version, version, "modified");
    }
    Ok(())
}

/// Sets the garbage collector's finalizers for a propagation policy.
fn set_propagation(kind: &Kind, object: &mut Value, policy: &str) {
    let wanted = match policy {
        "Foreground" => Some(FOREGROUND),
        "Orphan" => Some(ORPHAN),
        // The default of batch/v1 jobs, for the sake of very old clients.
        "" if kind.is_job() => Some(ORPHAN),
        "" => return,
        _ => None,
    };
    remove_finalizer(object, FOREGROUND);
    remove_finalizer(object, ORPHAN);
    let Some(wanted) = wanted else { return };
    let finalizers = child(object, "metadata")
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    finalizers
        .as_array_mut()
        .into_iter()
        .for_each(|finalizers| finalizers.push(wanted.into()));
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    list(object, "/metadata/finalizers")
        .iter()
        .any(|one| one == finalizer)
}

fn remove_finalizer(object: &mut Value, finalizer: &str) {
    let metadata = child(object, "metadata");
    if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|one| one != finalizer);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        }
    }
}

/// Returns the end of a deletion in progress after a shorter grace period, and that period: never
/// in the past, and never zero unless requested (`apiserver/pkg/registry/rest/delete.go`).
fn shortened(old: &Value, before: i64, asked: i64, now: jiff::Timestamp) -> (jiff::Timestamp, i64) {
    let end = text(old, "/metadata/deletionTimestamp")
        .parse()
        .unwrap_or(now);
    let end = later(end, asked - before);
    if end < now {
        (now, asked.min(1))
    } else {
        (end, asked)
    }
}

fn later(time: jiff::Timestamp, seconds: i64) -> jiff::Timestamp {
    time.checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(jiff::Timestamp::MAX)
}
