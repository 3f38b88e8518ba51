//! The SidecarPolicies that apply to the input: of files, presets and the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Error, anyhow};
use serde::Deserialize as _;
use serde_json::{Value, json};
use swaplet_core::check::around::Described;
use swaplet_core::objects::pod::Container;
use swaplet_core::objects::pod::template::items;
use swaplet_core::objects::sidecar_policy::{GROUP, PolicyKind, SidecarPolicy, VERSION};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::policies::presets;
use swaplet_core::policies::set::{Labels, Policies, PolicyKey, key, key_of};

use super::Settings;
use super::hints::Hint;
use super::words::OF_PRESET;
use crate::cli::manifests::Manifests;

mod fields;

/// The label that every namespace has.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The maximum number of policies that are read from files.
const MOST: usize = 1024;
/// The maximum number of policies of a cluster, and of their problems that are reported.
const MOST_LISTED: usize = 10_000;
const MOST_TOLD: usize = 20;
/// The uid of a manifest that has none.
const NO_UID: &str = "-";

/// The policies that apply, and their effect.
#[derive(Debug, Default)]
pub struct CheckedPolicies {
    set: Policies,
    known: Vec<Known>,
    /// The labels of namespaces whose manifests are in the input, and of those of the cluster, until
    /// the set gets them.
    namespaces: BTreeMap<Box<str>, Labels>,
    /// The namespaces of which the set has labels.
    labelled: BTreeSet<Box<str>>,
    /// What the files have that was left out.
    notes: Vec<String>,
}

#[derive(Debug)]
struct Known {
    policy: SidecarPolicy,
    key: PolicyKey,
    from: Origin,
    /// True if a container of the input is a sidecar by it, or would be.
    selects: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    File(String),
    Preset(String),
    Cluster,
}

impl CheckedPolicies {
    /// Reads files and presets. Each problem names file, object and field.
    pub fn read(
        files: &[PathBuf],
        presets: &[String],
        namespace: Option<&str>,
    ) -> (Self, Vec<Error>) {
        let mut policies = Self::default();
        let mut problems = Vec::new();
        for file in files {
            let read = Manifests::read(std::slice::from_ref(file));
            let is_readable = read.problems.is_empty();
            problems.extend(read.problems);
            policies.notes.extend(read.notes);
            let mut count = 0;
            for document in &read.documents {
                for object in items(&document.object) {
                    policies.add_namespace(object);
                    let Some(kind) = kind(object) else { continue };
                    count += 1;
                    let added = policies.add_file(kind, object, &document.file, namespace);
                    problems.extend(added.into_iter().map(|words| {
                        let words = cut(&words, MESSAGE);
                        anyhow!("{}: {words}", document.file)
                    }));
                }
            }
            if count == 0 && is_readable {
                problems.push(anyhow!(
                    "--policy {}: it has no SidecarPolicy or NamespacedSidecarPolicy of {GROUP}/{VERSION}",
                    file.display()
                ));
            }
        }
        for preset in presets {
            let policy = of_flag(&format!("{OF_PRESET}{preset}"), &json!({"preset": preset}));
            policies.add(policy, &Origin::Preset(preset.clone()));
        }
        (policies, problems)
    }

    /// Returns the policies that were read.
    pub fn into_policies(self) -> impl Iterator<Item = SidecarPolicy> {
        self.known.into_iter().map(|known| known.policy)
    }

    /// Adds the policies of a cluster.
    pub(super) fn add_listed(&mut self, listed: Vec<(PolicyKind, BoundedObject)>) {
        for (kind, object) in listed.into_iter().take(MOST_LISTED) {
            self.add(SidecarPolicy::read(kind, object), &Origin::Cluster);
        }
    }

    /// Returns true if the labels of namespaces matter to a policy.
    pub(super) fn have_namespace_selector(&self) -> bool {
        let mut known = self.known.iter();
        known.any(|known| known.policy.namespaces.is_some())
    }

    /// Records the labels of the namespaces of a cluster.
    pub(super) fn add_namespaces(&mut self, namespaces: Vec<(Box<str>, Labels)>) {
        self.namespaces.extend(namespaces);
    }

    /// Records the labels of an object, or of the items of a list, if it is a namespace.
    pub(super) fn add_namespace(&mut self, object: &Value) {
        for object in items(object) {
            let metadata = &object["metadata"];
            let kind = object["kind"].as_str();
            if let (Some("Namespace"), Some(name)) = (kind, metadata["name"].as_str()) {
                let labels = Labels::deserialize(&metadata["labels"]).unwrap_or_default();
                self.namespaces.insert(name.into(), labels);
            }
        }
    }

    /// Marks the sidecars in the input, by annotations and policies.
    pub(super) fn mark(&mut self, found: &mut [Described], settings: &Settings) {
        for described in found {
            let template = &mut described.template;
            template.namespace = template.namespace.take().or(settings.namespace.clone());
            if let Some(namespace) = template.namespace.clone() {
                self.label(namespace);
            }
            let images = &settings.exit_images;
            let is_exit =
                |one: &Container| images.as_ref().is_some_and(|all| all.contains(&one.image));
            described.mark(|pod, labels| self.set.mark(pod, labels, is_exit));
            let ruled = &described.ruled;
            let rules = ruled.rules.values().chain(&ruled.refused);
            for key in rules.filter_map(|rule| rule.policy().map(key_of)) {
                let those = self.known.iter_mut().filter(|known| known.key == key);
                those.for_each(|known| known.selects = true);
            }
        }
    }

    /// Gives the set the labels of a namespace, once: it may be that of very many objects.
    fn label(&mut self, namespace: Box<str>) {
        let written = self.namespaces.remove(&namespace);
        if written.is_some() || !self.labelled.contains(&namespace) {
            let mut labels = written.unwrap_or_default();
            labels.insert(NAME_LABEL.to_owned(), namespace.to_string());
            self.set.namespace(&namespace, Some(labels));
            self.labelled.insert(namespace);
        }
    }

    fn add_file(
        &mut self,
        kind: PolicyKind,
        object: &Value,
        file: &str,
        namespace: Option<&str>,
    ) -> Vec<String> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let (kind_word, file) = (kind.kind(), file.to_owned());
        if name.is_empty() {
            return vec![format!("{kind_word}: metadata.name is missing: write it")];
        }
        let mut object = object.clone();
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = NO_UID.into();
        }
        if kind == PolicyKind::Namespaced && metadata["namespace"].is_null() {
            match namespace {
                Some(namespace) => metadata["namespace"] = namespace.into(),
                None => {
                    return vec![format!(
                        "{kind_word} {name}: metadata.namespace is missing: write it, or pass -n"
                    )];
                }
            }
        }
        let by_crd = fields::problems(kind, &object["spec"]);
        // Read with bounds, like from the API server.
        let read = BoundedObject::deserialize(object).ok();
        let Some(policy) = read.and_then(|object| SidecarPolicy::read(kind, object)) else {
            return vec![format!(
                "{kind_word} {name}: its metadata cannot be read, or it is too large"
            )];
        };
        let place = policy.place();
        let mut problems = policy.problems.clone();
        problems.extend(by_crd);
        let key = key(&policy);
        if self.known.iter().any(|known| known.key == key) {
            problems.push("another one has this name: leave one out".to_owned());
        }
        if self.known.len() >= MOST {
            problems.push(format!("more than {MOST} policies: pass fewer files"));
        } else {
            self.add(Some(policy), &Origin::File(file));
        }
        problems.extend(self.set.preset_problems(&key).iter().cloned());
        problems
            .into_iter()
            .map(|problem| format!("{place}: {problem}"))
            .collect()
    }

    fn add(&mut self, policy: Option<SidecarPolicy>, from: &Origin) {
        let Some(policy) = policy else { return };
        self.set.apply(&policy);
        self.known.push(Known {
            key: key(&policy),
            policy,
            from: from.clone(),
            selects: false,
        });
    }

    fn of_files(&self) -> impl Iterator<Item = &Known> {
        let known = self.known.iter();
        known.filter(|known| matches!(known.from, Origin::File(_)))
    }

    /// Returns an error for each preset, and for the policies of files together, that match nothing
    /// in the input: most likely they were meant to.
    pub(super) fn without_effect(&self) -> Vec<Error> {
        let mut problems = Vec::new();
        let none_selects = self.of_files().all(|known| !known.selects);
        for known in self.known.iter().filter(|known| !known.selects) {
            match &known.from {
                Origin::Preset(name) => {
                    let containers =
                        presets::named(name).map(|preset| preset.containers.join(" or "));
                    problems.push(anyhow!(
                        "--preset {name}: no container of a pod that ends is called {}; one that is injected later is in the pods that run \
                         (swaplet check --live --preset {name}); --allow-empty if that is right",
                        containers.unwrap_or_default()
                    ));
                }
                Origin::File(file) if none_selects => problems.push(anyhow!(
                    "--policy {file}: {}; --allow-empty if that is right",
                    cut(
                        &format!("{}: {}", known.policy.place(), known.about_nothing()),
                        MESSAGE
                    )
                )),
                Origin::File(_) | Origin::Cluster => {}
            }
        }
        problems
    }

    /// Returns hints about policies.
    pub(super) fn hints(&self, settings: &Settings) -> Vec<Hint> {
        let some_selects = self.of_files().any(|known| known.selects);
        let notes = self.notes.iter().cloned();
        let mut hints: Vec<_> = notes.map(Hint::of_cluster).collect();
        for known in self
            .of_files()
            .filter(|known| some_selects && !known.selects)
        {
            hints.push(known.hint(known.about_nothing().to_owned()));
        }
        let reported = self.known.iter().flat_map(|known| {
            let problems = self.problems(known).into_iter();
            let all = known.unlisted(settings).chain(problems);
            all.map(|words| known.hint(words))
        });
        hints.extend(reported.take(MOST_TOLD));
        hints
    }

    /// Returns the problems of a policy of the cluster: those of a file are errors.
    fn problems(&self, known: &Known) -> Vec<String> {
        if known.from != Origin::Cluster {
            return Vec::new();
        }
        let presets = self.set.preset_problems(&known.key).iter();
        known
            .policy
            .problems
            .iter()
            .chain(presets)
            .cloned()
            .collect()
    }
}

impl Known {
    fn about_nothing(&self) -> &'static str {
        match self.policy.namespaces {
            Some(_) => {
                "it makes no container of the input a sidecar: compare its selectors, ownerKinds and sidecars; the labels of a namespace are read from its manifest (kind: Namespace), and with --live from the cluster"
            }
            None => {
                "it makes no container of the input a sidecar: compare its selectors, ownerKinds and sidecars, and policies that come before it"
            }
        }
    }

    fn hint(&self, text: String) -> Hint {
        let file = match &self.from {
            Origin::File(file) => Some(file.clone()),
            Origin::Preset(_) | Origin::Cluster => None,
        };
        let namespace = (!self.policy.namespace.is_empty()).then(|| self.policy.namespace.clone());
        Hint {
            file,
            namespace,
            object: Some((self.policy.kind.kind().into(), self.policy.name.clone())),
            ..Hint::of_cluster(text)
        }
    }

    /// Returns exit images that the administrator has not listed, if the list is known.
    fn unlisted(&self, settings: &Settings) -> impl Iterator<Item = String> {
        let rules = self.policy.rules.iter();
        rules.filter_map(move |rule| {
            let (images, asked) = (settings.exit_images.as_ref()?, rule.ending.exit_image.as_deref()?);
            (!images.lists(asked)).then(|| {
                format!(
                    "spec.sidecars[{}].exitImage: {asked} is not in --exit-images, so the default exit image is used",
                    rule.nth
                )
            })
        })
    }
}

/// Returns a policy of this name with one rule, for pods of any owner.
pub fn of_flag(name: &str, rule: &Value) -> Option<SidecarPolicy> {
    let object = json!({
        "metadata": {"name": name, "uid": NO_UID},
        "spec": {"ownerKinds": ["*"], "sidecars": [rule]},
    });
    SidecarPolicy::read(PolicyKind::Cluster, object.into())
}

pub(super) fn kind(object: &Value) -> Option<PolicyKind> {
    let group = format!("{GROUP}/{VERSION}");
    let is_ours = object["apiVersion"] == group.as_str();
    PolicyKind::ALL
        .into_iter()
        .find(|kind| is_ours && object["kind"] == kind.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_namespace_are_handed_on_once_however_many_objects_it_has() {
        let mut policies = CheckedPolicies::default();
        let hand_on = |policies: &mut CheckedPolicies| {
            policies.label("batch".into());
            (policies.namespaces.len(), policies.labelled.len())
        };
        for team in ["a", "b"] {
            policies.add_namespace(&json!({"kind": "Namespace", "metadata": {"name": "batch", "labels": {"team": team}}}));
        }
        assert_eq!(policies.namespaces["batch"]["team"], "b", "the last one");
        assert_eq!(hand_on(&mut policies), (0, 1));
        assert_eq!(hand_on(&mut policies), (0, 1));
        // The cluster's come after those of files.
        policies.add_namespaces(vec![("batch".into(), Labels::new())]);
        assert_eq!(hand_on(&mut policies), (0, 1));
    }
}
