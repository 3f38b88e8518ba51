//! The defaults of pods and pod templates, and what default admission plugins add to pods.

use serde_json::{Map, Value, json};

use crate::apiserver::objects::json::{default, object};

/// Sets the defaults that pods and pod templates share.
pub fn pod_spec(spec: &mut Value) {
    let spec = object(spec);
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", json!({}));
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        // The older name of the same field.
        default(spec, "serviceAccount", account);
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        containers
            .into_iter()
            .flatten()
            .for_each(|one| container(object(one)));
    }
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    volumes
        .into_iter()
        .flatten()
        .for_each(|one| volume(object(one)));
}

fn container(container: &mut Map<String, Value>) {
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let policy = pull_policy(image);
    default(container, "imagePullPolicy", policy);
    default(container, "resources", json!({}));
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    items(container, "ports").for_each(|port| default(port, "protocol", "TCP"));
    items(container, "env").for_each(field_reference);
    container
        .get_mut("resources")
        .into_iter()
        .for_each(requests);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        container
            .get_mut(name)
            .into_iter()
            .for_each(|one| probe(object(one)));
    }
    for hook in container
        .get_mut("lifecycle")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        scheme(object(hook.1));
    }
}

fn items<'a>(
    map: &'a mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> + use<'a> {
    map.get_mut(list)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .map(object)
}

fn field_reference(variable: &mut Map<String, Value>) {
    let reference = variable
        .get_mut("valueFrom")
        .and_then(|from| from.get_mut("fieldRef"));
    reference
        .into_iter()
        .for_each(|one| default(object(one), "apiVersion", "v1"));
}

/// Sets missing requests to their limits.
fn requests(resources: &mut Value) {
    let limits = resources
        .get("limits")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = object(object(resources).entry("requests").or_insert(Value::Null));
    limits
        .into_iter()
        .for_each(|(name, limit)| default(requests, &name, limit));
}

fn scheme(handler: &mut Map<String, Value>) {
    handler
        .get_mut("httpGet")
        .into_iter()
        .for_each(|get| default(object(get), "scheme", "HTTP"));
}

/// Returns `Always` for the tag `latest`, also if it is only implied, else `IfNotPresent`.
fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or_default();
    let latest = !image.contains('@') && (last.ends_with(":latest") || !last.contains(':'));
    if latest { "Always" } else { "IfNotPresent" }
}

fn probe(probe: &mut Map<String, Value>) {
    scheme(probe);
    for (field, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        default(probe, field, value);
    }
}

fn volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for (source, mode) in [
        ("configMap", 420),
        ("secret", 420),
        ("projected", 420),
        ("downwardAPI", 420),
    ] {
        volume
            .get_mut(source)
            .into_iter()
            .for_each(|one| default(object(one), "defaultMode", mode));
    }
}

/// Sets the fields that only pods get: the other defaults and the additions of the admission
/// plugins that are enabled by default.
pub fn pod_only(spec: &mut Value) {
    let map = object(spec);
    default(map, "enableServiceLinks", true);
    default(map, "preemptionPolicy", "PreemptLowerPriority");
    default(map, "priority", 0);
    // The plugin for service accounts; only it sets the older name here.
    default(map, "serviceAccountName", "default");
    let account = map["serviceAccountName"].clone();
    default(map, "serviceAccount", account);
    if map
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        map.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    tolerations(spec);
    host_ports(spec);
}

/// Sets the host ports of containers on the host's network to their container ports.
pub fn host_ports(spec: &mut Value) {
    if spec["hostNetwork"] != true {
        return;
    }
    for list in ["containers", "initContainers"] {
        for container in items(object(spec), list) {
            for port in items(container, "ports") {
                let number = port.get("containerPort").cloned().unwrap_or_default();
                default(port, "hostPort", number);
            }
        }
    }
}

/// Adds the tolerations of DefaultTolerationSeconds; also on updates, so removed ones come back.
pub fn tolerations(spec: &mut Value) {
    let tolerations = object(spec)
        .entry("tolerations")
        .or_insert_with(|| json!([]));
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let Some(items) = tolerations.as_array_mut() else {
            return;
        };
        if !items.iter().any(|item| tolerates(item, key)) {
            items.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// Returns true if a toleration covers the key; only key and effect count, as in the plugin.
fn tolerates(toleration: &Value, key: &str) -> bool {
    let covers = |field: &str, value: &str| {
        matches!(toleration[field].as_str(), None | Some("")) || toleration[field] == value
    };
    covers("key", key) && covers("effect", "NoExecute")
}

/// Returns the quality of service class, from requests and limits.
pub fn qos_class(spec: &Value) -> &'static str {
    let containers: Vec<_> = ["containers", "initContainers"]
        .iter()
        .filter_map(|list| spec[*list].as_array())
        .flatten()
        .collect();
    let resources = |kind: &str| {
        let set = move |container: &&Value| {
            container["resources"][kind]
                .as_object()
                .is_some_and(|map| map.contains_key("cpu") || map.contains_key("memory"))
        };
        containers
            .iter()
            .copied()
            .filter(|container| set(container))
            .count()
    };
    if resources("limits") + resources("requests") == 0 {
        return "BestEffort";
    }
    if containers
        .iter()
        .all(|container| is_guaranteed(&container["resources"]))
    {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn is_guaranteed(resources: &Value) -> bool {
    ["cpu", "memory"].iter().all(|name| {
        let limit = &resources["limits"][*name];
        let request = &resources["requests"][*name];
        !limit.is_null() && (request.is_null() || request == limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_follows_the_tag() {
        for image in ["busybox", "a/b", "r:5000/b", "x:latest"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in [
            "busybox:1",
            "r:5000/b:2",
            "x@sha256:00",
            "x:latest@sha256:00",
        ] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }

    #[test]
    fn quality_of_service() {
        let pod = |resources: Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(qos_class(&pod(json!({}))), "BestEffort");
        assert_eq!(
            qos_class(&pod(json!({"requests": {"cpu": "1"}}))),
            "Burstable"
        );
        assert_eq!(
            qos_class(&pod(json!({"limits": {"cpu": "1", "memory": "1"}}))),
            "Guaranteed"
        );
    }
}
