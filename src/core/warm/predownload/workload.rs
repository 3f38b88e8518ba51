//! Deployments, StatefulSets and OpenKruise's CloneSets, reduced to what pre-download needs: which
//! pods are theirs, which images they are to have, and what the annotations ask for.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::ApiResource;
use serde::Deserialize;

use crate::objects::recreate_request::{GROUP, VERSION};
use crate::objects::values::bounded_object::BoundedObject;
use crate::objects::values::bounds::{self, cut};

/// The annotation that asks for pre-download, with the value `true`.
pub const PREDOWNLOAD: &str = "swaplet.io/predownload";
/// OpenKruise's annotation for how many nodes may pull at a time: a number, or a percentage.
pub const PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
/// OpenKruise's annotation for how long one try may take, in seconds.
pub const TIMEOUT: &str = "apps.kruise.io/image-predownload-timeout-seconds";

/// The kinds of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// `apps/v1`
    Deployment,
    /// `apps/v1`
    StatefulSet,
    /// `apps.kruise.io/v1alpha1`
    CloneSet,
}

impl WorkloadKind {
    /// The kind, as in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::CloneSet => "CloneSet",
        }
    }

    /// The API version in which it is read.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet => "apps/v1",
            Self::CloneSet => "apps.kruise.io/v1alpha1",
        }
    }

    /// What the client has to know of CloneSets.
    #[must_use]
    pub fn clone_sets() -> ApiResource {
        ApiResource {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            api_version: Self::CloneSet.api_version().to_owned(),
            kind: Self::CloneSet.as_str().to_owned(),
            plural: "clonesets".to_owned(),
        }
    }

    /// The label by which its pods of one template are told from those of another.
    #[must_use]
    pub const fn revision_label(self) -> &'static str {
        match self {
            Self::Deployment => "pod-template-hash",
            Self::StatefulSet | Self::CloneSet => "controller-revision-hash",
        }
    }
}

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Which of the kinds it is.
    pub kind: WorkloadKind,
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// What the annotations ask for: nothing, this, or what cannot be done, with the name of the
    /// annotation and the fix.
    pub wish: Result<Option<Wish>, String>,
    /// `spec.selector`
    pub selector: LabelSelector,
    /// The image of each container of the template by its name, init containers too.
    pub images: BTreeMap<Box<str>, Box<str>>,
    /// `spec.template.spec.imagePullSecrets`
    pub pull_secrets: Vec<Box<str>>,
}

/// How images are to be pre-downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How many nodes may pull at a time, as OpenKruise's jobs have it.
    pub parallelism: IntOrString,
    /// How long one try may take.
    pub timeout_seconds: u32,
}

impl Workload {
    /// Reads a Deployment. `None` where it has no name, namespace, uid or spec.
    #[must_use]
    pub fn of_deployment(deployment: Deployment) -> Option<Self> {
        let spec = deployment.spec?;
        Self::of(
            WorkloadKind::Deployment,
            deployment.metadata,
            spec.selector,
            spec.template,
        )
    }

    /// Reads a StatefulSet. `None` where it has no name, namespace, uid or spec.
    #[must_use]
    pub fn of_stateful_set(set: StatefulSet) -> Option<Self> {
        let spec = set.spec?;
        Self::of(
            WorkloadKind::StatefulSet,
            set.metadata,
            spec.selector,
            spec.template,
        )
    }

    /// Reads a CloneSet. `None` where it has no name, namespace, uid or usable spec.
    #[must_use]
    pub fn of_clone_set(set: BoundedObject) -> Option<Self> {
        let BoundedObject { metadata, mut data } = set;
        let spec = CloneSetSpecWire::deserialize(data["spec"].take()).ok()?;
        Self::of(
            WorkloadKind::CloneSet,
            metadata,
            spec.selector,
            spec.template,
        )
    }

    fn of(
        kind: WorkloadKind,
        metadata: ObjectMeta,
        selector: LabelSelector,
        template: PodTemplateSpec,
    ) -> Option<Self> {
        let pod = template.spec.unwrap_or_default();
        let containers = pod
            .init_containers
            .unwrap_or_default()
            .into_iter()
            .chain(pod.containers)
            .take(bounds::ITEMS);
        let images = containers
            .filter_map(|container| {
                Some((
                    container.name.into(),
                    container.image.filter(|image| is_short(image))?.into(),
                ))
            })
            .collect();
        let secrets = pod.image_pull_secrets.unwrap_or_default().into_iter();
        Some(Self {
            kind,
            namespace: metadata.namespace?.into(),
            name: metadata.name?.into(),
            uid: metadata.uid?.into(),
            wish: Wish::read(&metadata.annotations.unwrap_or_default())
                .map_err(|error| cut(&error, bounds::MESSAGE)),
            selector,
            images,
            pull_secrets: secrets
                .map(|secret| secret.name)
                .filter(|name| !name.is_empty() && is_short(name))
                .take(bounds::ITEMS)
                .map(Into::into)
                .collect(),
        })
    }
}

/// No longer than anything can be that is pulled.
fn is_short(text: &str) -> bool {
    text.len() <= bounds::TEXT
}

#[derive(Deserialize)]
struct CloneSetSpecWire {
    selector: LabelSelector,
    template: PodTemplateSpec,
}

impl Wish {
    /// The defaults are OpenKruise's.
    fn read(annotations: &BTreeMap<String, String>) -> Result<Option<Self>, String> {
        let text = |name: &str| annotations.get(name).map(String::as_str);
        match text(PREDOWNLOAD) {
            None | Some("false") => return Ok(None),
            Some("true") => (),
            Some(other) => {
                return Err(format!(
                    "annotation {PREDOWNLOAD} is {other:?}: write \"true\", or remove it"
                ));
            }
        }
        let timeout_seconds = match text(TIMEOUT) {
            None => 300,
            Some(seconds) => seconds
                .parse()
                .ok()
                .filter(|seconds| *seconds > 0 && *seconds <= i32::MAX.unsigned_abs())
                .ok_or_else(|| format!("annotation {TIMEOUT} is {seconds:?}: write a number of seconds above 0, such as \"300\""))?,
        };
        Ok(Some(Self {
            parallelism: parallelism(text(PARALLELISM).unwrap_or("1"))?,
            timeout_seconds,
        }))
    }
}

fn parallelism(text: &str) -> Result<IntOrString, String> {
    let wrong = || {
        format!(
            "annotation {PARALLELISM} is {text:?}: write a number of nodes, such as \"5\", or a percentage, such as \"20%\""
        )
    };
    match text.strip_suffix('%') {
        Some(percent) => percent
            .parse()
            .ok()
            .filter(|percent: &u8| *percent <= 100)
            .map(|_| IntOrString::String(text.to_owned())),
        None => text
            .parse()
            .ok()
            .filter(|nodes| *nodes >= 0)
            .map(IntOrString::Int),
    }
    .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wish(annotations: &[(&str, &str)]) -> Result<Option<Wish>, String> {
        Wish::read(
            &annotations
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn nobody_asks_unless_the_annotation_says_true() {
        assert_eq!(wish(&[]), Ok(None));
        assert_eq!(wish(&[(PREDOWNLOAD, "false"), (TIMEOUT, "x")]), Ok(None));
        assert!(
            wish(&[(PREDOWNLOAD, "yes")])
                .unwrap_err()
                .contains("is \"yes\": write \"true\"")
        );
    }

    #[test]
    fn limits_are_openkruises_and_a_wrong_one_is_named() {
        let one = Wish {
            parallelism: IntOrString::Int(1),
            timeout_seconds: 300,
        };
        assert_eq!(wish(&[(PREDOWNLOAD, "true")]), Ok(Some(one)));
        let some = Wish {
            parallelism: IntOrString::String("20%".to_owned()),
            timeout_seconds: 60,
        };
        assert_eq!(
            wish(&[(PREDOWNLOAD, "true"), (PARALLELISM, "20%"), (TIMEOUT, "60")]),
            Ok(Some(some))
        );
        for (name, value) in [
            (PARALLELISM, "-1"),
            (PARALLELISM, "101%"),
            (PARALLELISM, "many"),
            (TIMEOUT, "0"),
            (TIMEOUT, "1m"),
        ] {
            let wrong = wish(&[(PREDOWNLOAD, "true"), (name, value)]).unwrap_err();
            assert!(
                wrong.contains(name) && wrong.contains(value) && wrong.contains("write"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_stateful_set_is_read() {
        let set = json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u"},
            "spec": {"serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {
                "imagePullSecrets": [{"name": "login"}],
                "initContainers": [{"name": "init", "image": "i:1"}], "containers": [{"name": "main", "image": "m:1"}, {"name": "bare"}],
            }}},
        });
        let read = Workload::of_stateful_set(serde_json::from_value(set).unwrap()).unwrap();
        assert_eq!(
            (read.kind.as_str(), &*read.name, &read.pull_secrets[..]),
            ("StatefulSet", "web", &["login".into()][..])
        );
        assert_eq!(
            read.images,
            BTreeMap::from([("init".into(), "i:1".into()), ("main".into(), "m:1".into())])
        );
        assert_eq!(read.wish, Ok(None));
    }
}
