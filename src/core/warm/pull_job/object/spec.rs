//! `spec` of a job, as users write it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::Selector;
use serde::Deserialize;
use serde_json::json;

use super::{Completion, MOST_IMAGES, PodWishes, PullSpec, Targets};
use crate::image::ImageReference;
use crate::objects::values::amount::Amount;
use crate::objects::values::bounds::{self, cut};
use crate::objects::values::label_selector;

/// The most names of Secrets and of nodes: far beyond any real list.
const MOST_SECRETS: usize = 64;
const MOST_NAMES: usize = 10_000;
/// The most labels and expressions of a selector, because each is compared with every node: as many
/// as the schema of our CRDs accepts, but those of OpenKruise accept any number.
const MOST_MEMBERS: usize = 128;
/// How many characters of a bad value an error shows.
const SHOWN: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpecWire {
    image: Option<Box<str>>,
    images: Option<Vec<Box<str>>>,
    pull_secrets: Option<Vec<Box<str>>>,
    selector: Option<NodeSelectorWire>,
    pod_selector: Option<LabelSelector>,
    parallelism: Option<IntOrString>,
    #[serde(default)]
    pull_policy: PullPolicyWire,
    #[serde(default)]
    completion_policy: CompletionPolicyWire,
    #[serde(default)]
    sandbox_config: SandboxConfigWire,
    image_pull_policy: Option<Box<str>>,
}

#[derive(Deserialize)]
struct NodeSelectorWire {
    names: Option<BTreeSet<Box<str>>>,
    #[serde(flatten)]
    labels: LabelSelector,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PullPolicyWire {
    timeout_seconds: Option<i64>,
    backoff_limit: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompletionPolicyWire {
    r#type: Option<Box<str>>,
    active_deadline_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
struct SandboxConfigWire {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl SpecWire {
    /// Validates the spec and applies OpenKruise's defaults, because its own webhook does not
    /// always do so, and may not be there.
    pub(crate) fn read(self) -> Result<PullSpec, String> {
        self.check_bounds()?;
        let images = self
            .image
            .into_iter()
            .chain(self.images.into_iter().flatten())
            .collect::<Vec<_>>();
        let sandbox = self.sandbox_config;
        Ok(PullSpec {
            images: each_once(images)?,
            targets: targets(self.selector, self.pod_selector)?,
            parallelism: parallelism(&self.parallelism.unwrap_or(IntOrString::Int(1)))?,
            timeout_seconds: seconds(self.pull_policy.timeout_seconds)
                .unwrap_or(600)
                .max(1),
            backoff_limit: seconds(self.pull_policy.backoff_limit).unwrap_or(3),
            completion: self.completion_policy.read()?,
            pods: PodWishes {
                pull_secrets: self.pull_secrets.unwrap_or_default(),
                always_pulls: self.image_pull_policy.as_deref() == Some("Always"),
                labels: sandbox.labels.unwrap_or_default(),
                annotations: sandbox.annotations.unwrap_or_default(),
                left_out: Vec::new(),
            },
        })
    }

    /// Returns an error for a field that is longer than any valid use of it.
    fn check_bounds(&self) -> Result<(), String> {
        let images = self.images.iter().flatten().count();
        let secrets = self.pull_secrets.as_deref().unwrap_or_default();
        let longest = secrets.iter().map(|name| name.len()).max().unwrap_or(0);
        let names = self.selector.iter().flat_map(|selector| &selector.names);
        let names = names.flatten().count();
        let labels = bytes(&self.sandbox_config.labels);
        let notes = bytes(&self.sandbox_config.annotations);
        at_most(MOST_IMAGES, images, "images", "images")?;
        at_most(MOST_SECRETS, secrets.len(), "pullSecrets", "names")?;
        at_most(bounds::TEXT, longest, "pullSecrets", "bytes in a name")?;
        at_most(MOST_NAMES, names, "selector.names", "names")?;
        at_most(bounds::RECORD, labels, "sandboxConfig.labels", "bytes")?;
        at_most(bounds::RECORD, notes, "sandboxConfig.annotations", "bytes")
    }
}

fn at_most(most: usize, found: usize, field: &str, what: &str) -> Result<(), String> {
    if found > most {
        return Err(format!("{field} has {found} {what}: write at most {most}"));
    }
    Ok(())
}

fn bytes(texts: &Option<BTreeMap<String, String>>) -> usize {
    let texts = texts.iter().flatten();
    texts.map(|(key, text)| key.len() + text.len()).sum()
}

/// Removes duplicates; two spellings of one image are one image.
fn each_once(images: Vec<Box<str>>) -> Result<Vec<Box<str>>, String> {
    let mut seen = BTreeSet::new();
    let mut once = Vec::new();
    for image in images {
        let reference = ImageReference::parse(&image)
            .map_err(|error| format!("invalid image {}: {error}", cut(&image, SHOWN)))?;
        if seen.insert(reference.normalized()) {
            once.push(image);
        }
    }
    if once.is_empty() {
        Err("image can not be empty".to_owned())
    } else {
        Ok(once)
    }
}

fn targets(
    selector: Option<NodeSelectorWire>,
    pods: Option<LabelSelector>,
) -> Result<Targets, String> {
    let read = |field: &str, labels: LabelSelector, bytes: usize| {
        let read = label_selector::bounded(labels, MOST_MEMBERS, bytes);
        read.map_err(|error| format!("invalid {field}: {error}"))
    };
    match (selector, pods) {
        (Some(_), Some(_)) => Err("can not set both selector and podSelector".to_owned()),
        (None, None) => Ok(Targets::Labels(Selector::default())),
        // It is sent in the URL of a list.
        (None, Some(labels)) => read("podSelector", labels, bounds::SELECTOR).map(Targets::Pods),
        (Some(NodeSelectorWire { names, labels }), None) => match names {
            None => read("selector", labels, bounds::RECORD).map(Targets::Labels),
            Some(names) if labels == LabelSelector::default() => Ok(Targets::Names(names)),
            Some(_) => {
                Err("can not set both names and labelSelector in this spec.selector".to_owned())
            }
        },
    }
}

fn parallelism(written: &IntOrString) -> Result<Amount, String> {
    Amount::read(written).ok_or_else(|| {
        let written = json!(written);
        format!("parallelism must be a non-negative integer or a percentage, not {written}")
    })
}

impl CompletionPolicyWire {
    fn read(self) -> Result<Completion, String> {
        match self.r#type.as_deref() {
            None | Some("" | "Always") => Ok(Completion::Always {
                deadline_seconds: seconds(self.active_deadline_seconds),
            }),
            Some("Never") => Ok(Completion::Never),
            Some(other) => Err(format!("unknown type of completionPolicy: {other}")),
        }
    }
}

fn seconds(written: Option<i64>) -> Option<u32> {
    written.map(bounds::seconds)
}
