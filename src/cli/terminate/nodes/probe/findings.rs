//! The output of a probe.

use serde_json::{Value, json};
use swaplet_controller::terminate::probe::{Answer, Probe, Probed, Tried};
use swaplet_core::cluster::node_class::{NodeClass, OVERRIDE};
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::node::Node;

use crate::cli::program::table::{Output, dash, printable, render};
use crate::cli::terminate::nodes::Shown;

/// The findings of a probe, ready to be printed.
pub(super) struct Findings<'a> {
    probed: &'a Probed,
    node: &'a str,
    /// The class of the node by the probe; `None` if nothing was proved.
    verdict: Option<NodeClass>,
    shown: &'a Shown,
    /// The command that records the verdict.
    command: Option<String>,
}

impl<'a> Findings<'a> {
    pub(super) fn of(probe: &'a Probe, probed: &'a Probed, shown: &'a Shown) -> Self {
        let verdict = verdict(probed, probe.class(probed));
        let command = verdict
            .filter(|class| *class != shown.class)
            .map(|class| command(&probe.node, class));
        Self {
            probed,
            node: &probe.node.name,
            verdict,
            shown,
            command,
        }
    }

    pub(super) fn show(&self, output: Output) -> anyhow::Result<String> {
        let mut lines = vec![
            ["WAY", "RESULT", "SECONDS", "EVIDENCE"]
                .map(str::to_owned)
                .to_vec(),
        ];
        lines.extend(self.probed.tried.iter().map(cells));
        let mut text = render(output, &lines, &self.value())?;
        if output.is_table() && lines.len() > 1 {
            text.push_str(&self.words(output == Output::Wide));
        }
        Ok(text)
    }

    fn words(&self, wide: bool) -> String {
        let mut text = String::from("\n");
        for tried in self
            .probed
            .tried
            .iter()
            .filter(|tried| wide || tried.answer != Answer::Works)
        {
            text.push_str(&format!("{}: {}\n", tried.way, printable(&tried.note)));
        }
        let (node, Shown { class, why, .. }) = (self.node, self.shown);
        let says = format!("swaplet nodes says {class} ({why})");
        text.push_str(&match (self.verdict, &self.command) {
            (None, _) if self.is_doubtful() => format!(
                "Not judged: {says}, and on such a node one swap without effect may be a busy kubelet. Probe it again; if it is not a kubelet, \
                 say so:\n  kubectl label node {node} {OVERRIDE}={}\n",
                NodeClass::VirtualInert
            ),
            (None, _) => format!("Nothing was proved about node {node}, because no pod has shown that its container was replaced; {says}.\n"),
            (Some(verdict), None) => format!("Verdict: node {node} is {verdict}; {says}, so there is nothing to do.\n"),
            (Some(verdict), Some(command)) => format!("Verdict: node {node} is {verdict}; {says}. Make it known:\n  {command}\n"),
        });
        text
    }

    /// Returns true if a pod has shown something that one pod alone does not prove.
    fn is_doubtful(&self) -> bool {
        self.probed
            .tried
            .iter()
            .any(|tried| tried.proved == Some(Proved::Inert))
    }

    fn value(&self) -> Value {
        let ways: Vec<_> = self.probed.tried.iter().map(entry).collect();
        json!({
            "node": self.node, "ways": ways, "verdict": self.verdict.map(NodeClass::as_str),
            "nodes": {"class": self.shown.class.as_str(), "why": self.shown.why},
            "command": self.command, "stopped": self.probed.stopped.as_ref().map(ToString::to_string), "left": self.probed.left,
        })
    }
}

/// Returns the class, if the pods have shown it.
fn verdict(probed: &Probed, class: NodeClass) -> Option<NodeClass> {
    // On a kubelet, a swap that works is expected, so it proves nothing.
    let works =
        |tried: &Tried| tried.way.swaps() && tried.answer == Answer::Works && class.is_kubelet();
    let shows = |tried: &Tried| {
        works(tried)
            || tried
                .proved
                .is_some_and(|proved| proved.class(class) == class)
    };
    probed.tried.iter().any(shows).then_some(class)
}

fn command(node: &Node, class: NodeClass) -> String {
    let overwrite = if node.labels.contains_key(OVERRIDE) {
        " --overwrite"
    } else {
        ""
    };
    format!(
        "kubectl label node {} {OVERRIDE}={class}{overwrite}",
        node.name
    )
}

fn cells(tried: &Tried) -> Vec<String> {
    let seconds = tried
        .took
        .map(|took| format!("{:.1}", took.as_secs_f32()))
        .unwrap_or_default();
    vec![
        tried.way.to_string(),
        tried.answer.to_string(),
        dash(seconds),
        dash(tried.evidence.join(", ")),
    ]
}

fn entry(tried: &Tried) -> Value {
    json!({
        "way": tried.way.to_string(), "restartPolicy": tried.way.restart_policy(), "result": tried.answer.to_string(),
        "works": tried.answer == Answer::Works, "seconds": tried.took.map(|took| took.as_secs_f64()), "evidence": tried.evidence,
        "note": tried.note, "proved": tried.proved.map(|proved| proved.as_str()),
    })
}

#[cfg(test)]
mod tests;
