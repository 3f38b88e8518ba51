//! The fields of a pod that say on which operating system and processor it runs.

use serde::Deserialize;

use crate::objects::runs_on::RunsOn;
use crate::objects::values::lenient::{Lenient, Member, Objects, Text};

/// The labels of nodes with their operating system and their processor, the old ones last.
const SYSTEM: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
const PROCESSOR: [&str; 2] = ["kubernetes.io/arch", "beta.kubernetes.io/arch"];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OsView {
    name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeSelectorView {
    #[serde(rename = "kubernetes.io/os")]
    os: Text,
    #[serde(rename = "beta.kubernetes.io/os")]
    old_os: Text,
    #[serde(rename = "kubernetes.io/arch")]
    architecture: Text,
    #[serde(rename = "beta.kubernetes.io/arch")]
    old_architecture: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AffinityView {
    node_affinity: Member<NodeAffinityView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinityView {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Member<RequiredView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequiredView {
    node_selector_terms: Objects<TermView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TermView {
    match_expressions: Objects<ExpressionView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionView {
    key: Text,
    operator: Text,
    values: Lenient<Vec<Text>>,
}

impl OsView {
    pub(super) fn runs_on(&self) -> RunsOn {
        RunsOn::named(self.name.value.as_deref(), None)
    }
}

impl NodeSelectorView {
    pub(super) fn runs_on(&self) -> RunsOn {
        let first = |label: &Text, old: &Text| {
            let read = |text: &Text| text.value.clone();
            read(label).or_else(|| read(old))
        };
        RunsOn::named(
            first(&self.os, &self.old_os).as_deref(),
            first(&self.architecture, &self.old_architecture).as_deref(),
        )
    }
}

impl AffinityView {
    /// Returns what is required of every node that the pod may be put on: one term has to match,
    /// and all expressions of it.
    pub(super) fn runs_on(&self) -> RunsOn {
        let required = self.node_affinity.value.as_ref();
        let required = required.and_then(|affinity| affinity.required.value.as_ref());
        let terms = required.map(|required| &*required.node_selector_terms.value);
        RunsOn::common(
            terms
                .into_iter()
                .flatten()
                .map(|term| term.value.0.runs_on()),
        )
    }
}

impl TermView {
    fn runs_on(&self) -> RunsOn {
        let expressions = self.match_expressions.value.iter();
        expressions
            .map(|expression| expression.value.0.runs_on())
            .fold(RunsOn::default(), RunsOn::or)
    }
}

impl ExpressionView {
    fn runs_on(&self) -> RunsOn {
        if self.operator.value.as_deref() != Some("In") {
            return RunsOn::default();
        }
        let key = self.key.value.as_deref().unwrap_or_default();
        let of = |value: &Text| {
            let named =
                |labels: [&str; 2]| value.value.as_deref().filter(|_| labels.contains(&key));
            RunsOn::named(named(SYSTEM), named(PROCESSOR))
        };
        RunsOn::common(self.values.value.iter().map(of))
    }
}
