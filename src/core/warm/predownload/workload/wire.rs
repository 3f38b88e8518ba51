//! Workloads as the API server sends them. Tenants write them, so their templates are read as pods
//! are: only the fields that are needed, within bounds; all else is skipped.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube_core::Selector;
use serde::Deserialize;
use serde::de::MapAccess;

use crate::objects::pod;
use crate::objects::values::bounds;
use crate::objects::values::label_selector::{is_label_key, is_label_value};
use crate::objects::values::lenient::{Lenient, Object, Objects, Shape, Text, drain_map};

/// `status` of a workload of any of the kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusView {
    observed_generation: Lenient<Option<i64>>,
    replicas: Lenient<Option<i64>>,
    updated_replicas: Lenient<Option<i64>>,
}

impl StatusView {
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
pub struct WorkloadSpecView {
    selector: Lenient<Object<SelectorView>>,
    template: Lenient<Object<TemplateView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorView {
    match_labels: Lenient<LabelsView>,
    match_expressions: Objects<ExpressionView, { SelectorView::MOST }>,
}

/// `matchLabels`, all of them: a selector that lost one would select more pods.
#[derive(Clone, Debug, Default)]
struct LabelsView(Vec<(Text, Text)>);

impl Shape for LabelsView {
    fn from_object<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut labels = Vec::new();
        while let Some(label) = map.next_entry()? {
            if labels.len() >= SelectorView::MOST {
                return drain_map(map).map(|()| None);
            }
            labels.push(label);
        }
        Ok(Some(Self(labels)))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionView {
    key: Text,
    operator: Text,
    values: Lenient<Vec<Text>, { SelectorView::MOST }>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateView {
    spec: Lenient<Object<pod::view::SpecView>>,
}

impl WorkloadSpecView {
    /// Returns the selector, or an error that names the problem and the fix.
    pub(super) fn selector(&self) -> Result<LabelSelector, String> {
        if self.selector.malformed {
            return Err("is not a label selector: write matchLabels".to_owned());
        }
        self.selector.value.0.read()
    }

    /// Returns the spec of the pods.
    pub(super) fn pod(&self) -> &pod::view::SpecView {
        &self.template.value.0.spec.value.0
    }
}

impl SelectorView {
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

impl ExpressionView {
    fn read(&self) -> Result<LabelSelectorRequirement, String> {
        let text = |field: &Text| field.value.clone().unwrap_or_default();
        let values: Vec<_> = self.values.value.iter().map(text).collect();
        let (key, operator) = (text(&self.key), text(&self.operator));
        if self.values.malformed || self.values.value.iter().any(|value| value.malformed) {
            return Err(format!(
                "the values of {key:?} in matchExpressions are more than {}, or not strings: name a few",
                SelectorView::MOST
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
