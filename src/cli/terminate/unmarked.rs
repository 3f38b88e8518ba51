//! The containers that stuck pods wait for, and that nothing marks as sidecars: `swaplet rescue`
//! lists them, `swaplet policy suggest` writes policies for them.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use swaplet_core::objects::pod::Pod;
use swaplet_core::policies::suggest::{Stuck, Subject, Waiting, stuck};
use swaplet_core::report::shell_word::shell_word;

use crate::cli::program::table::{age, pods_wait, table};

/// The most flags of one command.
const MOST: usize = 16;
/// What is added where policies could not be read.
const UNLESS: &str = ", unless a policy that could not be read does";

/// The pods that wait for such containers.
#[derive(Debug)]
pub struct Unmarked {
    pub(super) pods: Vec<Stuck>,
    now: Timestamp,
    unless: &'static str,
}

impl Unmarked {
    /// Returns those among `pods` that have waited for at least `least`; policies that could not be
    /// read may name their containers.
    pub fn among<'a>(
        pods: impl IntoIterator<Item = &'a Pod>,
        now: Timestamp,
        least: SignedDuration,
        policies_are_unread: bool,
    ) -> Self {
        let stuck = |pod| stuck(pod, now, least);
        let mut pods: Vec<_> = pods.into_iter().filter_map(stuck).collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let unless = if policies_are_unread { UNLESS } else { "" };
        Self { pods, now, unless }
    }

    /// Returns the title of the table.
    pub(super) fn title(&self) -> String {
        format!("Nothing marks these as sidecars{}:\n", self.unless)
    }

    /// Returns a table with a line for each container.
    pub(super) fn table(&self) -> String {
        let line = |(pod, waiting): (&Stuck, &Waiting)| {
            vec![
                ("NAMESPACE", pod.namespace.to_string()),
                ("JOB", pod.job.as_deref().unwrap_or_default().to_owned()),
                ("POD", pod.name.to_string()),
                ("CONTAINER", waiting.name.to_string()),
                ("STUCK", age(pod.since, self.now)),
                ("FLAG", flag(waiting)),
                ("IMAGE", waiting.image.to_string()),
                ("WHAT", what(waiting).to_owned()),
            ]
        };
        table(&self.waiting().map(line).collect::<Vec<_>>())
    }

    /// Returns the same for programs.
    pub(super) fn values(&self) -> Vec<Value> {
        let value = |(pod, waiting): (&Stuck, &Waiting)| {
            json!({
                "namespace": pod.namespace,
                "name": pod.name,
                "job": pod.job,
                "since": pod.since,
                "container": waiting.name,
                "image": waiting.image,
                "what": waiting.what,
                "flag": flag(waiting),
            })
        };
        self.waiting().map(value).collect()
    }

    /// Says how many of these pods wait, and the command that ends their containers in `scope`, such
    /// as `job/report -n batch`, with all of its flags: a pod ends when all that it waits for has
    /// ended. `None` if none waits.
    pub fn words(&self, scope: &str) -> Option<String> {
        let flags: BTreeSet<_> = self.waiting().map(|(_, waiting)| flag(waiting)).collect();
        if flags.is_empty() {
            return None;
        }
        // Neither its name nor its image is that of a known sidecar.
        let is_unknown = |waiting: &Waiting| {
            waiting.what.is_none() && matches!(waiting.subject(), Subject::Name(_))
        };
        let unknown = self.waiting().filter(|(_, waiting)| is_unknown(waiting));
        let unknown: BTreeSet<_> = unknown.map(|(_, waiting)| &*waiting.name).collect();
        let pods = pods_wait(self.pods.len());
        let unless = self.unless;
        let mut words = format!("{pods} for containers that nothing marks as sidecars{unless}");
        if flags.len() > MOST {
            return Some(words + &format!(": swaplet rescue {scope} --dry-run lists their flags"));
        }
        let flags: Vec<_> = flags.into_iter().collect();
        words += &format!(": swaplet rescue {scope} {} ends them", flags.join(" "));
        if !unknown.is_empty() {
            let names: Vec<_> = unknown.into_iter().collect();
            words += &format!(
                ", if you know that nothing is left to do for {}",
                names.join(", ")
            );
        }
        Some(words)
    }

    /// Says of each such container what it is, and how to end those of its pod.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for (pod, waiting) in self.waiting() {
            let (name, age) = (&waiting.name, age(pod.since, self.now));
            sentences.push(format!(
                "{name} has run on for {age} since {} ended: {}.",
                pod.ended.join(", "),
                what(waiting)
            ));
        }
        if let [pod] = &self.pods[..] {
            let namespace = namespace_flag(Some(&pod.namespace));
            let words = self.words(&format!("pod/{} {namespace}", pod.name));
            sentences.extend(words.map(|words| words + "."));
        }
        sentences
    }

    /// Returns the namespace of each pod.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.pods.iter().map(|pod| &*pod.namespace)
    }

    /// Returns since when the longest waiting pod waits.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.pods.iter().map(|pod| pod.since).min()
    }

    fn waiting(&self) -> impl Iterator<Item = (&Stuck, &Waiting)> {
        let pods = self.pods.iter();
        pods.flat_map(|pod| pod.waits_for.iter().map(move |waiting| (pod, waiting)))
    }
}

/// Returns the flag of a command for a namespace, or for all.
pub fn namespace_flag(namespace: Option<&str>) -> String {
    let named = |namespace| format!("-n {}", shell_word(namespace));
    namespace.map_or_else(|| "-A".to_owned(), named)
}

/// Describes the container: by its name and image, or else by the preset with its name.
fn what(waiting: &Waiting) -> &'static str {
    waiting.what.unwrap_or(match waiting.subject() {
        Subject::Preset(_) => "a sidecar, by its name",
        Subject::Name(_) => "not known: it may still be working",
    })
}

/// Returns the flag of `swaplet rescue` that makes it a sidecar.
fn flag(waiting: &Waiting) -> String {
    match waiting.subject() {
        Subject::Preset(preset) => format!("--preset {preset}"),
        Subject::Name(name) => format!("--sidecar {}", shell_word(&name)),
    }
}
