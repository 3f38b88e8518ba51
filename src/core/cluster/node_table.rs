//! The table that recognises nodes: data, not code (`node_classes.yaml`), after the rows of the
//! administrator.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::budget::Rate;
use super::node_class::NodeClass;
use crate::image::pattern::matches_glob;
use crate::objects::node::{Marks, Node};
use crate::report::decision::listed;

/// The built-in rows, as YAML; a comment in the file describes their form.
pub const BUILT_IN: &str = include_str!("node_classes.yaml");
/// The least and most updates per second that a row can set. A slower provider could not be
/// distinguished from one that is stuck, and no API server accepts more.
const UPDATES_PER_SECOND: (f64, f64) = (0.01, 1000.0);

/// The rows, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTable {
    rows: Vec<Arc<Row>>,
}

/// One kind of node.
#[derive(Debug, PartialEq)]
pub struct Row {
    /// The name of the row: nodes whose rows have the same name share a budget.
    pub name: Box<str>,
    /// The name of the provider.
    pub provider: Box<str>,
    /// The class of its nodes.
    pub class: NodeClass,
    /// The rate at which the provider may be requested to update pods; `None` for no limit.
    pub budget: Option<Rate>,
    /// True if the provider ends containers with `ECI_CONTAINER_TYPE=sidecar` by itself.
    pub ends_eci_sidecars: bool,
    /// True if each pod runs on a machine of its own, so that an image that one pod has pulled is
    /// of no use to another.
    pub machine_per_pod: bool,
    /// True if the provider starts machines from image caches, which are objects of the cluster
    /// ([`image_cache`](crate::warm::image_cache::object)).
    pub eci_image_caches: bool,
    /// True if the vendor carries out requests to restart containers that have OpenKruise's label
    /// for virtual nodes.
    pub vendor_restarts: bool,
    /// True if images are also swapped under `Never`, where the nodes replace containers; `None` if
    /// that has to be proved.
    pub swap_under_never: Option<bool>,
    /// How certain the class is; empty if the row does not state it.
    pub confidence: Box<str>,
    /// The source of the row's facts; empty if the row does not state it.
    pub source: Box<str>,
    entries: Vec<Entry>,
}

/// The conditions that all have to be met for a row to match.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    labels: Vec<Condition>,
    annotations: Vec<Condition>,
    taints: Vec<Condition>,
    name: Option<Box<str>>,
}

/// `KEY=VALUE`, or `KEY` for any value.
#[derive(Debug, PartialEq, Eq)]
struct Condition {
    key: Box<str>,
    value: Option<Box<str>>,
}

/// A table that cannot be used, with the row, the field and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The text is not a list of rows.
    #[error("{0}")]
    Form(String),
    /// A row has an invalid field.
    #[error("row {row:?}: {field}: {problem}")]
    Row {
        /// The name of the row.
        row: String,
        /// The name of the field.
        field: &'static str,
        /// The problem with the field, and the fix.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RowText {
    name: String,
    provider: Option<String>,
    class: String,
    r#match: Vec<EntryText>,
    updates_per_second: Option<f64>,
    #[serde(default)]
    ends_eci_sidecars: bool,
    #[serde(default)]
    machine_per_pod: bool,
    #[serde(default)]
    eci_image_caches: bool,
    vendor_restarts: Option<bool>,
    swap_under_never: Option<bool>,
    #[serde(default)]
    confidence: String,
    #[serde(default)]
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct EntryText {
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    annotations: Vec<String>,
    #[serde(default)]
    taints: Vec<String>,
    name: Option<String>,
}

impl NodeTable {
    /// Returns the built-in rows.
    pub fn built_in() -> Self {
        // The text is part of the program, and a test parses it.
        Self::read(BUILT_IN).unwrap_or_default()
    }

    /// Parses rows in the form of `node_classes.yaml`.
    ///
    /// # Errors
    /// [`TableError`]; nothing of a table with an error is used.
    pub fn read(yaml: &str) -> Result<Self, TableError> {
        let texts: Vec<RowText> =
            serde_saphyr::from_str(yaml).map_err(|error| TableError::Form(error.to_string()))?;
        let rows = texts
            .into_iter()
            .map(|text| text.read().map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { rows })
    }

    /// Appends the rows of another table.
    #[must_use]
    pub fn before(mut self, other: &Self) -> Self {
        self.rows.extend(other.rows.iter().cloned());
        self
    }

    /// The rows, in the order in which they are tried.
    pub fn rows(&self) -> &[Arc<Row>] {
        &self.rows
    }

    /// Returns the first row that matches a node, with a text of the condition.
    pub fn find(&self, node: &Node) -> Option<(Arc<Row>, Box<str>)> {
        self.rows.iter().find_map(|row| {
            let condition = row.entries.iter().find_map(|entry| entry.matches(node))?;
            Some((
                Arc::clone(row),
                format!("row {}: {condition}", row.name).into(),
            ))
        })
    }
}

impl RowText {
    fn read(self) -> Result<Row, TableError> {
        let class = self.class()?;
        let budget = self.budget()?;
        if self.name.trim().is_empty() {
            return Err(self.error("name", "is empty: give the row a name"));
        }
        let entries = self
            .r#match
            .iter()
            .map(|entry| entry.read().map_err(|problem| self.error("match", problem)));
        let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        if entries.is_empty() {
            return Err(self.error(
                "match",
                "is empty: name at least one label, taint, annotation or node name",
            ));
        }
        Ok(Row {
            provider: self.provider.unwrap_or_else(|| self.name.clone()).into(),
            name: self.name.into(),
            class,
            budget,
            ends_eci_sidecars: self.ends_eci_sidecars,
            machine_per_pod: self.machine_per_pod,
            eci_image_caches: self.eci_image_caches,
            vendor_restarts: self.vendor_restarts.unwrap_or(true),
            swap_under_never: self.swap_under_never,
            confidence: self.confidence.into(),
            source: self.source.into(),
            entries,
        })
    }

    /// Parses the class. `Daemon` is not allowed: the daemon is recognised by its pod on the node,
    /// which no label can replace.
    fn class(&self) -> Result<NodeClass, TableError> {
        let is_known = |class: &NodeClass| *class != NodeClass::Daemon;
        self.class.parse().ok().filter(is_known).ok_or_else(|| {
            let known = NodeClass::ALL.iter().filter(|class| is_known(class));
            let names = listed(known);
            self.error("class", format!("{:?} is none of {names}", self.class))
        })
    }

    fn budget(&self) -> Result<Option<Rate>, TableError> {
        let Some(rate) = self.updates_per_second else {
            return Ok(None);
        };
        let (least, most) = UPDATES_PER_SECOND;
        if !(least..=most).contains(&rate) {
            return Err(self.error(
                "updatesPerSecond",
                format!("{rate} is not from {least} to {most}"),
            ));
        }
        Ok(Some(Rate::every(Duration::from_secs_f64(rate.recip()))))
    }

    fn error(&self, field: &'static str, problem: impl Display) -> TableError {
        TableError::Row {
            row: self.name.clone(),
            field,
            problem: problem.to_string(),
        }
    }
}

impl EntryText {
    fn read(&self) -> Result<Entry, String> {
        let conditions = |texts: &[String]| {
            texts
                .iter()
                .map(|text| Condition::read(text))
                .collect::<Result<Vec<_>, _>>()
        };
        let entry = Entry {
            labels: conditions(&self.labels)?,
            annotations: conditions(&self.annotations)?,
            taints: conditions(&self.taints)?,
            name: self.name.as_deref().map(Into::into),
        };
        if entry.is_empty() {
            return Err("an entry names nothing, so it would match every node: name a label, taint, annotation or node name".to_owned());
        }
        Ok(entry)
    }
}

impl Condition {
    fn read(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .map_or((text, None), |(key, value)| (key, Some(value)));
        if key.is_empty() || text.chars().any(char::is_whitespace) {
            return Err(format!("{text:?} is not KEY=VALUE or KEY"));
        }
        Ok(Self {
            key: key.into(),
            value: value.map(Into::into),
        })
    }

    fn accepts(&self, value: &str) -> bool {
        self.value.as_deref().is_none_or(|wanted| wanted == value)
    }

    /// Returns the value of the label or annotation that meets the condition.
    fn among<'a>(&self, marks: &'a Marks) -> Option<&'a str> {
        marks
            .get(&self.key)
            .map(|value| &**value)
            .filter(|value| self.accepts(value))
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.labels.is_empty()
            && self.annotations.is_empty()
            && self.taints.is_empty()
            && self.name.is_none()
    }

    /// Returns a text of what matched; `None` if a condition is not met.
    fn matches(&self, node: &Node) -> Option<String> {
        let mut words = Vec::new();
        if let Some(pattern) = &self.name {
            matches_glob(pattern.as_bytes(), node.name.as_bytes())
                .then(|| words.push(format!("name {pattern}")))?;
        }
        for (kind, conditions, marks) in [
            ("label", &self.labels, &node.labels),
            ("annotation", &self.annotations, &node.annotations),
        ] {
            for condition in conditions {
                words.push(format!(
                    "{kind} {}",
                    written(&condition.key, condition.among(marks)?)
                ));
            }
        }
        for condition in &self.taints {
            let taint = node
                .taints
                .iter()
                .find(|taint| taint.key == condition.key && condition.accepts(&taint.value))?;
            words.push(format!("taint {}", written(&taint.key, &taint.value)));
        }
        Some(words.join(", "))
    }
}

fn written(key: &str, value: &str) -> String {
    if value.is_empty() {
        key.to_owned()
    } else {
        format!("{key}={value}")
    }
}
