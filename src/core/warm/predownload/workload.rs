//! Deployments, StatefulSets and OpenKruise's CloneSets, reduced to what pre-download needs: their
//! pods, the images of their template, and what their annotations request.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::objects::item::{FromView, Item, View};
use crate::objects::pod::view::SpecView;
use crate::objects::recreate_request::{GROUP, VERSION};
use crate::objects::values::amount::Amount;
use crate::objects::values::bounded_object::BoundedObject;
use crate::objects::values::bounded_value::BoundedValue;
use crate::objects::values::bounds::{self, cut};
use crate::objects::values::label_selector::{bounded, not_one};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::{ApiResource, GroupVersionKind, Resource};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The annotation that requests pre-download, with the value `true`.
pub const PREDOWNLOAD: &str = "swaplet.io/predownload";
/// OpenKruise's annotation for how many nodes may pull at a time: a number or a percentage.
pub const PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
/// OpenKruise's annotation for how long one try may take, in seconds.
pub const TIMEOUT: &str = "apps.kruise.io/image-predownload-timeout-seconds";

/// The kinds of workloads that can request pre-download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
pub enum WorkloadKind {
    /// A Deployment of `apps/v1`.
    Deployment,
    /// A StatefulSet of `apps/v1`.
    StatefulSet,
    /// A CloneSet of `apps.kruise.io/v1alpha1`.
    CloneSet,
}

impl WorkloadKind {
    /// Returns the kind as manifests spell it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the API version in which the kind is read.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet => "apps/v1",
            Self::CloneSet => "apps.kruise.io/v1alpha1",
        }
    }

    /// Returns the API resource of CloneSets, for the client.
    pub fn clone_sets() -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, VERSION, Self::CloneSet.as_str());
        ApiResource::from_gvk_with_plural(&kind, "clonesets")
    }

    /// Returns the label that distinguishes the pods of one template from those of another.
    pub const fn revision_label(self) -> &'static str {
        match self {
            Self::Deployment => "pod-template-hash",
            Self::StatefulSet | Self::CloneSet => "controller-revision-hash",
        }
    }
}

/// A workload, reduced to what pre-download needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The kind of the workload.
    pub kind: WorkloadKind,
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// What the annotations request: `None` for nothing, or an error that names the annotation and
    /// the fix.
    pub wish: Result<Option<Wish>, String>,
    /// `spec.selector`, or an error that names the problem and the fix.
    pub selector: Result<LabelSelector, String>,
    /// The image of each container of the template by its name, including init containers.
    pub images: BTreeMap<Box<str>, Box<str>>,
    /// `spec.template.spec.imagePullSecrets`
    pub pull_secrets: Vec<Box<str>>,
    /// True if all its pods are of the present template, whatever their images are called.
    pub is_updated: bool,
}

/// How images are to be pre-downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How many nodes may pull at a time, in the form that OpenKruise's jobs use.
    pub parallelism: IntOrString,
    /// How long one try may take, in seconds.
    pub timeout_seconds: u32,
}

/// A kind of which workloads are.
pub trait IsWorkload: Resource {
    /// The kind that is read.
    const KIND: WorkloadKind;
}

impl IsWorkload for Deployment {
    const KIND: WorkloadKind = WorkloadKind::Deployment;
}

impl IsWorkload for StatefulSet {
    const KIND: WorkloadKind = WorkloadKind::StatefulSet;
}

/// CloneSets are known at run time only.
impl IsWorkload for BoundedObject {
    const KIND: WorkloadKind = WorkloadKind::CloneSet;
}

/// A workload of the kind `K` of a list or watch.
pub type WorkloadWire<K> = Item<WorkloadOf<K>>;

/// A workload of the kind `K`.
#[derive(Clone, Debug)]
pub struct WorkloadOf<K>(pub Workload, PhantomData<K>);

impl<K: IsWorkload> FromView for WorkloadOf<K> {
    type Kind = K;
    type View = View<WorkloadSpecView, StatusView>;

    /// Returns `None` if it has no name, namespace or uid.
    fn of(object: Self::View) -> Option<Self> {
        let (meta, spec) = (object.metadata, object.spec);
        let pod = Option::<SpecView<IgnoredAny>>::deserialize(&spec.template.0["spec"]);
        let unread = pod
            .as_ref()
            .err()
            .map(|error| format!("spec.template: {error}"));
        let pod = pod.unwrap_or_default().unwrap_or_default();
        let secrets = pod.image_pull_secrets.iter();
        let secrets = secrets.filter_map(|secret| secret.name.clone().filled());
        let workload = Workload {
            kind: K::KIND,
            is_updated: object.status.is_updated(meta.generation),
            namespace: meta.namespace.value?,
            name: meta.name.value?,
            uid: meta.uid.value?,
            // Nothing is said of a template whose images nobody wants.
            wish: Wish::read(&meta.annotations.all()?)
                .and_then(|wish| match unread.filter(|_| wish.is_some()) {
                    Some(unread) => Err(unread),
                    None => Ok(wish),
                })
                .map_err(|error| cut(&error, bounds::MESSAGE)),
            selector: selector(&spec.selector.0).map_err(|error| format!("spec.selector: {error}")),
            images: pod.images(),
            pull_secrets: secrets.collect(),
        };
        Some(Self(workload, PhantomData))
    }
}

impl Wish {
    /// Reads the annotations; `None` if they request nothing. The defaults are OpenKruise's.
    fn read(annotations: &BTreeMap<Box<str>, Box<str>>) -> Result<Option<Self>, String> {
        let text = |name: &str| annotations.get(name).map(|text| &**text);
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
    match Amount::parse(text) {
        Some(Amount::Percent(0..=100)) => Some(IntOrString::String(text.to_owned())),
        Some(Amount::Count(nodes)) => i32::try_from(nodes).ok().map(IntOrString::Int),
        _ => None,
    }
    .ok_or_else(|| {
        format!(
            "annotation {PARALLELISM} is {text:?}: write a number of nodes, such as \"5\", or a percentage, such as \"20%\""
        )
    })
}

/// `status` of a workload of any of the kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusView {
    observed_generation: Option<i64>,
    replicas: Option<i64>,
    updated_replicas: Option<i64>,
}

impl StatusView {
    /// Returns true if all pods of a workload of this generation are of its present template.
    fn is_updated(&self, generation: Option<i64>) -> bool {
        let counted = |count: Option<i64>| count.unwrap_or_default();
        generation.is_some()
            && self.observed_generation >= generation
            && counted(self.updated_replicas) == counted(self.replicas)
    }
}

/// `spec` of a workload of any of the kinds. No schema restricts the template of a CloneSet, so it
/// is read apart: what is none hides its images, and nothing else.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadSpecView {
    selector: BoundedValue,
    template: BoundedValue,
}

/// The most labels and expressions of a selector: honest ones have a few.
const MOST: usize = 32;
/// The most bytes of a selector, which is sent in the URL of a list: half of what a job's may have,
/// because jobs are made with it and with what tells old pods from new ones.
const LONGEST: usize = bounds::SELECTOR / 2;

/// Reads a selector, or returns an error that names the problem and the fix.
fn selector(written: &Value) -> Result<LabelSelector, String> {
    let selector = LabelSelector::deserialize(written).map_err(not_one)?;
    let selector = bounded(selector, MOST, LONGEST)?;
    if selector.selects_all() {
        return Err("it is empty, so it would select every pod: name a label".to_owned());
    }
    // As it was read, without what is repeated in it.
    Ok(selector.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wish(annotations: &[(&str, &str)]) -> Result<Option<Wish>, String> {
        Wish::read(
            &annotations
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
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

    fn selecting(selector: &serde_json::Value) -> Result<LabelSelector, String> {
        let metadata = json!({"name": "web", "namespace": "n", "uid": "u"});
        let object = json!({"metadata": metadata, "spec": {"selector": selector}});
        let deployment = serde_json::from_value::<WorkloadWire<Deployment>>(object).unwrap();
        deployment.read().unwrap().0.selector
    }

    #[test]
    fn a8_a_selector_that_is_too_long_or_none_is_refused_with_the_fix() {
        let labels = |count: usize| {
            let pairs = (0..count).map(|nth| (format!("k{nth}"), json!("v")));
            json!({"matchLabels": serde_json::Map::from_iter(pairs)})
        };
        let expression = |values: usize| json!({"matchExpressions": [{"key": "app", "operator": "In", "values": vec!["v"; values]}]});
        assert!(selecting(&labels(32)).is_ok() && selecting(&expression(32)).is_ok());
        for (selector, why) in [
            (labels(33), "33 labels and expressions: write at most 32"),
            (labels(2_000), "2000 labels and expressions: write at most"),
            (
                json!({"matchExpressions": vec![json!({"key": "a", "operator": "Exists"}); 33]}),
                "33 labels and expressions: write at most 32",
            ),
            (
                json!({"matchLabels": {"app": "v".repeat(64)}}),
                "is not a label value",
            ),
            (
                json!({"matchLabels": {"k".repeat(900): "v"}}),
                "is not a label key",
            ),
            (
                json!({"matchLabels": {"app": 1, "tier": "web"}}),
                "is not a label selector: invalid type: integer `1`",
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": vec!["v".repeat(63); 32]},
                    {"key": "app", "operator": "NotIn", "values": (0..32).map(|n| format!("{n:063}")).collect::<Vec<_>>()}]}),
                "bytes: write at most 2048",
            ),
            (json!({}), "is empty"),
            (json!([]), "is not a label selector"),
        ] {
            let wrong = selecting(&selector).unwrap_err();
            assert!(
                wrong.starts_with("spec.selector: ") && wrong.contains(why) && wrong.len() < 300,
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
        let set = serde_json::from_value::<WorkloadWire<StatefulSet>>(set).unwrap();
        let read = set.read().unwrap().0;
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
