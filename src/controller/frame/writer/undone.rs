//! Compares what the API server has stored with what was sent, for every patch: a mutating webhook
//! may have set all of it back. Then the write had no effect, and counts as denied. A webhook that
//! has stored something else (another name of an image) has had an effect, which the loops see in
//! the object.

use serde_json::{Map, Value};
use swaplet_core::objects::values::bounded_value::BoundedValue;
use swaplet_core::objects::values::bounds::cut;
use swaplet_core::report::denial::UNDONE;

/// The longest value that is quoted, in bytes.
const QUOTED: usize = 200;
/// The fields that only say which object, or which entry of a list, is meant.
const KEYS: [&str; 2] = ["uid", "resourceVersion"];
/// What all finalizers contain that are ever removed.
const OPENKRUISES: &str = "kruise.io/";
/// What comes before the name of an item of a list, where it is not meant by its position.
const NAMED: char = '=';

/// A change of an image: the name of the container, its image before, and the one that was sent.
pub(crate) type Change<'a> = (&'a str, &'a str, &'a str);

/// Returns the message for a patch of which nothing was stored; `None` if anything was, or if that
/// cannot be told. `images` are the changes of images in a patch that may change more, or does not
/// say what was there before: these alone count then.
pub(crate) fn undone(sent: &[u8], images: &[Change<'_>], stored: &[u8]) -> Option<String> {
    let mut sent: Value = serde_json::from_slice(sent).ok()?;
    let mut before = Value::Null;
    if !images.is_empty() {
        (sent, before) = of_images(images);
    } else if sent.is_array() {
        (sent, before) = as_objects(&sent);
    }
    let BoundedValue(stored) = serde_json::from_slice::<BoundedValue>(stored).ok()?;
    // One that would take too much memory is empty.
    stored.as_object().filter(|fields| !fields.is_empty())?;
    let mut found = Found::default();
    found.compare("", &sent, &before, &stored);
    found.change.filter(|_| !found.is_stored)
}

/// Returns what a JSON patch writes, and what it tests to be there before, as objects.
fn as_objects(patch: &Value) -> (Value, Value) {
    let (mut sent, mut before) = (Value::Null, Value::Null);
    for operation in patch.as_array().into_iter().flatten() {
        let (path, value) = (operation["path"].as_str(), &operation["value"]);
        let object = match operation["op"].as_str() {
            Some("test") => &mut before,
            Some("replace" | "add") => &mut sent,
            _ => continue,
        };
        put(object, path.unwrap_or_default().split('/').skip(1), value);
    }
    (sent, before)
}

/// The same for changes of images, by the names of their containers.
fn of_images(changes: &[Change<'_>]) -> (Value, Value) {
    let (mut sent, mut before) = (Value::Null, Value::Null);
    for (name, from, to) in changes {
        let name = format!("{NAMED}{name}");
        for list in ["containers", "initContainers"] {
            let path = || ["spec", list, &name, "image"].into_iter();
            put(&mut sent, path(), &Value::from(*to));
            put(&mut before, path(), &Value::from(*from));
        }
    }
    (sent, before)
}

fn put<'a>(object: &mut Value, path: impl Iterator<Item = &'a str>, value: &Value) {
    let mut place = object;
    for part in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[part.replace("~1", "/").replace("~0", "~").as_str()];
    }
    value.clone_into(place);
}

#[derive(Default)]
struct Found {
    /// True if a value was stored as it was sent, or as something new.
    is_stored: bool,
    /// The first value that was not stored.
    change: Option<String>,
}

impl Found {
    fn compare(&mut self, path: &str, sent: &Value, before: &Value, stored: &Value) {
        if let Value::Object(fields) = sent {
            for (field, sent) in fields {
                if !KEYS.contains(&field.as_str()) {
                    let path = format!("{path}.{}", field.trim_start_matches(NAMED));
                    self.compare(&path, sent, &before[field], member(stored, field));
                }
            }
            // Where a bare value is, no field can be told to be missing.
            self.is_stored |=
                matches!(stored, Value::Bool(_) | Value::Number(_) | Value::String(_));
            return;
        }
        // Of which of its lists a container is is not known.
        if !before.is_null() && stored.is_null() {
            return;
        }
        if has(stored, sent) || !before.is_null() && before != stored {
            self.is_stored = true;
            return;
        }
        self.change.get_or_insert_with(|| {
            let shown = |value: &Value| match value {
                Value::Null => "nothing".to_owned(),
                Value::String(text) => cut(text, QUOTED),
                other => cut(&other.to_string(), QUOTED),
            };
            let (path, stored, sent) = (&path[1..], shown(stored), shown(sent));
            format!("{UNDONE}: {path} is {stored}, where {sent} was written")
        });
    }
}

/// Returns a field of an object, or an item of a list by its position or name.
fn member<'a>(of: &'a Value, field: &str) -> &'a Value {
    let Value::Array(items) = of else {
        return &of[field];
    };
    let found = match field.strip_prefix(NAMED) {
        Some(name) => items.iter().find(|item| item["name"] == name),
        None => field.parse().ok().and_then(|at: usize| items.get(at)),
    };
    found.unwrap_or(&Value::Null)
}

/// Returns true if the stored value has all that was sent. It may have more, as others add to it, but
/// for a finalizer of OpenKruise, which was to be removed.
fn has(stored: &Value, sent: &Value) -> bool {
    match (sent, stored) {
        (Value::Array(sent), Value::Array(stored)) => {
            let is_stored = |sent| stored.iter().any(|stored| has(stored, sent));
            let is_left = |stored: &Value| {
                let text = stored.as_str().unwrap_or_default();
                text.contains(OPENKRUISES) && !sent.contains(stored)
            };
            sent.iter().all(is_stored) && !stored.iter().any(is_left)
        }
        (Value::Object(sent), Value::Object(_)) => {
            let mut sent = sent.iter();
            sent.all(|(field, sent)| has(&stored[field], sent))
        }
        _ => sent == stored || is_nothing(sent) && is_nothing(stored),
    }
}

/// Returns true for a value that the API server leaves out.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(sent: &Value, stored: &Value) -> Option<String> {
        undone(
            sent.to_string().as_bytes(),
            &[],
            stored.to_string().as_bytes(),
        )
    }

    fn pod(images: [&str; 2]) -> Value {
        let containers = images.map(|image| json!({"name": "c", "image": image, "env": [{}]}));
        json!({"kind": "Pod", "metadata": {"uid": "u", "labels": {}}, "spec": {"containers": containers}, "status": []})
    }

    #[test]
    fn a_json_patch_is_undone_where_all_that_it_changes_is_as_it_was_before() {
        let image = |op: &str, index: usize, image: &str| json!({"op": op, "path": format!("/spec/containers/{index}/image"), "value": image});
        let uid = json!({"op": "test", "path": "/metadata/uid", "value": "u"});
        let one = json!([uid, image("test", 1, "a:1"), image("replace", 1, "a:2")]);
        assert_eq!(
            words(&one, &pod(["x", "a:1"])).as_deref(),
            Some(
                "a webhook of the cluster has undone the change: spec.containers.1.image is a:1, where a:2 was written"
            )
        );
        assert_eq!(words(&one, &pod(["a:1", "a:2"])), None);
        assert_eq!(
            words(&one, &pod(["x", "mirror/a:2"])),
            None,
            "it has another name"
        );
        let both = json!([
            image("test", 0, "x:1"),
            image("replace", 0, "x:2"),
            image("test", 1, "a:1"),
            image("replace", 1, "a:2")
        ]);
        assert_eq!(words(&both, &pod(["x:2", "a:1"])), None, "one of the two");
        assert!(words(&both, &pod(["x:1", "a:1"])).is_some());
    }

    #[test]
    fn of_a_patch_that_changes_images_and_more_the_images_count() {
        let change = ("c", "a:1", "park:1");
        let sent = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "park:1"}]}});
        let found = |image: &str| {
            let mut pod = pod([image, "x"]);
            pod["spec"]["containers"][1]["name"] = json!("other");
            pod["metadata"]["annotations"] = json!({"a": "b"});
            let (sent, pod) = (sent.to_string(), pod.to_string());
            undone(sent.as_bytes(), &[change], pod.as_bytes()).is_some()
        };
        assert!(found("a:1") && !found("park:1") && !found("mirror/park:1"));
    }

    #[test]
    fn any_other_patch_is_undone_where_nothing_of_it_is_stored() {
        let sent = json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {"a/b": "x", "gone": null}}});
        let with = |annotations: Value| json!({"metadata": {"uid": "u", "resourceVersion": "8", "annotations": annotations}});
        assert!(words(&sent, &with(json!({"gone": "1"}))).is_some());
        for stored in [json!({"a/b": "x", "gone": "1"}), json!({}), json!(null)] {
            assert_eq!(words(&sent, &with(stored.clone())), None, "{stored}");
        }
        let status = json!({"status": {"phase": "Recreating", "message": "", "observedGeneration": 3, "states": [{"name": "a"}]}});
        assert_eq!(words(&status, &json!({"status": {"phase": "x"}})), None);
        let full =
            |phase: &str| json!({"status": {"phase": phase, "message": "m", "states": [{}]}});
        assert_eq!(words(&status, &full("Recreating")), None);
        assert!(words(&status, &full("Pending")).is_some());
    }

    #[test]
    fn u40_a_list_from_which_nothing_was_taken_is_not_stored() {
        let with = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
        for (sent, before, other) in [
            (json!([]), json!(["a.kruise.io/b"]), json!([])),
            (json!(["a"]), json!(["a", "a.kruise.io/b"]), json!(["a"])),
            (
                json!(["a"]),
                json!(["a.kruise.io/b"]),
                json!(["a", "a webhook's"]),
            ),
        ] {
            let sent = with(sent);
            assert!(words(&sent, &with(before)).is_some());
            assert_eq!(words(&sent, &with(other)), None);
        }
        assert_eq!(words(&with(json!([])), &json!({"metadata": {}})), None);
        let conditions = |types: &[&str]| {
            let of = |of: &&str| json!({"type": of, "status": "True"});
            json!({"status": {"conditions": types.iter().map(of).collect::<Vec<_>>()}})
        };
        let (sent, stored) = (conditions(&["a"]), conditions(&["a", "b"]));
        assert_eq!(words(&sent, &stored), None, "it was merged");
    }

    #[test]
    fn what_says_nothing_of_the_object_proves_nothing() {
        let sent = json!({"metadata": {"uid": "u"}});
        assert_eq!(words(&sent, &json!({})), None, "nothing was to be changed");
        let sent = json!({"status": {"phase": "Recreating"}});
        for strange in ["", "ok", "[", "[]", "3", "{\"status\":3}", "null"] {
            let found = undone(sent.to_string().as_bytes(), &[], strange.as_bytes());
            assert!(found.is_none() || strange == "[]", "{strange}: {found:?}");
        }
    }
}
