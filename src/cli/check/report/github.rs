//! The report for the tools of GitHub: workflow commands, which it shows beside the lines of a pull
//! request, and SARIF for code scanning.

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::{Report, is_ok};
use crate::cli::check::Settings;
use crate::cli::program::table::{json as as_json, printable};

/// The title of a line that is about no object.
const PROGRAM: &str = "swaplet check";

/// What stands for something else in the path of a URI (RFC 3986, 2.3 and 3.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A line of the report.
struct Finding {
    level: &'static str,
    file: Option<String>,
    line: Option<usize>,
    /// The verdict or `note`, for programs.
    rule: &'static str,
    title: String,
    text: String,
}

/// Renders a line for each sidecar that does not end, and for each hint.
pub fn render(report: &Report, settings: &Settings) -> String {
    findings(report, settings).iter().map(command).collect()
}

/// Renders the same as SARIF 2.1.0 (OASIS).
pub fn sarif(report: &Report, settings: &Settings) -> String {
    let result = |finding: &Finding| {
        let region = json!({"startLine": finding.line.unwrap_or(1)});
        // GitHub takes no result without a place.
        let file = finding.file.as_deref().unwrap_or("swaplet-check");
        let uri = utf8_percent_encode(file, ESCAPED).to_string();
        let place =
            json!({"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}});
        json!({
            "ruleId": finding.rule,
            "level": finding.level,
            "message": {"text": printable(&finding.text)},
            "locations": [place],
        })
    };
    let results: Vec<_> = findings(report, settings).iter().map(result).collect();
    let driver = json!({"name": PROGRAM, "version": env!("CARGO_PKG_VERSION")});
    as_json(&json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }))
}

fn findings(report: &Report, settings: &Settings) -> Vec<Finding> {
    let problem = |problem: &anyhow::Error| {
        let text = format!("{problem:#}");
        let (file, line) = place(&text);
        Finding {
            level: "error",
            file,
            line,
            rule: "Unreadable",
            title: PROGRAM.to_owned(),
            text,
        }
    };
    let mut findings: Vec<_> = report.problems.iter().map(problem).collect();
    for row in &report.rows {
        let about = format!("{}/{}, container {}", row.kind, row.name, row.container);
        let finding = |level, words: &str| Finding {
            level,
            file: shown(row.file.as_deref()),
            line: row.line,
            rule: row.verdict(),
            title: format!("{} {}", row.verdict(), row.container),
            text: format!("{about}: {words}"),
        };
        if !is_ok(row, settings) {
            findings.push(finding("error", &row.to_do().whole()));
        }
        let warnings = row.warnings.iter();
        findings.extend(warnings.map(|warning| finding("warning", warning)));
    }
    findings.extend(report.hints.iter().map(|hint| {
        let (file, line) = match hint.file() {
            Some(file) => (shown(Some(file)), hint.line),
            None => place(&hint.text),
        };
        Finding {
            level: "warning",
            file,
            line,
            rule: "Note",
            title: hint.place().unwrap_or_else(|| PROGRAM.to_owned()),
            text: hint.words(),
        }
    }));
    findings
}

/// Returns the file with which a message about a whole file begins, and the line that it names.
fn place(text: &str) -> (Option<String>, Option<usize>) {
    let Some(file) = shown(text.split_once(": ").map(|(file, _)| file)) else {
        return (None, None);
    };
    let line = text.split_once(", line ").map(|(_, rest)| rest);
    let line = line.and_then(|rest| rest.split(':').next()?.parse().ok());
    (Some(file), line)
}

/// Returns what can be shown beside a text: neither standard input nor the folder of kustomize is.
fn shown(file: Option<&str>) -> Option<String> {
    let file = file.filter(|file| Path::new(file).is_file());
    file.map(str::to_owned)
}

fn command(finding: &Finding) -> String {
    let line = finding.line.map(|line| format!("line={line},"));
    let file = finding.file.as_ref();
    let file = file.map(|file| format!("file={},{}", property(file), line.unwrap_or_default()));
    format!(
        "::{} {}title={}::{}\n",
        finding.level,
        file.unwrap_or_default(),
        property(&finding.title),
        data(&finding.text)
    )
}

/// Escapes text from manifests, so that it is never a command of its own: no line ends in it.
fn data(text: &str) -> String {
    printable(text).replace('%', "%25")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_a_command_of_its_own() {
        let line = command(&Finding {
            level: "error",
            file: Some("a,b:c%.yaml".to_owned()),
            line: Some(7),
            rule: "Note",
            title: "x".to_owned(),
            text: "one\n::stop-commands::x\r%0A".to_owned(),
        });
        assert_eq!(
            line,
            "::error file=a%2Cb%3Ac%25.yaml,line=7,title=x::one?::stop-commands::x?%250A\n"
        );
    }
}
