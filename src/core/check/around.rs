//! What stands around the containers of a pod template: what its Job allows, where its pods may
//! run, who adds to them, and what of it means nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::known::{Injection, injections};
use super::names::UnknownField;
use super::placement::Placement;
use super::rules::{self, Ruled};
use super::scripts::ConfigFiles;
use crate::objects::pod::Pod;
use crate::objects::pod::container_spec::ContainerSpec;
use crate::objects::pod::template::{Place, PodTemplate};
use crate::objects::pod::wire::PodWire;

/// The restarts that a Job allows where it does not say (`batch/v1` JobSpec).
const BACKOFF_LIMIT: u32 = 6;
/// The kinds whose template lies in the spec of a Job.
pub(super) const JOBS: [&str; 3] = ["Job", "CronJob", "JobSet"];
/// The longest name that an object can have.
const LONGEST_NAME: usize = 253;
/// No more unknown fields are told of one container.
const MOST_FIELDS: usize = 10;

/// A pod template with what stands around its containers.
#[derive(Clone, Debug)]
pub struct Described {
    /// The pods.
    pub template: PodTemplate,
    /// What counts of the Job that they are of, if they are of one.
    pub job: Option<JobLimits>,
    /// Where they may run.
    pub placement: Placement,
    /// What adds a sidecar to them.
    pub injections: Vec<Injection>,
    /// Fields that mean nothing, each with the name of its container.
    pub unknown_fields: Vec<(Box<str>, UnknownField)>,
    /// Which files of ConfigMaps their containers see.
    pub config_files: ConfigFiles,
    /// What annotations and policies say of them, once [`Described::mark`] has asked.
    pub ruled: Ruled,
    /// A pod of them, until then.
    pod: Option<PodWire>,
}

/// What counts of the spec of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// `backoffLimit`, or 6.
    pub backoff_limit: u32,
    /// Whether finished Jobs are deleted: there is a `ttlSecondsAfterFinished`.
    pub is_deleted: bool,
    /// The path of this spec, for example `spec.jobTemplate.spec`.
    pub path: Box<str>,
}

impl Described {
    /// All pods and templates of an object, and of the items of a list.
    #[must_use]
    pub fn all(object: &Value) -> Vec<Self> {
        Place::all(object).iter().map(Self::of).collect()
    }

    /// Whether a container is a sidecar: it is marked, injected, named in `names`, or by an
    /// annotation or a policy.
    #[must_use]
    pub fn is_sidecar(&self, container: &ContainerSpec, names: &[String]) -> bool {
        self.template.is_sidecar(container, names) || self.ruled.rule(&container.name).is_some()
    }

    /// Reads the annotations of the pods, and what `policies` make of them.
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
            job: JobLimits::of(place, &template.kind),
            placement: Placement::of(place.spec, &place.template["metadata"]),
            injections,
            unknown_fields: unknown_fields(place.spec),
            config_files: ConfigFiles::of(place.spec),
            template,
        }
    }
}

impl JobLimits {
    fn of(place: &Place<'_>, kind: &str) -> Option<Self> {
        let spec = place.around.filter(|_| JOBS.contains(&kind))?;
        let path = place.path.strip_suffix(".template.spec")?;
        let is_deleted = |spec: &Value| spec["ttlSecondsAfterFinished"].is_u64();
        Some(Self {
            backoff_limit: spec["backoffLimit"]
                .as_u64()
                .map_or(BACKOFF_LIMIT, |limit| limit.try_into().unwrap_or(u32::MAX)),
            // A JobSet has its own.
            is_deleted: is_deleted(spec) || is_deleted(&place.object["spec"]),
            path: path.into(),
        })
    }
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
