//! The surroundings of a pod template's containers: what its Job allows, where its pods may run,
//! what injects containers, and which fields are unknown.

use std::collections::BTreeMap;

use serde_json::Value;

use super::annotations;
use super::known::{Injection, injections};
use super::names::UnknownField;
use super::placement::Placement;
use super::rules::{self, Ruled};
use super::scripts::ConfigFiles;
use crate::objects::pod::Pod;
use crate::objects::pod::container_spec::ContainerSpec;
use crate::objects::pod::template::{OF_JOB_SET, Place, PodTemplate};
use crate::objects::pod::wire::PodWire;

/// The default `backoffLimit` of a Job (`batch/v1` JobSpec).
const BACKOFF_LIMIT: u32 = 6;
/// The longest name that an object can have, in bytes.
const LONGEST_NAME: usize = 253;
/// The most pull secrets that are named.
const MOST_SECRETS: usize = 10;
/// The most unknown fields that are reported of one container.
const MOST_FIELDS: usize = 10;

/// A pod template with the surroundings of its containers.
#[derive(Clone, Debug)]
pub struct Described {
    /// The template of the pods.
    pub template: PodTemplate,
    /// The limits of their Job; `None` if they have none.
    pub job: Option<JobLimits>,
    /// True if the object is a Job that has ended: it makes no more pods.
    pub has_ended: bool,
    /// The nodes that the pods may run on.
    pub placement: Placement,
    /// The Secrets that `imagePullSecrets` names, by which its images are pulled.
    pub pull_secrets: Vec<Box<str>>,
    /// The labels and annotations that have sidecars injected.
    pub injections: Vec<Injection>,
    /// The annotations of swaplet that nothing reads, each with the fix.
    pub annotation_problems: Vec<String>,
    /// The unknown fields, each with the name of its container.
    pub unknown_fields: Vec<(Box<str>, UnknownField)>,
    /// The files of ConfigMaps that the containers mount.
    pub config_files: ConfigFiles,
    /// The rules from annotations and policies, once [`Described::mark`] was called.
    pub ruled: Ruled,
    /// A pod made of the template, until then.
    pod: Option<PodWire>,
}

/// The limits in the spec of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// `backoffLimit`, or 6.
    pub backoff_limit: u32,
    /// True if finished Jobs are deleted: there is a `ttlSecondsAfterFinished`.
    pub is_deleted: bool,
    /// True if a finished Job may be deleted before its JobSet has ended, which then makes it again.
    pub is_made_again: bool,
    /// The path of this spec, for example `spec.jobTemplate.spec`.
    pub path: Box<str>,
    /// The path of the spec whose `ttlSecondsAfterFinished` is to be set: this one, or that of the
    /// JobSet.
    pub deleted_by: Box<str>,
}

impl Described {
    /// Describes all pods and templates of an object, and of the items of a list.
    pub fn all(object: &Value) -> Vec<Self> {
        Place::all(object).iter().map(Self::of).collect()
    }

    /// Returns true if a container is a sidecar: it is marked, injected, named in `names`, or by an
    /// annotation or a policy.
    pub fn is_sidecar(&self, container: &ContainerSpec, names: &[String]) -> bool {
        self.template.is_sidecar(container, names) || self.ruled.rule(&container.name).is_some()
    }

    /// Applies the annotations of the pods and `policies`. Only the first call has an effect.
    pub fn mark(&mut self, policies: impl FnOnce(&mut Pod, &BTreeMap<String, String>)) {
        let Some(pod) = self.pod.take() else {
            return;
        };
        let namespace = self.template.namespace.clone().unwrap_or_default();
        self.ruled = Ruled::of(pod, |pod, labels| {
            pod.namespace = namespace;
            policies(pod, labels);
        });
    }

    fn of(place: &Place<'_>) -> Self {
        let template = place.read();
        let injections = injections(&[&place.template["metadata"], &place.object["metadata"]]);
        Self {
            pod: rules::pod(place, &template, &injections),
            ruled: Ruled::default(),
            job: JobLimits::of(place),
            has_ended: has_ended(place.object),
            pull_secrets: pull_secrets(place.spec),
            placement: Placement::of(place.spec, &place.template["metadata"]),
            injections,
            annotation_problems: annotations::problems(place),
            unknown_fields: unknown_fields(place.spec),
            config_files: ConfigFiles::of(place.spec),
            template,
        }
    }
}

impl JobLimits {
    fn of(place: &Place<'_>) -> Option<Self> {
        let spec = place.around.filter(|_| place.is_of_job())?;
        let path = place.path.strip_suffix(".template.spec")?;
        let has_time = |spec: &Value| spec["ttlSecondsAfterFinished"].is_u64();
        let set = path.rsplit_once(OF_JOB_SET).map(|(set, _)| set);
        let of_object = &place.object["spec"];
        let is_deleted = match set {
            // A TrainingRuntime has the template of a JobSet.
            Some(_) => has_time(of_object) || has_time(&of_object["template"]["spec"]),
            None => has_time(spec),
        };
        Some(Self {
            backoff_limit: spec["backoffLimit"]
                .as_u64()
                .map_or(BACKOFF_LIMIT, |limit| limit.try_into().unwrap_or(u32::MAX)),
            is_deleted,
            is_made_again: set.is_some() && has_time(spec),
            path: path.into(),
            deleted_by: set.unwrap_or(path).into(),
        })
    }
}

/// Returns true if the status of a Job says that it has ended.
fn has_ended(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let is_end = |condition: &Value| {
        condition["status"] == "True"
            && (condition["type"] == "Complete" || condition["type"] == "Failed")
    };
    job["kind"] == "Job" && conditions.into_iter().any(is_end)
}

fn pull_secrets(spec: &Value) -> Vec<Box<str>> {
    let secrets = spec["imagePullSecrets"].as_array().into_iter().flatten();
    let names = secrets.filter_map(|secret| secret["name"].as_str());
    let whole = names.filter(|name| name.len() <= LONGEST_NAME);
    whole.take(MOST_SECRETS).map(Into::into).collect()
}

fn unknown_fields(spec: &Value) -> Vec<(Box<str>, UnknownField)> {
    let containers = spec["containers"].as_array().into_iter().flatten();
    let of_container = |container: &Value| {
        let name = container["name"].as_str().unwrap_or("?");
        let name: Box<str> = name[..name.floor_char_boundary(LONGEST_NAME)].into();
        let fields = container.as_object().into_iter().flatten();
        let unknown = fields.filter_map(|(field, _)| UnknownField::of(field));
        unknown
            .take(MOST_FIELDS)
            .map(|field| (name.clone(), field))
            .collect::<Vec<_>>()
    };
    containers.flat_map(of_container).collect()
}
