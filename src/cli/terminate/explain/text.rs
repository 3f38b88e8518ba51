//! Formats an answer for people, in the style of `kubectl describe`.

use std::fmt::Write as _;

use swaplet_core::objects::pod::roles::{self, Mains};

use super::Answer;
use crate::cli::program::table::{age, aligned, dash, printable};

impl Answer {
    pub(super) fn text(&self) -> String {
        let mut text = self.head();
        section(&mut text, "Inputs", &aligned(&self.inputs()));
        section(&mut text, "Sources", &aligned(&self.sources()));
        let decision = &self.explanation.decision;
        section(
            &mut text,
            "Decision",
            &format!(
                "{}: {}\n",
                decision.reason,
                printable(&self.explanation.sentence)
            ),
        );
        section(&mut text, "Next", &lines(&self.explanation.next));
        section(&mut text, "Remarks", &lines(&self.remarks));
        section(&mut text, "Events of swaplet", &self.events());
        text
    }

    fn head(&self) -> String {
        let pod = &self.pod;
        let job = pod.job.as_ref().map(|job| job.name.to_string());
        let ended = match roles::mains_state(pod) {
            Mains::Done => roles::mains_ended_at(pod),
            _ => self.waits_since,
        };
        let ended = ended.map(|ended| format!("{} ago", age(ended, self.now)));
        let rows = [
            ("Name:", pod.name.to_string()),
            ("Namespace:", pod.namespace.to_string()),
            ("Node:", dash(&*pod.node)),
            ("Job:", dash(job.unwrap_or_default())),
            ("Main exited:", dash(ended.unwrap_or_default())),
        ];
        aligned(&rows.map(|(name, value)| vec![name.to_owned(), value]))
    }

    fn inputs(&self) -> Vec<Vec<String>> {
        let sources = self.rules();
        let number = |rule| {
            sources
                .iter()
                .position(|source| *source == rule)
                .map_or(0, |nth| nth + 1)
        };
        let findings = self.explanation.findings.iter();
        findings
            .map(|finding| {
                vec![
                    format!("[{}]", number(finding.rule)),
                    finding.subject.clone(),
                    finding.seen.clone(),
                ]
            })
            .collect()
    }

    fn sources(&self) -> Vec<Vec<String>> {
        self.rules()
            .into_iter()
            .enumerate()
            .map(|(nth, rule)| vec![format!("[{}]", nth + 1), rule.to_owned()])
            .collect()
    }

    /// Returns the rules of the findings, each once.
    fn rules(&self) -> Vec<&'static str> {
        let mut rules = Vec::new();
        for finding in &self.explanation.findings {
            if !rules.contains(&finding.rule) {
                rules.push(finding.rule);
            }
        }
        rules
    }

    fn events(&self) -> String {
        let said = match self.said.as_deref() {
            None => return "not known: they cannot be read\n".to_owned(),
            Some([]) => return "none\n".to_owned(),
            Some(said) => said,
        };
        let mut rows = vec![
            ["AGE", "TYPE", "REASON", "MESSAGE"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for said in said {
            let kind = if said.warning { "Warning" } else { "Normal" };
            rows.push(vec![
                age(said.at, self.now),
                kind.to_owned(),
                said.reason.clone(),
                said.note.clone(),
            ]);
        }
        aligned(&rows)
    }
}

/// Appends a section, unless its body is empty.
fn section(text: &mut String, title: &str, body: &str) {
    if body.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{title}:");
    for line in body.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

fn lines(sentences: &[String]) -> String {
    sentences
        .iter()
        .map(|sentence| format!("{}\n", printable(sentence)))
        .collect()
}
