//! The content of an object, or of a pod's metadata: kept only as a digest or a version.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use sha2::{Digest, Sha256};

use crate::objects::values::short_digest::short_hex;

/// The bytes of a digest that are kept.
const DIGEST: usize = 16;

/// The content of an object, as it is kept and compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// The object does not exist.
    Absent,
    /// A digest of the data of a `ConfigMap` or of metadata of the pod, or the resourceVersion of a
    /// `Secret`.
    Is(Box<str>),
    /// Unknown, because a restart has failed halfway, or the object cannot be read. Differs from
    /// every other content.
    Unclear,
}

impl Content {
    /// Returns the digest of a `ConfigMap`, of its data only: editing metadata is no change.
    #[must_use]
    pub fn of(map: &ConfigMap) -> Self {
        let texts = map.data.iter().flatten();
        let texts = texts.flat_map(|(key, value)| [&b"data"[..], key.as_bytes(), value.as_bytes()]);
        let binary = map.binary_data.iter().flatten();
        let binary = binary.flat_map(|(key, value)| [&b"binaryData"[..], key.as_bytes(), &value.0]);
        Self::digest(texts.chain(binary))
    }

    /// Returns the digest of labels and annotations of the pod, given as `fieldPath` and value.
    #[must_use]
    pub fn of_metadata(fields: &BTreeMap<&str, &str>) -> Self {
        let fields = fields.iter();
        Self::digest(fields.flat_map(|(path, value)| [path.as_bytes(), value.as_bytes()]))
    }

    fn digest<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        Self::Is(short_hex(&digest.finalize(), DIGEST).into())
    }

    /// Returns the form in which it is stored; empty for `Absent`.
    #[must_use]
    pub fn as_text(&self) -> &str {
        match self {
            Self::Absent => "",
            Self::Is(text) => text,
            Self::Unclear => "?",
        }
    }

    /// Parses the stored form.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        match text {
            "" => Self::Absent,
            "?" => Self::Unclear,
            text => Self::Is(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn the_content_of_a_config_map_is_its_data() {
        let map = |data: &[(&str, &str)], binary: &[(&str, &str)]| ConfigMap {
            data: Some(
                data.iter()
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect(),
            ),
            binary_data: Some(
                binary
                    .iter()
                    .map(|(key, value)| (key.to_string(), ByteString(value.as_bytes().to_vec())))
                    .collect(),
            ),
            ..ConfigMap::default()
        };
        let first = map(&[("a", "bc")], &[]);
        let mut edited = first.clone();
        edited.metadata.annotations = Some(BTreeMap::from([("x".to_owned(), "y".to_owned())]));
        edited.metadata.resource_version = Some("7".to_owned());
        assert_eq!(
            Content::of(&first),
            Content::of(&edited),
            "an edit of the metadata changes nothing"
        );
        let none = ConfigMap::default();
        assert_eq!(Content::of(&none), Content::of(&map(&[], &[])));
        let others = [
            map(&[("ab", "c")], &[]),
            map(&[], &[("a", "bc")]),
            map(&[("a", "bd")], &[]),
            none,
        ];
        assert!(
            others
                .iter()
                .all(|other| Content::of(other) != Content::of(&first))
        );
    }

    #[test]
    fn contents_are_read_as_they_were_stored() {
        for content in [Content::Absent, Content::Unclear, Content::Is("42".into())] {
            assert_eq!(Content::from_text(content.as_text()), content);
        }
    }
}
