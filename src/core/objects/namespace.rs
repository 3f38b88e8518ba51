//! A namespace, reduced to its name and labels.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::values::lenient::{Lenient, Object, Texts};

/// A namespace of a list or watch. Like pods, any JSON object decodes.
#[derive(Clone, Debug)]
pub struct NamespaceWire {
    metadata: ObjectMeta,
}

of_kind!(NamespaceWire, k8s_openapi::api::core::v1::Namespace);

#[derive(Default, Deserialize)]
#[serde(default)]
struct TopWire {
    metadata: Lenient<Object<MetaWire>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Lenient<Option<Box<str>>>,
    resource_version: Lenient<Option<Box<str>>>,
    labels: Lenient<Texts>,
}

impl<'de> Deserialize<'de> for NamespaceWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let meta = TopWire::deserialize(deserializer)?.metadata.value.0;
        let text = |field: Lenient<Option<Box<str>>>| field.value.map(String::from);
        let labels = meta.labels.value.0.into_iter();
        Ok(Self {
            metadata: ObjectMeta {
                name: text(meta.name),
                resource_version: text(meta.resource_version),
                labels: Some(
                    labels
                        .map(|(key, value)| (key.into(), value.into()))
                        .collect(),
                ),
                ..ObjectMeta::default()
            },
        })
    }
}

impl NamespaceWire {
    /// Returns its name and labels; `None` if it has no name.
    #[must_use]
    pub fn read(self) -> Option<(Box<str>, BTreeMap<String, String>)> {
        let name = self.metadata.name.filter(|name| !name.is_empty())?;
        Some((name.into(), self.metadata.labels.unwrap_or_default()))
    }
}
