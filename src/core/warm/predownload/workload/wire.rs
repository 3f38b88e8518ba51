//! Workloads as the API server sends them. Tenants write them, so their templates are read as pods
//! are: only the fields that are needed, within bounds; all else is skipped.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta,
};
use kube_core::Selector;
use serde::de::MapAccess;
use serde::{Deserialize, Deserializer};

use super::{PARALLELISM, PREDOWNLOAD, TIMEOUT};
use crate::objects::pod::view::{ContainerView, images};
use crate::objects::values::bounds;
use crate::objects::values::label_selector::{is_label_key, is_label_value};
use crate::objects::values::lenient::{Lenient, Object, Objects, Shape, Text, drain_map};

/// A Deployment or StatefulSet of a list or watch, reduced while it is decoded. Decoding fails only
/// for JSON that is not a Kubernetes object.
#[derive(Clone, Debug)]
pub struct WorkloadWire<K> {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Option<Box<SpecWire>>,
    pub(super) status: StatusWire,
    kind: PhantomData<K>,
}

of_kind!(WorkloadWire<Deployment>, Deployment);
of_kind!(WorkloadWire<StatefulSet>, StatefulSet);

#[derive(Default, Deserialize)]
#[serde(default)]
struct TopWire {
    metadata: Lenient<Object<MetaWire>>,
    spec: Lenient<Option<Box<SpecWire>>>,
    status: Lenient<Object<StatusWire>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
    generation: Lenient<Option<i64>>,
    annotations: Lenient<Object<AnnotationsWire>>,
}

/// The annotations that pre-download reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationsWire {
    #[serde(rename = "swaplet.io/predownload")]
    predownload: Text,
    #[serde(rename = "apps.kruise.io/image-predownload-parallelism")]
    parallelism: Text,
    #[serde(rename = "apps.kruise.io/image-predownload-timeout-seconds")]
    timeout: Text,
}

/// `status` of a workload of any of the kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StatusWire {
    observed_generation: Lenient<Option<i64>>,
    replicas: Lenient<Option<i64>>,
    updated_replicas: Lenient<Option<i64>>,
}

impl StatusWire {
    /// Returns true if all pods of a workload of this generation are of its present template.
    pub(super) fn is_updated(&self, generation: Option<i64>) -> bool {
        let counted = |count: &Lenient<Option<i64>>| count.value.unwrap_or_default();
        generation.is_some()
            && self.observed_generation.value >= generation
            && counted(&self.updated_replicas) == counted(&self.replicas)
    }
}

/// `spec` of a workload of any of the kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SpecWire {
    selector: Lenient<Object<SelectorWire>>,
    template: Lenient<Object<TemplateWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorWire {
    match_labels: Lenient<LabelsWire>,
    match_expressions: Objects<ExpressionWire, { SelectorWire::MOST }>,
}

/// `matchLabels`, all of them: a selector that lost one would select more pods.
#[derive(Clone, Debug, Default)]
struct LabelsWire(Vec<(Text, Text)>);

impl Shape for LabelsWire {
    fn from_object<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut labels = Vec::new();
        while let Some(label) = map.next_entry()? {
            if labels.len() >= SelectorWire::MOST {
                return drain_map(map).map(|()| None);
            }
            labels.push(label);
        }
        Ok(Some(Self(labels)))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionWire {
    key: Text,
    operator: Text,
    values: Lenient<Vec<Text>, { SelectorWire::MOST }>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateWire {
    spec: Lenient<Object<PodSpecWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpecWire {
    init_containers: Objects<ContainerView>,
    containers: Objects<ContainerView>,
    image_pull_secrets: Objects<SecretWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SecretWire {
    name: Text,
}

impl<'de, K> Deserialize<'de> for WorkloadWire<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let TopWire {
            metadata,
            spec,
            status,
        } = TopWire::deserialize(deserializer)?;
        let meta = metadata.value.0;
        let text = |field: Text| field.value.map(String::from);
        let metadata = ObjectMeta {
            name: text(meta.name),
            namespace: text(meta.namespace),
            uid: text(meta.uid),
            resource_version: text(meta.resource_version),
            generation: meta.generation.value,
            annotations: Some(meta.annotations.value.0.read()),
            ..ObjectMeta::default()
        };
        Ok(Self {
            metadata,
            spec: spec.value,
            status: status.value.0,
            kind: PhantomData,
        })
    }
}

impl AnnotationsWire {
    /// Returns the annotations; an unreadable one as a placeholder, so that the error names it.
    fn read(self) -> BTreeMap<String, String> {
        let all = [
            (PREDOWNLOAD, self.predownload),
            (PARALLELISM, self.parallelism),
            (TIMEOUT, self.timeout),
        ];
        all.into_iter()
            .filter_map(|(name, text)| {
                let unreadable = text.malformed.then(|| "too long to be shown".into());
                let value: Box<str> = text.value.or(unreadable)?;
                Some((name.to_owned(), value.into()))
            })
            .collect()
    }
}

impl SpecWire {
    /// Returns the selector, or an error that names the problem and the fix.
    pub(super) fn selector(&self) -> Result<LabelSelector, String> {
        if self.selector.malformed {
            return Err("is not a label selector: write matchLabels".to_owned());
        }
        self.selector.value.0.read()
    }

    /// Returns the image of each container by its name, including init containers. A container
    /// without a readable name and image is left out.
    pub(super) fn images(&self) -> BTreeMap<Box<str>, Box<str>> {
        let pod = &self.template.value.0.spec.value.0;
        images(&pod.init_containers, &pod.containers)
    }

    /// Returns the names of the template's pull secrets.
    pub(super) fn pull_secrets(&self) -> Vec<Box<str>> {
        let secrets = &self.template.value.0.spec.value.0.image_pull_secrets;
        let names = secrets.value.iter();
        names
            .filter_map(|secret| secret.value.0.name.value.clone())
            .filter(|name| !name.is_empty())
            .collect()
    }
}

impl SelectorWire {
    /// The most labels and conditions of a selector, and values of one condition: the selector is
    /// sent in the URL of a list, and honest ones have a few.
    const MOST: usize = 32;
    /// The most bytes of a selector: half of what a job's may have, because jobs are made with it
    /// and with what tells old pods from new ones.
    const LONGEST: usize = bounds::SELECTOR / 2;

    fn read(&self) -> Result<LabelSelector, String> {
        let labels = &self.match_labels.value.0;
        let expressions = &self.match_expressions.value;
        let is_malformed = self.match_labels.malformed || self.match_expressions.malformed;
        if is_malformed || labels.len() + expressions.len() > Self::MOST {
            return Err(format!(
                "matchLabels and matchExpressions have more than {} members, or are malformed: name a few labels",
                Self::MOST
            ));
        }
        let labels: BTreeMap<_, _> = labels
            .iter()
            .map(|(key, value)| label(key, value))
            .collect::<Result<_, _>>()?;
        let expressions: Vec<_> = expressions
            .iter()
            .map(|expression| expression.value.0.read())
            .collect::<Result<_, _>>()?;
        if labels.is_empty() && expressions.is_empty() {
            return Err("is empty, so it would select every pod: name a label".to_owned());
        }
        let selector = LabelSelector {
            match_labels: (!labels.is_empty()).then_some(labels),
            match_expressions: (!expressions.is_empty()).then_some(expressions),
        };
        // One that cannot be read as a selector is never sent.
        let sent = Selector::try_from(selector.clone()).map(|sent| sent.to_string().len());
        match sent {
            Ok(bytes) if bytes > Self::LONGEST => Err(format!(
                "has {bytes} bytes: write at most {}",
                Self::LONGEST
            )),
            _ => Ok(selector),
        }
    }
}

impl ExpressionWire {
    fn read(&self) -> Result<LabelSelectorRequirement, String> {
        let text = |field: &Text| field.value.clone().unwrap_or_default();
        let values: Vec<_> = self.values.value.iter().map(text).collect();
        let (key, operator) = (text(&self.key), text(&self.operator));
        if self.values.malformed || self.values.value.iter().any(|value| value.malformed) {
            return Err(format!(
                "the values of {key:?} in matchExpressions are more than {}, or not strings: name a few",
                SelectorWire::MOST
            ));
        }
        check(&key, &values)?;
        let values: Vec<_> = values.into_iter().map(String::from).collect();
        Ok(LabelSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: (!values.is_empty()).then_some(values),
        })
    }
}

fn label(key: &Text, value: &Text) -> Result<(String, String), String> {
    let (Some(key), Some(value)) = (&key.value, &value.value) else {
        return Err(
            "a member of matchLabels is not a string, or too long: write KEY: VALUE".to_owned(),
        );
    };
    check(key, std::slice::from_ref(value))?;
    Ok((key.to_string(), value.to_string()))
}

fn check(key: &str, values: &[Box<str>]) -> Result<(), String> {
    let shown = |text: &str| bounds::cut(text, 64);
    if !is_label_key(key) {
        return Err(format!(
            "{:?} is not a label key: write one like app or example.com/app",
            shown(key)
        ));
    }
    match values.iter().find(|value| !is_label_value(value)) {
        Some(value) => Err(format!(
            "{:?} is not a label value: write at most 63 letters and digits, with - _ . between them",
            shown(value)
        )),
        None => Ok(()),
    }
}
