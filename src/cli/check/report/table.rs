//! The rows of the report, and the report as JSON.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};
use swaplet_core::objects::pod::SidecarRule;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};

use super::{Report, is_ok};
use crate::cli::check::Settings;
use crate::cli::check::hints::Hint;
use crate::cli::check::rows::Row;
use crate::cli::check::words::{preset, said_by, wrapped};
use crate::cli::program::table::{self, Line, printable};
use crate::cli::rules::{policy as rule_policy, rule};

/// The placeholder for the command of a container that has none.
const ENTRYPOINT: &str = "(entrypoint)";
/// What is before the advice about a sidecar.
const MARGIN: &str = "    ";

/// Renders the report for people. The advice about a sidecar is below it, or, if each line must be
/// a sidecar, at the end of it.
pub fn table(report: &Report, files: &[PathBuf], wide: bool) -> String {
    if report.rows.is_empty() {
        return String::new();
    }
    let named: BTreeSet<_> = report
        .rows
        .iter()
        .filter_map(|row| row.file.as_deref())
        .collect();
    let has_namespaces = report.rows.iter().any(|row| row.namespace.is_some());
    let has_files = wide || named.len() > 1 || files.iter().any(|file| file.is_dir());
    let lines = report.rows.iter();
    let lines = lines.map(|row| line(row, has_namespaces, has_files, wide));
    let text = table::table(&lines.collect::<Vec<_>>());
    if wide {
        return text;
    }
    let mut lines = text.split_inclusive('\n');
    let mut text: String = lines.by_ref().take(1).collect();
    for (line, row) in lines.zip(&report.rows) {
        text.push_str(line);
        text.push_str(&below(row));
    }
    text
}

fn line(row: &Row, has_namespace: bool, has_file: bool, wide: bool) -> Line {
    let mut line = Vec::new();
    if has_namespace {
        let namespace = row.namespace.as_deref().unwrap_or_default();
        line.push(("NAMESPACE", namespace.to_owned()));
    }
    line.extend([
        ("NAME", format!("{}/{}", row.kind, row.name)),
        ("CONTAINER", row.container.to_string()),
        ("VERDICT", row.verdict().to_owned()),
        ("EXECUTES", executes(row)),
    ]);
    if has_file {
        line.push(("FILE", row.file.clone().unwrap_or_default()));
    }
    if wide {
        let rule = row.rule.as_deref().map(said_by);
        let rule = rule.map(|words| format!("by {words}")).into_iter();
        let notes = row.warnings.iter().chain(&row.notes).cloned();
        line.push(("NOTES", rule.chain(notes).collect::<Vec<_>>().join("; ")));
        line.push(("WHAT TO DO", row.to_do().whole()));
    }
    line
}

fn executes(row: &Row) -> String {
    match row.executes() {
        Some(_) if !row.has_command => ENTRYPOINT.to_owned(),
        executes => executes.unwrap_or_default(),
    }
}

/// Renders the advice about a sidecar, and the notes.
fn below(row: &Row) -> String {
    let to_do = row.to_do();
    let shown = |text: &str| cut(&printable(text), MESSAGE);
    let mut lines = String::new();
    if let Some(rule) = &row.rule {
        let words = format!("by {}", said_by(rule));
        lines.push_str(&wrapped(&shown(&words), MARGIN));
    }
    match &to_do.command {
        Some(command) => {
            lines.push_str(&wrapped(&format!("{}:", shown(&to_do.text)), MARGIN));
            lines.push_str(&format!("      {}\n", shown(command)));
        }
        None if to_do.text.is_empty() => {}
        None => lines.push_str(&wrapped(&shown(&to_do.text), MARGIN)),
    }
    for warning in &row.warnings {
        lines.push_str(&wrapped(&format!("note: {}", shown(warning)), MARGIN));
    }
    lines
}

/// Returns the report as JSON.
pub fn value(report: &Report, settings: &Settings) -> Value {
    let (ends, not, _) = report.ends(settings);
    json!({
        "sidecars": report.rows.iter().map(|row| entry(row, settings)).collect::<Vec<_>>(),
        "hints": report.hints.iter().map(hint).collect::<Vec<_>>(),
        "problems": report.problems.iter().map(|problem| format!("{problem:#}")).collect::<Vec<_>>(),
        "summary": {
            "podTemplates": report.templates,
            "sidecars": report.rows.len(),
            "ok": report.rows.len() - not,
            "notOk": not,
            "end": ends,
            "doNotEnd": not,
        },
    })
}

fn entry(row: &Row, settings: &Settings) -> Value {
    json!({
        "file": row.file,
        "namespace": row.namespace,
        "kind": row.kind,
        "name": row.name,
        "place": row.place,
        "container": row.container,
        "by": row.by,
        "policy": row.rule.as_deref().and_then(policy),
        "rule": row.rule.as_deref().map(rule),
        "verdict": row.verdict(),
        "ok": is_ok(row, settings),
        "reason": row.reason().map(|reason| reason.to_string()),
        "executes": row.executes(),
        "paths": row.paths(),
        "couldBeNative": row.could_be_native(),
        "whatToDo": row.to_do().whole(),
        "warnings": row.warnings,
        "notes": row.notes,
    })
}

/// Returns the policy of a rule; a preset of the command line has none.
fn policy(rule: &SidecarRule) -> Option<Value> {
    let is_preset = preset(rule).is_some();
    rule.policy().filter(|_| !is_preset).map(rule_policy)
}

fn hint(hint: &Hint) -> Value {
    let object = hint.object.as_ref();
    json!({
        "file": hint.file,
        "namespace": hint.namespace,
        "kind": object.map(|(kind, _)| kind),
        "name": object.map(|(_, name)| name),
        "container": hint.container,
        "text": hint.text,
    })
}
