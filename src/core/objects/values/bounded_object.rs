//! Objects of kinds that are known only at run time, read as JSON of bounded size.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::DynamicObject;
use serde::de::{Deserialize, Deserializer};
use serde_json::Value;

use super::bounded_value::BoundedValue;
use super::whole_object::leave_out_times;

/// An object like `kube`'s `DynamicObject`, which takes 250 bytes of memory for a byte of some
/// objects. One that would take too much memory, or whose metadata cannot be read, has no name; a
/// value that is no object has no fields.
#[derive(Clone, Debug, Default)]
pub struct BoundedObject {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// All other fields, `apiVersion` and `kind` among them.
    pub data: Value,
}

of_kind!(BoundedObject, DynamicObject);

impl From<Value> for BoundedObject {
    fn from(value: Value) -> Self {
        let Value::Object(mut members) = value else {
            return Self::default();
        };
        let mut metadata = members.remove("metadata").unwrap_or_default();
        leave_out_times(&mut metadata);
        Self {
            metadata: ObjectMeta::deserialize(metadata).unwrap_or_default(),
            data: Value::Object(members),
        }
    }
}

impl From<DynamicObject> for BoundedObject {
    fn from(DynamicObject { metadata, data, .. }: DynamicObject) -> Self {
        Self { metadata, data }
    }
}

impl<'de> Deserialize<'de> for BoundedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BoundedValue::<false>::deserialize(deserializer).map(|value| value.0.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An object that hid so would stay known after it was deleted.
    #[test]
    fn d3_no_time_in_managed_fields_hides_an_object() {
        let entry = json!({"manager": "m", "time": "9999-12-31T23:59:59Z"});
        let object = json!({"metadata": {"name": "n", "managedFields": [entry]}});
        let read: BoundedObject = serde_json::from_value(object).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("n"));
    }

    #[test]
    fn a8_an_object_is_its_metadata_and_all_else_and_one_that_is_too_large_has_no_name() {
        let object = json!({"kind": "K", "metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"images": ["a"]}});
        let read: BoundedObject = serde_json::from_value(object).unwrap();
        assert_eq!(
            (
                read.metadata.name.as_deref(),
                &read.data["spec"],
                &read.data["metadata"]
            ),
            (Some("n"), &json!({"images": ["a"]}), &Value::Null)
        );
        for strange in [
            json!({"metadata": {"name": 5}}),
            json!({"metadata": [], "spec": 1}),
            json!({}),
            json!([]),
        ] {
            assert_eq!(
                serde_json::from_value::<BoundedObject>(strange)
                    .unwrap()
                    .metadata
                    .name,
                None
            );
        }
        let large = format!(
            r#"{{"metadata": {{"name": "n"}}, "spec": [{}]}}"#,
            vec![r#"{"":0}"#; 100_000].join(",")
        );
        assert_eq!(
            serde_json::from_str::<BoundedObject>(&large)
                .unwrap()
                .metadata
                .name,
            None
        );
    }
}
