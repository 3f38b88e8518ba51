//! The pods that an object describes: a Pod itself, or whatever has pod templates, of kinds that
//! nobody here knows too.

use serde::Deserialize;
use serde_json::Value;

use super::container_spec::{ContainerSpec, PodSpec};
use super::container_wire::{ContainerSpecWire, InitContainersWire, PodSpecWire};
use crate::objects::values::lenient::{Lenient, Object};

/// Templates lie at most this deep: `spec.template.spec.jobTemplate.spec.template.spec` with a list
/// of roles around it has 9 steps.
const DEPTH: usize = 12;

/// A pod, or the template of one, in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate {
    /// `kind` of the object; `?` where it has none.
    pub kind: Box<str>,
    /// `metadata.name`, or `metadata.generateName` with a `*` behind it.
    pub name: Box<str>,
    /// `metadata.namespace`
    pub namespace: Option<Box<str>>,
    /// Kind and name of the object's controller.
    pub owner: Option<(Box<str>, Box<str>)>,
    /// Where in the object the pod's spec is, for example `spec.template.spec`.
    pub place: String,
    /// Whether the containers are injected into pods that are described elsewhere (OpenKruise's
    /// SidecarSet): their main containers and restart policy are not known here.
    pub injected: bool,
    /// The pod's spec.
    pub spec: PodSpec,
}

impl PodTemplate {
    /// All pods and templates of an object, and of the items of a list. Anything else has none.
    #[must_use]
    pub fn all(object: &Value) -> Vec<Self> {
        let mut found = Vec::new();
        for item in items(object) {
            let mut specs = Vec::new();
            search(item, &mut String::new(), 0, &mut specs);
            found.extend(
                specs
                    .into_iter()
                    .map(|(place, spec)| Self::read(item, place, spec)),
            );
        }
        found
    }

    /// The containers that are marked as sidecars, that are named in `names`, or that are injected.
    pub fn sidecars<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a ContainerSpec> {
        self.spec
            .containers
            .iter()
            .filter(|container| self.is_sidecar(container, names))
    }

    /// Whether a container of this template is one of [`Self::sidecars`].
    #[must_use]
    pub fn is_sidecar(&self, container: &ContainerSpec, names: &[String]) -> bool {
        self.injected
            || container.mark.is_sidecar()
            || names.iter().any(|name| **name == *container.name)
    }

    fn read(object: &Value, place: String, spec: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(Box::<str>::from);
        let metadata = &object["metadata"];
        let generated = || {
            metadata["generateName"]
                .as_str()
                .map(|prefix| format!("{prefix}*").into())
        };
        let kind = text(&object["kind"]).unwrap_or_else(|| "?".into());
        Self {
            name: text(&metadata["name"])
                .or_else(generated)
                .unwrap_or_else(|| "?".into()),
            namespace: text(&metadata["namespace"]).filter(|namespace| !namespace.is_empty()),
            owner: owner(metadata),
            injected: &*kind == "SidecarSet",
            place,
            spec: pod_spec(spec),
            kind,
        }
    }
}

fn owner(metadata: &Value) -> Option<(Box<str>, Box<str>)> {
    let owners = metadata["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((
        controller["kind"].as_str()?.into(),
        controller["name"].as_str()?.into(),
    ))
}

/// Reads `spec` of a pod. Never fails: see [`PodSpec::malformed`].
#[must_use]
pub fn pod_spec(spec: &Value) -> PodSpec {
    let mut wire = Lenient::<Object<PodSpecWire<ContainerSpecWire>>>::deserialize(spec)
        .unwrap_or_default()
        .value
        .0;
    let init = Lenient::<Object<InitContainersWire>>::deserialize(spec)
        .unwrap_or_default()
        .value
        .0;
    let containers = std::mem::take(&mut wire.containers.value);
    wire.read().with(containers, init)
}

/// The items of a list, of lists in it too; any other object is the only item of itself.
fn items(object: &Value) -> Vec<&Value> {
    let is_list = object["kind"]
        .as_str()
        .is_none_or(|kind| kind.ends_with("List"));
    match object.get("items").and_then(Value::as_array) {
        Some(items) if is_list => items.iter().flat_map(items_of_item).collect(),
        _ => vec![object],
    }
}

/// A list in a list is as far as anybody goes.
fn items_of_item(item: &Value) -> Vec<&Value> {
    match item.get("items").and_then(Value::as_array) {
        Some(items) if item["kind"] == "List" => items.iter().collect(),
        _ => vec![item],
    }
}

/// A pod's spec is what has a list of containers under the key `spec`. A pod's spec has no other
/// one inside.
fn search<'a>(
    value: &'a Value,
    place: &mut String,
    depth: usize,
    found: &mut Vec<(String, &'a Value)>,
) {
    if depth > DEPTH {
        return;
    }
    let length = place.len();
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let dot = if place.is_empty() { "" } else { "." };
                place.extend([dot, key]);
                if key == "spec" && has_containers(member) {
                    found.push((place.clone(), member));
                } else {
                    search(member, place, depth + 1, found);
                }
                place.truncate(length);
            }
        }
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                place.push_str(&format!("[{index}]"));
                search(item, place, depth + 1, found);
                place.truncate(length);
            }
        }
        _ => {}
    }
}

fn has_containers(spec: &Value) -> bool {
    spec["containers"].as_array().is_some_and(|containers| {
        containers
            .iter()
            .any(|container| container["name"].is_string())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(object: &Value) -> Vec<String> {
        PodTemplate::all(object)
            .into_iter()
            .map(|found| found.place)
            .collect()
    }

    fn pod() -> Value {
        json!({"containers": [{"name": "a", "command": ["/bin/a"]}]})
    }

    #[test]
    fn templates_are_found_in_every_kind() {
        assert_eq!(places(&json!({"kind": "Pod", "spec": pod()})), ["spec"]);
        assert_eq!(
            places(&json!({"kind": "Job", "spec": {"template": {"spec": pod()}}})),
            ["spec.template.spec"]
        );
        assert_eq!(
            places(&json!({"kind": "PodTemplate", "template": {"spec": pod()}})),
            ["template.spec"]
        );
        let job = json!({"spec": {"template": {"spec": pod()}}});
        assert_eq!(
            places(&json!({"kind": "CronJob", "spec": {"jobTemplate": job}})),
            ["spec.jobTemplate.spec.template.spec"]
        );
        assert_eq!(
            places(
                &json!({"kind": "JobSet", "spec": {"replicatedJobs": [{"template": job}, {"template": job}]}})
            ),
            [
                "spec.replicatedJobs[0].template.spec.template.spec",
                "spec.replicatedJobs[1].template.spec.template.spec"
            ]
        );
        assert!(places(&json!({"kind": "Service", "spec": {"ports": []}})).is_empty());
        assert!(places(&json!("text")).is_empty());
    }

    #[test]
    fn lists_are_opened() {
        let list = json!({"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "p"}, "spec": pod()}, {"kind": "JobList", "items": []}]});
        let found = PodTemplate::all(&list);
        assert_eq!(
            (found.len(), &*found[0].kind, &*found[0].name),
            (1, "Pod", "p")
        );
    }

    #[test]
    fn what_has_a_wrong_type_is_named() {
        let spec = pod_spec(
            &json!({"containers": [{"name": "a", "command": "sh"}, {"name": "b", "env": [1]}, "c"]}),
        );
        let malformed: Vec<_> = spec
            .containers
            .iter()
            .map(|container| container.malformed)
            .collect();
        assert_eq!(
            malformed,
            [Some("command"), Some("env"), Some("containers[*]")]
        );
        assert_eq!(
            pod_spec(&json!({"containers": {}})).malformed,
            Some("containers")
        );
    }
}
