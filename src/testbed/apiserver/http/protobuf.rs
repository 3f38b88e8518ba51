//! Decodes the protobuf bodies that `kubectl create namespace`, `configmap` and `serviceaccount`
//! send, as far as these commands fill them in. Bodies with more content are refused.

use hyper::body::Bytes;
use serde_json::{Map, Value, json};

/// The first bytes of every such body (Kubernetes: `runtime/serializer/protobuf`).
const MAGIC: &[u8] = b"k8s\0";
/// The wire types of a field.
const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// Returns the body as JSON; `None` if it has content that is not decoded here.
pub(super) fn as_json(body: &Bytes) -> Option<Bytes> {
    let envelope = fields(body.strip_prefix(MAGIC)?)?;
    let kind = fields(bytes_of(&envelope, 1)?)?;
    let raw = fields(bytes_of(&envelope, 2)?)?;
    let (api_version, kind) = (text(&kind, 1)?, text(&kind, 2)?);
    // Besides the metadata: fields that clients leave to the server, and data.
    let read: &[u64] = match (&*api_version, &*kind) {
        ("v1", "Namespace") => &[1, 2, 3],
        ("v1", "ConfigMap") => &[1, 2],
        ("v1", "ServiceAccount") => &[1],
        _ => return None,
    };
    if raw.iter().any(|(number, _)| !read.contains(number)) {
        return None;
    }
    let metadata = metadata(&fields(bytes_of(&raw, 1)?)?)?;
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    if kind == "ConfigMap" {
        object["data"] = map(&raw, 2)?;
    }
    Some(object.to_string().into())
}

/// Returns names, labels and annotations; empty values are left out.
fn metadata(fields: &[(u64, &[u8])]) -> Option<Value> {
    let mut metadata = Map::new();
    for (number, name) in [(1, "name"), (2, "generateName"), (3, "namespace")] {
        match text(fields, number) {
            Some(value) if !value.is_empty() => metadata.insert(name.to_owned(), value.into()),
            _ => None,
        };
    }
    for (number, name) in [(11, "labels"), (12, "annotations")] {
        metadata.insert(name.to_owned(), map(fields, number)?);
    }
    Some(metadata.into())
}

fn map(fields: &[(u64, &[u8])], number: u64) -> Option<Value> {
    let entries = fields.iter().filter(|(found, _)| *found == number);
    let entry = |(_, bytes): &(u64, &[u8])| {
        let entry = self::fields(bytes)?;
        Some((text(&entry, 1)?, Value::from(text(&entry, 2)?)))
    };
    let entries: Option<Map<String, Value>> = entries.map(entry).collect();
    Some(entries?.into())
}

fn bytes_of<'a>(fields: &[(u64, &'a [u8])], number: u64) -> Option<&'a [u8]> {
    let found = fields.iter().find(|(found, _)| *found == number);
    found.map(|(_, bytes)| *bytes)
}

fn text(fields: &[(u64, &[u8])], number: u64) -> Option<String> {
    let bytes = bytes_of(fields, number)?;
    Some(std::str::from_utf8(bytes).ok()?.to_owned())
}

/// Returns the length-delimited fields of a message, with their numbers.
fn fields(mut message: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        match key & 7 {
            VARINT => {
                varint(&mut message)?;
            }
            BYTES => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                fields.push((key >> 3, bytes));
                message = rest;
            }
            _ => return None,
        }
    }
    Some(fields)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubectl 1.32 sends it.
    const NAMESPACE: &[u8] = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\x19\n\x11\n\x01x\x12\0\x1a\0\"\0*\x002\08\0B\0\x12\0\x1a\x02\n\0\x1a\0\"\0";
    const CONFIG_MAP: &[u8] = b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x1b\n\x11\n\x01c\x12\0\x1a\0\"\0*\x002\08\0B\0\x12\x06\n\x01a\x12\x01b\x1a\0\"\0";

    fn read(body: &'static [u8]) -> Option<Value> {
        let json = as_json(&Bytes::from_static(body))?;
        Some(serde_json::from_slice(&json).unwrap())
    }

    #[test]
    fn a17_bodies_of_kubectl_create_are_read() {
        assert_eq!(read(NAMESPACE).unwrap()["metadata"]["name"], "x");
        assert_eq!(read(CONFIG_MAP).unwrap()["data"], json!({"a": "b"}));
    }

    #[test]
    fn what_is_cut_or_more_than_is_read_is_not_taken() {
        for end in 0..NAMESPACE.len() {
            // A message that ends between two fields is one with fewer of them.
            if let Some(object) = read(&NAMESPACE[..end]) {
                assert_eq!(object["kind"], "Namespace");
            }
        }
        let deployment = b"k8s\0\n\x15\n\x07apps/v1\x12\nDeployment\x12\x05\n\x03\n\x01d";
        assert_eq!(read(deployment), None);
        assert_eq!(read(b"{}"), None);
    }
}
