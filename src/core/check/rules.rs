//! The rules from annotations and SidecarPolicies for the containers of a template, as for the pods
//! that are made of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::known::Injection;
use crate::cluster::owner;
use crate::objects::pod::template::{Place, PodTemplate};
use crate::objects::pod::wire::PodWire;
use crate::objects::pod::{Pod, RestartPolicy, SidecarRule};

/// The labels of a pod.
type Labels = BTreeMap<String, String>;

/// A placeholder for names and uids that are not read.
const ANY: &str = "-";

/// The containers that are sidecars by a rule, besides those that their variables mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruled {
    /// The rules by container name; one that is injected later may be among them.
    pub rules: BTreeMap<Box<str>, Arc<SidecarRule>>,
    /// The first rule of a policy that would leave no main container, and does not count.
    pub refused: Option<Arc<SidecarRule>>,
    /// The problem with an annotation, if any.
    pub problem: Option<Box<str>>,
    /// A description of the owner of the pods, other than a Job, that counts their restarts.
    pub counted_by: Option<String>,
}

impl Ruled {
    /// Returns the rule for a container, if any.
    pub fn rule(&self, container: &str) -> Option<&Arc<SidecarRule>> {
        self.rules.get(container)
    }

    pub(super) fn of(pod: PodWire, mark: impl FnOnce(&mut Pod, &Labels)) -> Self {
        let Some(pod) = pod.read_with(mark) else {
            return Self::default();
        };
        let rules = pod.containers.iter().filter_map(|container| {
            let rule = container.rule.clone()?;
            Some((container.name.clone(), rule))
        });
        Self {
            counted_by: owner::counting(&pod),
            rules: rules.collect(),
            refused: pod.refused_policy,
            problem: pod.annotation_problem,
        }
    }
}

/// Builds a pod from a template, with the containers that are injected into it, or with the names
/// of its own if they cannot be read; `None` if another object describes the pods.
pub(super) fn pod(
    place: &Place<'_>,
    template: &PodTemplate,
    injections: &[Injection],
) -> Option<PodWire> {
    if template.injected {
        return None;
    }
    let metadata = &place.template["metadata"];
    let mut containers = place.spec["containers"].clone();
    if let Value::Array(list) = &mut containers {
        let is_new = |name: &str| {
            let mut there = template.spec.containers.iter();
            !there.any(|container| *container.name == *name)
        };
        let names = injections.iter().map(|injection| injection.container);
        let injected = names.filter(|name| is_new(name));
        list.extend(injected.map(|name| json!({"name": name})));
    }
    let policy = template.spec.restart_policy.as_ref();
    let policy = policy.unwrap_or(&RestartPolicy::Never).as_str();
    let mut pod = json!({
        "metadata": {
            "name": ANY, "namespace": ANY, "uid": ANY,
            "labels": metadata["labels"],
            "annotations": metadata["annotations"],
            "ownerReferences": owners(place, template),
        },
        "spec": {"restartPolicy": policy, "containers": containers},
    });
    let read = PodWire::deserialize(&pod);
    let of_names = |_| {
        let names = template.spec.containers.iter();
        pod["spec"]["containers"] = names.map(|one| json!({"name": one.name})).collect();
        PodWire::deserialize(&pod)
    };
    read.or_else(of_names).ok()
}

/// Returns the owner references that the controllers of Kubernetes would set.
fn owners(place: &Place<'_>, template: &PodTemplate) -> Value {
    let owner = |version: &Value, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": ANY, "uid": ANY, "controller": true}]);
    let kind = &*template.kind;
    match kind {
        "Pod" => place.object["metadata"]["ownerReferences"].clone(),
        "PodTemplate" => Value::Null,
        "Deployment" => owner(&"apps/v1".into(), "ReplicaSet"),
        _ if place.is_of_job() || place.is_launcher() => owner(&"batch/v1".into(), "Job"),
        _ if place.path.contains("broadcastJobTemplate.") => {
            owner(&place.object["apiVersion"], "BroadcastJob")
        }
        _ => owner(&place.object["apiVersion"], kind),
    }
}
