//! The containers that stuck pods wait for, and that nothing marks as sidecars: `swaplet rescue`
//! lists them, `swaplet policy suggest` writes policies for them.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use swaplet_core::objects::pod::Pod;
use swaplet_core::policies::suggest::{Stuck, Subject, Waiting, stuck};
use swaplet_core::report::shell_word::shell_word;

use crate::cli::program::table::{age, aligned, counted, dash};

/// The most flags that one line names.
const MOST: usize = 8;

/// The pods that wait for such containers.
#[derive(Debug)]
pub(in crate::cli) struct Unmarked {
    pub(super) pods: Vec<Stuck>,
    now: Timestamp,
}

impl Unmarked {
    /// Returns those among `pods` that have waited for at least `least`.
    pub(in crate::cli) fn among<'a>(
        pods: impl IntoIterator<Item = &'a Pod>,
        now: Timestamp,
        least: SignedDuration,
    ) -> Self {
        let stuck = |pod| stuck(pod, now, least);
        let mut pods: Vec<_> = pods.into_iter().filter_map(stuck).collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Self { pods, now }
    }

    /// Returns one row for each container, below a header.
    pub(super) fn table(&self) -> String {
        let header = "NAMESPACE JOB POD CONTAINER STUCK FLAG IMAGE WHAT".split(' ');
        let row = |(pod, waiting): (&Stuck, &Waiting)| {
            let cells = [
                pod.namespace.to_string(),
                pod.job.as_deref().unwrap_or_default().to_owned(),
                pod.name.to_string(),
                waiting.name.to_string(),
                age(pod.since, self.now),
                flag(waiting),
                waiting.image.to_string(),
                what(waiting).to_owned(),
            ];
            cells.map(dash).to_vec()
        };
        let mut lines = vec![header.map(str::to_owned).collect()];
        lines.extend(self.waiting().map(row));
        if lines.len() < 2 {
            return String::new();
        }
        aligned(&lines)
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

    /// Says how many of these pods wait, and the flags of `swaplet rescue` that end their
    /// containers; `None` if none does.
    pub(in crate::cli) fn words(&self) -> Option<String> {
        let pods = &self.pods;
        let waiting = pods.iter().flat_map(|pod| &pod.waits_for);
        let mut flags: Vec<_> = waiting.map(flag).collect();
        if flags.is_empty() {
            return None;
        }
        flags.sort_unstable();
        flags.dedup();
        flags.truncate(MOST);
        let verb = if pods.len() == 1 { "waits" } else { "wait" };
        Some(format!(
            "{} {verb} for containers that nothing marks as sidecars; what is one is ended with swaplet rescue {}",
            counted(pods.len(), "pod"),
            flags.join(" ")
        ))
    }

    fn waiting(&self) -> impl Iterator<Item = (&Stuck, &Waiting)> {
        let pods = self.pods.iter();
        pods.flat_map(|pod| pod.waits_for.iter().map(move |waiting| (pod, waiting)))
    }
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
