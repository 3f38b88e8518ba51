//! Construction of new requests.

use serde_json::{Value, json};

use super::{ACTIVE, NODE_NAME, POD_UID};
use crate::objects::recreate_request::{GROUP, KIND, VERSION};
use crate::objects::values::short_digest::short_digest;

/// The most characters of a pod's name that are used in the name of its request.
const MOST_OF_A_NAME: usize = 220;
/// Bytes of the digest in the name: enough that no two requests of a pod collide.
const DIGEST: usize = 5;

/// The pod that a request is for.
#[derive(Clone, Copy, Debug)]
pub struct RequestedPod<'a> {
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The name of the pod.
    pub name: &'a str,
    /// The uid of the pod.
    pub uid: &'a str,
    /// The name of the pod's node.
    pub node: &'a str,
}

/// Returns a name for a request: the pod's name, cut if necessary, `word`, and a digest of `what`.
#[must_use]
pub fn request_name(pod: &str, word: &str, what: &str) -> String {
    let name: String = pod.chars().take(MOST_OF_A_NAME).collect();
    format!(
        "{}-{word}-{}",
        name.trim_end_matches(['-', '.']),
        short_digest(what, DIGEST)
    )
}

/// Builds a request for a pod, with the labels that OpenKruise's webhook sets. So it applies to
/// this pod and to no later one of the same name, and it is garbage-collected with the pod.
#[must_use]
pub fn new_request<'a>(
    name: &str,
    pod: RequestedPod<'_>,
    containers: impl Iterator<Item = &'a str>,
) -> Value {
    let containers: Vec<_> = containers
        .map(|container| json!({"name": container}))
        .collect();
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": KIND,
        "metadata": {
            "namespace": pod.namespace,
            "name": name,
            "labels": {POD_UID: pod.uid, NODE_NAME: pod.node, ACTIVE: "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
        },
        "spec": {"podName": pod.name, "containers": containers},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_requests_are_valid_and_differ_with_what_they_are_for() {
        assert_eq!(
            request_name("web-0", "restart", "1 a"),
            request_name("web-0", "restart", "1 a")
        );
        assert_ne!(
            request_name("web-0", "restart", "1 a"),
            request_name("web-0", "restart", "2 a")
        );
        let long = format!("{}.{}", "x".repeat(219), "y".repeat(30));
        let name = request_name(&long, "restart-on", "1 a");
        assert!(
            name.len() <= 253 && name.starts_with(&format!("{}-restart-on-", "x".repeat(219))),
            "{name}"
        );
    }
}
