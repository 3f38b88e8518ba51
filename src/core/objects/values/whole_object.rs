//! Objects that are read as a type of Kubernetes, each by itself: one that this type cannot hold
//! costs nothing but itself, not the list or watch in which it comes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

use super::bounded_value::BoundedValue;

/// An object of a list or watch, read as a `K`. Kubernetes knows times that no
/// [`jiff::Timestamp`] is as late as (9999-12-31T23:59:59Z), and keeps those that the author of an
/// object writes into its template or into `managedFields`. The times of the latter are left out,
/// because nothing reads them.
#[derive(Clone, Debug)]
pub struct WholeObject<K> {
    /// The name, namespace, uid and resourceVersion, for the list or watch.
    metadata: ObjectMeta,
    object: Option<K>,
}

impl<K> WholeObject<K> {
    /// Returns the object; `None` if it cannot be read, has no name, or would take too much memory.
    pub fn read(self) -> Option<K> {
        self.object
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for WholeObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = BoundedValue::<false>::deserialize(deserializer)?.0;
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let metadata = watched(["name", "namespace", "uid", "resourceVersion"].map(text));
        if let Some(metadata) = object.get_mut("metadata") {
            leave_out_times(metadata);
        }
        let object = K::deserialize(object).ok();
        Ok(Self {
            object: object.filter(|_| metadata.name.is_some()),
            metadata,
        })
    }
}

/// Returns the metadata for the list or watch: name, namespace, uid and resourceVersion.
pub(crate) fn watched(fields: [Option<String>; 4]) -> ObjectMeta {
    let [name, namespace, uid, resource_version] = fields;
    ObjectMeta {
        name,
        namespace,
        uid,
        resource_version,
        ..ObjectMeta::default()
    }
}

/// Removes the times of `managedFields`: they alone could make the metadata unreadable.
pub(super) fn leave_out_times(metadata: &mut Value) {
    let fields = metadata.get_mut("managedFields");
    let entries = fields.and_then(Value::as_array_mut).into_iter().flatten();
    for entry in entries.filter_map(Value::as_object_mut) {
        entry.remove("time");
    }
}

of_kind!(<K> WholeObject<K>);

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
    use kube_core::{DynamicObject, ObjectList, PartialObjectMeta, Resource};
    use serde_json::json;

    use super::*;

    /// A time that Kubernetes stores, and `jiff` cannot hold.
    const LATE: &str = "9999-12-31T23:59:59Z";

    /// Reads the objects of a list, by the name of each; `None` for those that cannot be read.
    fn listed<K: DeserializeOwned + Clone>(items: &Value) -> Vec<(Option<String>, Option<K>)> {
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
        let list: ObjectList<WholeObject<K>> = serde_json::from_str(&list.to_string()).unwrap();
        let named = |item: WholeObject<K>| (item.metadata.name.clone(), item.read());
        list.items.into_iter().map(named).collect()
    }

    #[test]
    fn d3_no_time_in_managed_fields_hides_an_object_or_those_beside_it() {
        let entry = json!({"manager": "m", "operation": "Update", "time": LATE,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:annotations": {}}}});
        let metadata = json!({"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "labels": {"a": "b"}, "managedFields": [entry]});
        let items = json!([{"metadata": metadata}, {"metadata": {"name": "q"}}]);
        let as_it_is = serde_json::from_value::<Pod>(items[0].clone());
        assert!(as_it_is.is_err(), "else this tests nothing");
        let pods = listed::<Pod>(&items);
        let pod = pods[0].1.as_ref().unwrap();
        assert_eq!(pod.metadata.labels.as_ref().unwrap()["a"], "b");
        assert_eq!(
            pod.metadata.managed_fields.as_ref().unwrap()[0]
                .manager
                .as_deref(),
            Some("m")
        );
        assert!(pods[1].1.is_some());
        let uid = |pod: &PartialObjectMeta<Pod>| pod.metadata.uid.clone();
        let partial = listed::<PartialObjectMeta<Pod>>(&items);
        assert_eq!(partial[0].1.as_ref().and_then(uid).as_deref(), Some("u"));
        let map = json!([{"metadata": metadata, "data": {"a": "1"}, "binaryData": {"b": "AAE="}}]);
        let map = listed::<ConfigMap>(&map).remove(0).1.unwrap();
        assert_eq!(map.data.unwrap()["a"], "1");
        assert_eq!(map.binary_data.unwrap()["b"].0, [0, 1]);
        let dynamic = json!([{"metadata": metadata, "spec": {"a": 1}}]);
        let dynamic = listed::<DynamicObject>(&dynamic).remove(0).1.unwrap();
        assert_eq!(dynamic.data, json!({"spec": {"a": 1}}));
    }

    #[test]
    fn d3_what_cannot_be_read_costs_itself_alone() {
        let template = json!({"metadata": {"creationTimestamp": LATE}});
        let jobs = json!([
            {"metadata": {"name": "a"}, "spec": {"template": template}},
            {"metadata": {"name": "b"}, "spec": {"template": {}}},
            {"metadata": {"uid": "u"}},
            {},
            "no object",
        ]);
        let read: Vec<_> = listed::<Job>(&jobs)
            .into_iter()
            .map(|(name, job)| (name, job.is_some()))
            .collect();
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(
            read,
            [
                (name("a"), false),
                (name("b"), true),
                (None, false),
                (None, false),
                (None, false)
            ]
        );
        let events = json!([
            {"metadata": {"name": "a"}, "involvedObject": {}, "lastTimestamp": LATE},
            {"metadata": {"name": "b"}, "involvedObject": {}, "lastTimestamp": "2026-01-01T00:00:00Z"},
        ]);
        let events = listed::<Event>(&events);
        assert_eq!(
            (events[0].1.is_some(), events[1].1.is_some()),
            (false, true)
        );
    }

    #[test]
    fn the_watch_gets_what_it_goes_on_with_and_metadata_alone_where_that_is_wanted() {
        let pod = json!({"metadata": {"name": "p", "resourceVersion": "7"}, "spec": 5});
        let pod: WholeObject<Pod> = serde_json::from_value(pod).unwrap();
        assert_eq!(pod.meta().resource_version.as_deref(), Some("7"));
        assert!(pod.read().is_none());
        assert!(<WholeObject<PartialObjectMeta<Pod>> as Resource>::metadata_api());
        assert!(!<WholeObject<Pod> as Resource>::metadata_api());
        assert_eq!(
            WholeObject::<Job>::url_path(&(), Some("ns")),
            "/apis/batch/v1/namespaces/ns/jobs"
        );
    }
}
