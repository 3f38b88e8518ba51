//! The stuck pods as a table.

use jiff::Timestamp;
use serde_json::{Value, json};
use swaplet_controller::terminate::snapshot::Snapshot;
use swaplet_core::objects::pod::{Container, Pod, roles};
use swaplet_core::terminate::explain::{Explanation, describe};

use super::seen::Seen;
use crate::cli::program::rights::patched_by;
use crate::cli::program::table::{Line, Output, age, render};

/// A pod whose main containers are done and that waits for its sidecars.
#[derive(Clone)]
pub(super) struct Stuck {
    pub(super) pod: Pod,
    /// The decision about it now.
    explanation: Explanation,
    /// True if swaplet has emitted an Event about it before.
    pub(super) said: bool,
}

impl Stuck {
    /// Returns all stuck pods in the order of kubectl: by namespace and name.
    pub(super) fn all(snapshot: &Snapshot) -> Vec<Self> {
        let stuck = |pod: &Pod| Self {
            pod: pod.clone(),
            explanation: snapshot.explain(pod),
            said: snapshot.said(pod).is_some_and(|said| !said.is_empty()),
        };
        let waiting = snapshot.pods().filter(|pod| roles::waits_for_sidecars(pod));
        let mut all: Vec<_> = waiting.map(stuck).collect();
        all.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
        all
    }

    /// Returns its line, which ends with this outcome and its details.
    pub(super) fn line(&self, now: Timestamp, outcome: [(&'static str, String); 2]) -> Line {
        let waits = roles::mains_ended_at(&self.pod).map(|ended| age(ended, now));
        let mut line = vec![
            ("NAMESPACE", self.pod.namespace.to_string()),
            ("POD", self.pod.name.to_string()),
            ("SIDECARS", self.sidecars().join(",")),
            ("STUCK", waits.unwrap_or_default()),
        ];
        line.extend(outcome);
        line
    }

    /// Returns the namespace and the resource of the patch that would end it.
    pub(super) fn write(&self) -> Option<(&str, &str)> {
        let resource = patched_by(&self.explanation.decision)?;
        Some((&*self.pod.namespace, resource))
    }

    fn sidecars(&self) -> Vec<&str> {
        roles::sidecars(&self.pod)
            .filter(|sidecar| sidecar.end().is_none())
            .map(|Container { name, .. }| &**name)
            .collect()
    }

    /// Returns its fields as JSON; the caller adds more.
    pub(super) fn value(&self) -> Value {
        json!({
            "namespace": self.pod.namespace,
            "name": self.pod.name,
            "uid": self.pod.uid,
            "job": self.pod.job.as_ref().map(|job| &job.name),
            "node": self.pod.node,
            "sidecars": self.sidecars(),
            "mainsEndedAt": roles::mains_ended_at(&self.pod),
        })
    }

    fn details(&self) -> String {
        let Explanation {
            decision, sentence, ..
        } = &self.explanation;
        match (&decision.action, decision.reports.first()) {
            (Some(action), _) => describe(action),
            (None, Some(report)) => report.note.clone(),
            (None, None) => sentence.clone(),
        }
    }
}

/// Lists the stuck pods, and the decision about each; below them those that wait for containers that
/// nothing marks.
pub(super) fn listed(seen: &Seen, output: Output) -> anyhow::Result<String> {
    let (stuck, now) = (&seen.stuck, seen.snapshot.taken_at());
    let (mut lines, mut values) = (Vec::new(), Vec::new());
    for stuck in stuck {
        let reason = stuck.explanation.decision.reason.as_str();
        let decision = [
            ("DECISION", reason.to_owned()),
            ("DETAILS", stuck.details()),
        ];
        lines.push(stuck.line(now, decision));
        let mut value = stuck.value();
        value["decision"] = json!({"reason": reason, "details": stuck.details()});
        values.push(value);
    }
    let value = json!({ "pods": values, "unmarked": seen.unmarked.values() });
    let mut text = render(output, &lines, &value)?;
    let unmarked = seen.unmarked.table();
    if output.is_table() && !unmarked.is_empty() {
        let gap = if text.is_empty() { "" } else { "\n" };
        text.extend([gap, &seen.unmarked.title(), &unmarked]);
    }
    Ok(text)
}
