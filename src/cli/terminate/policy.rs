//! `swaplet policy`: commands about SidecarPolicies.

mod suggest;

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::check::words::wrapped;
use crate::cli::program::table::{age, pods_wait, printable, yaml};
use clap::Subcommand;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use swaplet_core::image::pattern::matches_any_run;
use swaplet_core::objects::sidecar_policy::{GROUP, PolicyKind, VERSION};
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::policies::suggest::{Stuck, Subject, Suggestion};

/// Suggest SidecarPolicies
///
/// A SidecarPolicy names containers that are sidecars without being marked.
#[derive(Debug, Subcommand)]
pub enum Policy {
    Suggest(suggest::SuggestArgs),
}

impl Policy {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Suggest(args) = self;
        args.run().await
    }
}

// Formats suggested policies as manifests, with the reasons as comments.

/// The state of the cluster besides the stuck pods.
#[derive(Debug, Default)]
struct Around {
    /// The namespace of the pods; `None` for all.
    namespace: Option<String>,
    /// The Deployment, and whether it reads policies, if that is known.
    installation: Option<(String, Option<bool>)>,
    /// The names and patterns of containers that the admission policies open.
    opened: Option<Vec<String>>,
}

#[derive(Debug)]
struct Named {
    name: String,
    namespace: Option<String>,
    suggestion: Suggestion,
}

impl Around {
    /// Returns the comment at the top.
    fn head(&self, stuck: &[Stuck]) -> String {
        let what = format!(
            "{} for containers that nothing marks as sidecars. Read each policy before you apply it: a container that it names is ended when \
             the others of its pod are done, in every pod that the policy selects.",
            pods_wait(stuck.len()),
        );
        let reads = match &self.installation {
            Some((place, Some(true))) => format!("Deployment {place} reads policies."),
            Some((place, Some(false))) => format!(
                "Deployment {place} does not read policies: start it with --sidecar-policies (in the chart sidecarPolicies.enabled)."
            ),
            Some((place, None)) => {
                format!("Whether Deployment {place} reads policies is not known: check its flags.")
            }
            None => "They count where swaplet runs with --sidecar-policies (in the chart sidecarPolicies.enabled).".to_owned(),
        };
        comment(&what) + &comment(&reads)
    }

    /// Returns what a container needs besides its policy.
    fn opening(&self, suggestion: &Suggestion) -> String {
        let names = suggestion.subject.containers().join(",");
        let how = || {
            let namespace = match &self.namespace {
                Some(namespace) => namespace.as_str(),
                None => suggestion
                    .namespaces
                    .first()
                    .map_or("NAMESPACE", |namespace| namespace),
            };
            format!(
                "the annotation swaplet.io/sidecars of the pods, or of the namespace (kubectl annotate namespace {namespace} 'swaplet.io/sidecars={names}', \
                 several names separated by commas), or sidecarPolicies.containers of the chart"
            )
        };
        let Some(opened) = &self.opened else {
            return format!(
                "Where the admission policies are on, {names} has to be open to swaplet: by {}.",
                how()
            );
        };
        let is_open = |name: &&str| {
            let mut patterns = opened.iter();
            patterns.any(|pattern| matches_any_run(pattern, name))
        };
        if suggestion.subject.containers().iter().all(is_open) {
            format!("The admission policies open {names} already.")
        } else {
            format!(
                "The admission policies do not open {names} everywhere: swaplet may end it only by {}.",
                how()
            )
        }
    }
}

impl Named {
    /// Returns the kind of policies for this namespace, or for all, and their namespace.
    fn place(namespace: Option<&str>) -> (PolicyKind, &str) {
        match namespace {
            Some(namespace) => (PolicyKind::Namespaced, namespace),
            None => (PolicyKind::Cluster, ""),
        }
    }

    /// Returns the name in the form of `kubectl`, as a line.
    fn name(&self) -> String {
        let (kind, _) = Self::place(self.namespace.as_deref());
        let kind = kind.kind().to_lowercase();
        format!("{kind}.{GROUP}/{}\n", printable(&self.name))
    }

    fn manifest(&self) -> Value {
        let suggestion = &self.suggestion;
        let (kind, _) = Self::place(self.namespace.as_deref());
        let mut metadata = json!({"name": self.name});
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = namespace.as_str().into();
        }
        let mut rule = match &suggestion.subject {
            Subject::Preset(preset) => json!({"preset": preset}),
            Subject::Name(name) => json!({"name": name}),
        };
        if suggestion.comes_last {
            rule["order"] = 1.into();
        }
        let mut spec = Map::new();
        let by_name = matches!(suggestion.subject, Subject::Name(_));
        if by_name && self.namespace.is_none() {
            let of_names = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": suggestion.namespaces});
            let selector = json!({"matchExpressions": [of_names]});
            spec.insert("namespaceSelector".to_owned(), selector);
        }
        if suggestion.owner_kinds.iter().any(|kind| **kind != *"Job") {
            let kinds = json!(suggestion.owner_kinds);
            spec.insert("ownerKinds".to_owned(), kinds);
        }
        spec.insert("sidecars".to_owned(), json!([rule]));
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": kind.kind(),
            "metadata": metadata,
            "spec": spec,
        })
    }

    /// Formats the manifest as a document, below the reasons.
    fn yaml(&self, around: &Around, now: Timestamp) -> anyhow::Result<String> {
        let mut text = "---\n".to_owned();
        for reason in self.reasons(around, now) {
            text.push_str(&comment(&reason));
        }
        text.push_str(yaml(&self.manifest())?.trim_end());
        text.push('\n');
        Ok(text)
    }

    fn reasons(&self, around: &Around, now: Timestamp) -> Vec<String> {
        let Suggestion {
            subject,
            what,
            images,
            ended,
            pods,
            examples,
            since,
            ..
        } = &self.suggestion;
        let joined =
            |set: &BTreeSet<Box<str>>| Vec::from_iter(set.iter().map(|each| &**each)).join(", ");
        let mut reasons = vec![format!(
            "{} for it, the longest for {}, since {} ended: {}.",
            pods_wait(*pods),
            age(*since, now),
            joined(ended),
            examples.join(", ")
        )];
        let image = joined(images);
        reasons.push(match (subject, what) {
            (Subject::Preset(preset), _) => format!("Its name is that of the preset {preset}; image: {image}."),
            (Subject::Name(name), Some(what)) => format!("{name} is {what}, by its image or name; image: {image}."),
            (Subject::Name(name), None) => format!(
                "NOT KNOWN: only the fact that it still runs suggests that {name} is a sidecar; it may still be working. Image: {image}."
            ),
        });
        if self.suggestion.comes_last {
            reasons.push("It is ended after the others, which may send through it.".to_owned());
        }
        if self.suggestion.more_namespaces {
            reasons.push("It was observed in more namespaces than are listed here.".to_owned());
        }
        reasons.push(around.opening(&self.suggestion));
        reasons
    }
}

/// Formats a sentence as a comment; text from objects cannot end a line of it.
fn comment(text: &str) -> String {
    let text = cut(&printable(text), MESSAGE);
    let words: Vec<_> = text.split_whitespace().collect();
    wrapped(&words.join(" "), "# ")
}
