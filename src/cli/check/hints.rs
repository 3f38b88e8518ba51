//! Hints about an object besides its sidecars: unmarked sidecars, settings without effect, costs.

use std::path::Path;

use serde_json::Value;
use swaplet_core::check::around::Described;
use swaplet_core::check::names::UnknownField;
use swaplet_core::check::placement::Cost;
use swaplet_core::check::{annotations, known};
use swaplet_core::cluster::node_table::Row as NodeRow;
use swaplet_core::objects::pod::RestartPolicy;
use swaplet_core::objects::pod::annotations::SIDECARS;
use swaplet_core::objects::pod::container_spec::{EnvValue, EnvVar};
use swaplet_core::objects::pod::template::{Place, object_name};
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

use super::rows::{Answer, Row};
use super::{Settings, judge, policies, words};
use crate::cli::manifests::{self, Document};

/// How deep the containers and marks of a kind that is not known are looked for.
const DEPTH: usize = 64;

/// A hint about an object, or about the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hint {
    pub file: Option<String>,
    /// The line of the file that names its container or object.
    pub line: Option<usize>,
    pub namespace: Option<Box<str>>,
    /// Kind and name of the object; `None` for a hint about the cluster.
    pub object: Option<(Box<str>, Box<str>)>,
    pub container: Option<Box<str>>,
    pub text: String,
}

impl Hint {
    fn of(described: &Described, container: Option<&str>, text: String) -> Self {
        let template = &described.template;
        Self {
            namespace: template.namespace.clone(),
            object: Some((template.kind.clone(), template.name.clone())),
            container: container.map(Into::into),
            ..Self::of_cluster(text)
        }
    }

    fn of_object(object: &Value, text: String) -> Self {
        let kind = object["kind"].as_str();
        Self {
            object: kind.map(|kind| (kind.into(), object_name(object))),
            ..Self::of_cluster(text)
        }
    }

    /// Returns a hint about what of the cluster cannot be read, or does not count.
    pub(super) fn of_cluster(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// Returns `KIND/NAME` of its object.
    pub(super) fn place(&self) -> Option<String> {
        let (kind, name) = self.object.as_ref()?;
        Some(format!("{kind}/{name}"))
    }

    /// Returns its subject and the hint.
    pub(super) fn words(&self) -> String {
        let subject = self.place().map(|place| match &self.container {
            Some(container) => format!("{place}, container {container}: "),
            None => format!("{place}: "),
        });
        let words = subject.unwrap_or_default() + &self.text;
        cut(&words, MESSAGE)
    }

    /// Returns the file, unless it is standard input.
    pub(super) fn file(&self) -> Option<&str> {
        self.file.as_deref().filter(|file| *file != "-")
    }
}

/// Returns the hints about a template whose sidecars have these rows; `node` is one that its pods
/// may certainly run on, with a name for it.
pub(super) fn of(
    described: &Described,
    rows: &[Row],
    settings: &Settings,
    node: Option<(&NodeRow, &str)>,
) -> Vec<Hint> {
    let mut hints = fields(described);
    let whole = |text| Hint::of(described, None, text);
    hints.extend(described.annotation_problems.iter().cloned().map(whole));
    let malformed = described.template.spec.malformed.as_ref();
    let malformed = malformed.map(|what| format!("the spec of its pods cannot be read: {what}"));
    hints.extend(malformed.map(whole));
    let problem = described.ruled.problem.as_ref();
    hints.extend(problem.map(|problem| whole(problem.to_string())));
    hints.extend(made_again(described));
    if judge::may_end(&described.template) {
        hints.extend(unmarked(described, rows, settings));
        hints.extend(endless(described, settings));
        hints.extend(cost(described, rows, settings, node));
    }
    hints
}

/// Returns a hint instead of rows about a template that is only a part: a container without an image
/// changes one that is elsewhere.
pub(super) fn patch(described: &Described, document: &Document) -> Option<Hint> {
    let whole = |text| Some(Hint::of(described, None, text));
    if let Some(folder) = &document.patch_in {
        let words = manifests::listed_patch(folder);
        return whole(format!("it is not judged; {words}"));
    }
    // It names containers of a pod that is there.
    if &*described.template.kind == "ContainerRecreateRequest" {
        return whole("it has no pod template".to_owned());
    }
    let mut containers = described.template.spec.containers.iter();
    let part = containers.find(|container| container.image.is_empty())?;
    let how = manifests::patch(&document.file).unwrap_or_else(|| {
        "if it is a patch, check what kustomize makes of it: kubectl kustomize FOLDER | swaplet check -f -".to_owned()
    });
    let text = format!("it has no image, so it is not judged; {how}");
    Some(Hint::of(described, Some(&part.name), text))
}

/// Returns a hint about an object that has images, marks of sidecars or texts with containers, and no
/// pod template that is known.
pub(super) fn without_template(document: &Document) -> Option<Hint> {
    let object = &document.object;
    let folder = Path::new(&document.file).parent();
    let is_crd = object["kind"] == "CustomResourceDefinition";
    // What the core group has besides pods holds data, a policy names images, and a CRD describes both.
    let may_run = object["apiVersion"] != "v1" && policies::kind(object).is_none() && !is_crd;
    let has_text = |is_it: &dyn Fn(&str) -> bool| {
        has(object, DEPTH, &|value| value.as_str().is_some_and(is_it))
    };
    if let Some(hint) = mark_outside(object) {
        return Some(hint);
    }
    let text = if !object["kind"].is_string()
        && let Some(mark) = mark_in(object, &[], DEPTH)
    {
        format!(
            "{mark} stands in an object without a kind; if these are values of a chart: `helm template {} -f FILE | swaplet check -f -` checks what comes of them",
            folder
                .filter(|folder| folder.join("Chart.yaml").is_file())
                .map_or("CHART".into(), Path::to_string_lossy)
        )
    } else if may_run && has_text(&is_manifest) || has_text(&is_marked_manifest) {
        let how = match (manifests::is_kustomization(&document.file), folder) {
            (true, Some(folder)) => manifests::checked(folder),
            _ => "check the pods that come of it (swaplet check --live)".to_owned(),
        };
        format!("it has containers in a text, which is not judged: {how}")
    } else if may_run && has(object, DEPTH, &is_container) {
        "swaplet check knows no pod template in this kind, so it is not judged: check the pods that come of it (swaplet check --live)".to_owned()
    } else {
        return None;
    };
    Some(Hint::of_object(object, text))
}

/// Returns a hint about an object with a mark of sidecars outside of its pods and templates.
pub(super) fn mark_outside(object: &Value) -> Option<Hint> {
    let read = Place::all(object);
    let read: Vec<_> = read.iter().map(|place| place.template).collect();
    let is_read = policies::kind(object).is_some() || is_one_of(&read, object);
    let may_be = object["kind"].is_string() && !is_read;
    let fields = object.as_object().filter(|_| may_be)?.iter();
    // The annotations of the object itself have hints of their own.
    let mut fields = fields.filter(|(key, _)| *key != "metadata");
    let mark = fields.find_map(|(_, value)| mark_in(value, &read, DEPTH))?;
    let text = format!(
        "{mark} stands where swaplet check knows no pod template: check the pods that come of it (swaplet check --live)"
    );
    Some(Hint::of_object(object, text))
}

/// Returns the variable or annotation by which something in a value, besides the templates that are
/// `read`, is meant to be a sidecar. The metadata around templates has hints of its own.
fn mark_in<'a>(value: &'a Value, read: &[&Value], depth: usize) -> Option<&'a str> {
    if depth == 0 || is_one_of(read, value) {
        return None;
    }
    let deeper = |value| mark_in(value, read, depth - 1);
    match value {
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str);
            if name.is_some_and(|name| name.starts_with(WHEN_JOB_EXIT)) {
                return Some(WHEN_JOB_EXIT);
            }
            let mut keys = fields.keys().map(String::as_str);
            let annotation = keys.find(|key| annotations::OF_PODS.contains(key));
            let mut around = fields
                .iter()
                .filter(|(key, _)| read.is_empty() || *key != "metadata");
            annotation.or_else(|| around.find_map(|(_, value)| deeper(value)))
        }
        Value::Array(values) => values.iter().find_map(deeper),
        _ => None,
    }
}

fn is_one_of(values: &[&Value], value: &Value) -> bool {
    values.iter().any(|known| std::ptr::eq(*known, value))
}

/// Returns hints about annotations of an object without pods.
pub(super) fn annotations(object: &Value) -> Vec<Hint> {
    let problems = annotations::of_object(object).into_iter();
    problems
        .map(|words| Hint::of_object(object, words))
        .collect()
}

/// Returns true for a text with containers or marks in it: a manifest, or a JSON patch of one.
fn is_manifest(text: &str) -> bool {
    let words = [
        "ontainers:",
        "ontainers\":",
        "spec/containers/",
        "spec/initContainers/",
        WHEN_JOB_EXIT,
        SIDECARS,
    ];
    text.contains('\n') && words.iter().any(|word| text.contains(word))
}

/// Returns true for a text with a pod and marks in it, as programs take one from a ConfigMap.
fn is_marked_manifest(text: &str) -> bool {
    is_manifest(text)
        && text.contains("ontainers:")
        && [WHEN_JOB_EXIT, SIDECARS]
            .iter()
            .any(|mark| text.contains(mark))
}

/// Returns true for what has an image, as a container has.
fn is_container(value: &Value) -> bool {
    let others = ["name", "command", "args", "env", "script"];
    value["image"].is_string() && others.iter().any(|field| !value[field].is_null())
}

/// Returns true if a value in it is one that is looked for.
fn has(value: &Value, depth: usize, is_it: &impl Fn(&Value) -> bool) -> bool {
    let deeper = |value: &Value| depth > 0 && has(value, depth - 1, is_it);
    is_it(value)
        || match value {
            Value::Object(fields) => fields.values().any(deeper),
            Value::Array(values) => values.iter().any(deeper),
            _ => false,
        }
}

fn fields(described: &Described) -> Vec<Hint> {
    let unknown = described.unknown_fields.iter().map(|(container, field)| {
        let UnknownField { name, meant } = field;
        let meant = meant.map_or(String::new(), |meant| format!(": did you mean {meant}?"));
        let text = format!("{name} is not a field of a container{meant}");
        Hint::of(described, Some(container), text)
    });
    let is_empty = |value: &EnvValue| matches!(value, EnvValue::Literal(text) if text.is_empty());
    let is_empty_mark = |entry: &EnvVar| &*entry.name == WHEN_JOB_EXIT && is_empty(&entry.value);
    let containers = described.template.spec.containers.iter();
    let empty = containers.filter(|container| {
        let mark = &container.mark;
        !mark.is_sidecar() && mark.problem.is_none() && container.env.iter().any(is_empty_mark)
    });
    let empty = empty.map(|container| {
        let text =
            format!("{WHEN_JOB_EXIT} has no value, so it marks nothing: write value: \"true\"");
        Hint::of(described, Some(&container.name), text)
    });
    unknown.chain(empty).collect()
}

fn unmarked(described: &Described, rows: &[Row], settings: &Settings) -> Vec<Hint> {
    let template = &described.template;
    let containers = &template.spec.containers;
    let has_row = |name: &str| rows.iter().any(|row| *row.container == *name);
    let mut hints = Vec::new();
    // A single container is the main one.
    for container in containers.iter().filter(|_| containers.len() > 1) {
        if let Some(what) = known::sidecar(&container.name, &container.image)
            && !has_row(&container.name)
        {
            hints.push(Hint::of(
                described,
                Some(&container.name),
                format!("it looks like {what}, which does not end by itself, and nothing marks it: if it is a sidecar, set env {WHEN_JOB_EXIT}: \"true\", or name it in {SIDECARS} or a SidecarPolicy"),
            ));
        }
    }
    for injection in &described.injections {
        let name = injection.container;
        let is_there = containers.iter().any(|container| &*container.name == name)
            || has_row(name)
            || settings.sidecars.iter().any(|sidecar| sidecar == name);
        if !is_there {
            let key = injection.key;
            let text = match described.ruled.rule(name) {
                Some(rule) => format!(
                    "{key} has a container {name} injected, which is a sidecar by {} and which is not in this manifest: check the running pods (swaplet check --live)",
                    words::said_by(rule)
                ),
                None => format!(
                    "{key} has a container {name} injected, which is not in this manifest and which nothing marks: check the running pods (swaplet check --live --sidecar {name})"
                ),
            };
            hints.push(Hint::of(described, None, text));
        }
    }
    hints
}

/// Returns hints about main containers that the node starts again after each end.
fn endless(described: &Described, settings: &Settings) -> impl Iterator<Item = Hint> {
    let containers = described.template.spec.containers.iter();
    let endless = containers.filter(|container| {
        container.restart_policy == Some(RestartPolicy::Always)
            && !described.is_sidecar(container, &settings.sidecars)
    });
    endless.map(|container| {
        let text = "its restartPolicy is Always, so it never counts as done and the sidecars of the pod are not ended; if it is a sidecar, put it into initContainers, or mark it and drop the restartPolicy";
        Hint::of(described, Some(&container.name), text.to_owned())
    })
}

/// Returns a hint about Jobs that a JobSet would make again, so that finished work runs twice.
fn made_again(described: &Described) -> Option<Hint> {
    let job = described.job.as_ref().filter(|job| job.is_made_again)?;
    let text = format!(
        "by {}.ttlSecondsAfterFinished a Job may be deleted before its JobSet has ended, which then makes it again: set {}.ttlSecondsAfterFinished instead",
        job.path, job.deleted_by
    );
    Some(Hint::of(described, None, text))
}

/// Returns a hint about costs; a Job that is deleted in time has none beyond that time.
pub(super) fn cost(
    described: &Described,
    rows: &[Row],
    settings: &Settings,
    node: Option<(&NodeRow, &str)>,
) -> Option<Hint> {
    let job = described.job.as_ref().filter(|job| !job.is_deleted)?;
    let by_template = described.placement.row(&settings.node_table);
    let (cost, place) = match (node, &by_template) {
        (Some((row, name)), _) => (Cost::on(row)?, format!("on node {name} ({})", row.provider)),
        (None, Some((row, why))) => (
            Cost::on(row)?,
            format!(
                "on nodes of {}, to which it points (they have: {why})",
                row.provider
            ),
        ),
        (None, None) if settings.virtual_nodes => (Cost::Containers, "on virtual nodes".to_owned()),
        (None, None) => return None,
    };
    let has_sidecars = rows.iter().any(|row| row.answer != Answer::Native);
    let what = match cost {
        Cost::Machine => "a finished pod keeps its machine, which may be billed,",
        Cost::Containers if has_sidecars => {
            "where only the phase of a pod is written, its sidecars run on and may be billed"
        }
        Cost::Containers => return None,
    };
    let text = format!(
        "its pods may run {place}: {what} until the pod is deleted; set {}.ttlSecondsAfterFinished",
        job.deleted_by
    );
    Some(Hint::of(described, None, text))
}
