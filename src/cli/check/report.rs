//! The findings of the check, and whether they are good.

pub(super) mod github;
pub(super) mod table;

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::check::around::{Described, JobLimits};
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::cluster::node_table::Row as NodeRow;
use swaplet_core::objects::command::Verdict;
use swaplet_core::objects::node::Node;

use super::hints::{self, Hint};
use super::policies::CheckedPolicies;
use super::rows::{Answer, Row};
use super::words::no_container;
use super::{Settings, judge};
use crate::cli::manifests::Document;
use crate::cli::program::table::counted;

/// The findings, in the order of the input.
#[derive(Default)]
pub(super) struct Report {
    pub rows: Vec<Row>,
    pub hints: Vec<Hint>,
    pub templates: usize,
    pub problems: Vec<anyhow::Error>,
    pub policies: CheckedPolicies,
    containers: BTreeSet<Box<str>>,
}

/// A node on which finished pods cost money, and the row that recognises it.
pub(super) type CostlyNode = (Node, std::sync::Arc<NodeRow>);

/// The namespace, kind and name of an object.
type Id = (Option<Box<str>>, Box<str>, Box<str>);

impl Report {
    /// Returns a report that only has the read errors.
    pub(super) fn new(problems: Vec<anyhow::Error>, policies: CheckedPolicies) -> Self {
        Self {
            problems,
            policies,
            ..Self::default()
        }
    }

    /// Adds the pods of an object of a file.
    pub(super) fn add_file(&mut self, document: &Document, maps: &ConfigMaps, settings: &Settings) {
        let object = &document.object;
        let mut found = Described::all(object);
        let in_file = |hint: Hint| Hint {
            line: match &hint.container {
                Some(container) => document.line_of(container),
                None => document.line(),
            },
            file: Some(document.place()),
            ..hint
        };
        if found.is_empty() {
            let lost = hints::without_template(document).into_iter();
            let unread = hints::annotations(object);
            self.hints.extend(lost.chain(unread).map(in_file));
        } else {
            self.hints.extend(hints::mark_outside(object).map(in_file));
        }
        self.policies.mark(&mut found, settings);
        for described in found {
            if let Some(hint) = hints::patch(&described, document) {
                self.hints.push(in_file(hint));
                continue;
            }
            let rows = judge::of(&described, settings, maps);
            let hints = hints::of(&described, &rows, settings, None);
            self.count(&described);
            self.hints.extend(hints.into_iter().map(in_file));
            self.rows
                .extend(rows.into_iter().map(|row| row.from(document)));
        }
    }

    /// Adds marked objects of a cluster. A pod is shown beside its Job, and a Job beside its
    /// CronJob, only if they differ. A Job that has ended has no rows: nobody can mend it.
    pub(super) fn add_live(
        &mut self,
        found: Vec<Described>,
        maps: &ConfigMaps,
        nodes: &[CostlyNode],
        settings: &Settings,
    ) {
        let mut shown = BTreeSet::new();
        let mut jobs: BTreeMap<Id, JobLimits> = BTreeMap::new();
        for mut described in found {
            let template = &described.template;
            let owner = template.owner.clone();
            if let (None, Some((kind, name))) = (&described.job, &owner) {
                let id = (template.namespace.clone(), kind.clone(), name.clone());
                described.job = jobs.get(&id).cloned();
            } else if let Some(job) = &described.job {
                let (kind, name) = (template.kind.clone(), template.name.clone());
                jobs.insert((template.namespace.clone(), kind, name), job.clone());
            }
            self.count(&described);
            let template = &described.template;
            let rows = judge::of(&described, settings, maps);
            if owner.is_none() {
                let mut nodes = nodes.iter();
                let node = nodes.find(|(node, _)| described.placement.may_be_on(node));
                let node = node.map(|(node, row)| (&**row, &*node.name));
                self.hints.extend(match described.has_ended {
                    // Its finished pods may be there.
                    true => Vec::from_iter(hints::cost(&described, &rows, settings, node)),
                    false => hints::of(&described, &rows, settings, node),
                });
            }
            // What is wrong in a Job that has ended nobody can mend.
            let counts =
                |row: &Row| !described.has_ended || is_ok(row, settings) && row.warnings.is_empty();
            for row in rows.into_iter().filter(counts) {
                let is_told = owner
                    .as_ref()
                    .is_some_and(|(kind, name)| shown.contains(&row.identity(kind, name)));
                shown.insert(row.identity(&template.kind, &template.name));
                if !is_told {
                    self.rows.push(row);
                }
            }
        }
    }

    fn count(&mut self, described: &Described) {
        self.templates += 1;
        let spec = &described.template.spec;
        let containers = spec.containers.iter().chain(&spec.native_sidecars);
        self.containers
            .extend(containers.map(|container| container.name.clone()));
    }

    /// Adds hints about policies, after all objects were added.
    pub(super) fn look_at_policies(&mut self, settings: &Settings, allow_empty: bool) {
        self.hints.extend(self.policies.hints(settings));
        if !allow_empty && self.problems.is_empty() {
            self.problems.extend(self.policies.without_effect());
        }
    }

    /// Reports names that no container has: they check nothing, and are most likely misspelt.
    pub(super) fn look_for(&mut self, sidecars: &[String]) {
        let missing = sidecars
            .iter()
            .filter(|name| !self.containers.contains(name.as_str()));
        let words = |name: &String| {
            anyhow::anyhow!(
                "{} (--allow-empty if that is right)",
                no_container(name, &self.containers)
            )
        };
        let problems: Vec<_> = missing.map(words).collect();
        self.problems.extend(problems);
    }

    /// Returns the numbers of sidecars that end, that do not, and that are to run forever.
    pub(super) fn ends(&self, settings: &Settings) -> (usize, usize, usize) {
        let forever = self.answered(&Answer::NotAJob);
        let fine = self.rows.iter().filter(|row| is_ok(row, settings)).count();
        let ends = fine - forever - self.answered(&Answer::LeftAlone);
        (ends, self.rows.len() - fine, forever)
    }

    fn answered(&self, answer: &Answer) -> usize {
        self.rows.iter().filter(|row| row.answer == *answer).count()
    }

    pub(super) fn summary(&self, settings: &Settings) -> String {
        if self.templates == 0 {
            return "No pod and no pod template found.".to_owned();
        }
        let templates = counted(self.templates, "pod template");
        if self.rows.is_empty() {
            return format!(
                "No sidecar in {templates}; --sidecar NAME, --preset NAME and --policy FILE count unmarked containers as sidecars."
            );
        }
        let (ends, not, forever) = self.ends(settings);
        let verb = |number, one, many| if number == 1 { one } else { many };
        let mut parts = vec![
            format!("{ends} {}", verb(ends, "ends", "end")),
            format!("{not} {}", verb(not, "does not", "do not")),
        ];
        if forever > 0 {
            let are = verb(forever, "is", "are");
            parts.push(format!("{forever} {are} in pods that have no end"));
        }
        let left = self.answered(&Answer::LeftAlone);
        if left > 0 {
            parts.push(format!("{left} {} left alone", verb(left, "is", "are")));
        }
        let sidecars = counted(self.rows.len(), "sidecar");
        format!("{sidecars} in {templates}: {}", parts.join(", "))
    }

    /// Returns a suggestion for ordinary nodes.
    pub(super) fn native(&self) -> Option<String> {
        let native = self.rows.iter().filter(|row| row.could_be_native()).count();
        let them = match (native, self.rows.len()) {
            (0, _) => return None,
            (1, 1) => "it could be a native sidecar (one of initContainers with restartPolicy: Always), which needs no swap".to_owned(),
            (native, _) => format!("{native} of them could be native sidecars (initContainers with restartPolicy: Always), which need no swap"),
        };
        Some(format!(
            "On ordinary nodes of Kubernetes 1.29 or later, {them}."
        ))
    }
}

/// Returns true if nothing is left to do about a sidecar.
pub(super) fn is_ok(row: &Row, settings: &Settings) -> bool {
    let derived = matches!(row.answer, Answer::Verdict(Verdict::NeedsImage { .. }));
    row.is_fine() || settings.allow_derived && derived
}
