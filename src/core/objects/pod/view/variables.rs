//! The decoder of environment variables.

use serde::Deserialize;

use super::SourceView;
use crate::objects::pod::container_spec::{EnvValue, EnvVar};
use crate::objects::values::bounds;
use crate::objects::values::env::{Entry, Hidden};
use crate::objects::values::lenient::{Lenient, Member, Object, Text};

/// One of `env`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VariableView {
    name: Text,
    value: Lenient<Option<Hidden>, { bounds::ARGUMENT }>,
    pub value_from: Member<ValueFromView>,
}

/// `valueFrom`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ValueFromView {
    pub config_map_key_ref: Member<SourceView>,
    pub secret_key_ref: Member<SourceView>,
    pub field_ref: Lenient<Object<FieldView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FieldView {
    pub field_path: Text,
}

/// One of `envFrom`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvFromView {
    pub config_map_ref: Member<SourceView>,
    pub secret_ref: Member<SourceView>,
}

impl VariableView {
    pub(super) fn malformed(entry: &Lenient<Object<Self>>) -> bool {
        let fields = &entry.value.0;
        let is_long = fields
            .value
            .value
            .as_ref()
            .is_some_and(|value| value.is_too_long);
        entry.malformed
            || fields.name.value.is_none()
            || fields.value.malformed
            || is_long
            || fields.value_from.malformed
    }

    pub(super) fn entry(&self) -> Entry<'_> {
        Entry {
            name: self.name.value.as_deref().unwrap_or_default(),
            value: self
                .value
                .value
                .as_ref()
                .map(Hidden::expose)
                .unwrap_or_default(),
            is_malformed: self.value.malformed,
            is_reference: self.value_from.value.is_some() || self.value_from.malformed,
        }
    }

    /// Reads the variable: as in the kubelet, a value that is not empty outranks the reference.
    pub(super) fn read(self) -> EnvVar {
        let name = self.name.value.unwrap_or_default();
        let value = match (
            self.value
                .value
                .map(Hidden::open)
                .filter(|value| !value.is_empty()),
            self.value_from.value,
        ) {
            (None, Some(source)) => EnvValue::Reference {
                required: source.is_required(),
            },
            (value, _) => EnvValue::Literal(value.unwrap_or_default()),
        };
        EnvVar { name, value }
    }
}

fn is_required(references: [&Member<SourceView>; 2]) -> bool {
    references
        .iter()
        .filter_map(|member| member.value.as_ref())
        .any(|reference| reference.optional.value != Some(true))
}

impl ValueFromView {
    pub(super) fn is_required(&self) -> bool {
        is_required([&self.config_map_key_ref, &self.secret_key_ref])
    }
}

impl EnvFromView {
    pub(super) fn is_required(&self) -> bool {
        is_required([&self.config_map_ref, &self.secret_ref])
    }
}
