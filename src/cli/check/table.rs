//! The report as a table like kubectl's, as JSON or as YAML.

use std::fmt::Write;

use serde_json::{Value, json};

use super::rows::Row;
use super::{Output, Report};

/// Between columns, as in kubectl.
const GAP: usize = 3;

pub(super) fn render(report: &Report, output: Output) -> anyhow::Result<String> {
    Ok(match output {
        Output::Table | Output::Wide if report.rows.is_empty() => String::new(),
        Output::Table => table(&report.rows, false),
        Output::Wide => table(&report.rows, true),
        Output::Json => format!("{:#}\n", value(report)),
        Output::Yaml => serde_saphyr::to_string(&value(report))?,
    })
}

fn table(rows: &[Row], wide: bool) -> String {
    let namespaces = rows.iter().any(|row| row.namespace.is_some());
    let mut lines = vec![header(namespaces, wide)];
    lines.extend(rows.iter().map(|row| cells(row, namespaces, wide)));
    let columns = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default() + GAP;
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(row, "{cell:width$}");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

fn header(namespaces: bool, wide: bool) -> Vec<String> {
    let mut header = if namespaces { vec!["NAMESPACE"] } else { Vec::new() };
    header.extend(["NAME", "CONTAINER", "VERDICT", "EXECUTES"]);
    if wide {
        header.extend(["FILE", "NOTES"]);
    }
    header.push("WHAT TO DO");
    header.into_iter().map(str::to_owned).collect()
}

fn cells(row: &Row, namespaces: bool, wide: bool) -> Vec<String> {
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let mut cells = if namespaces { vec![dash(row.namespace.as_deref().unwrap_or_default().to_owned())] } else { Vec::new() };
    cells.extend([format!("{}/{}", row.kind, row.name), row.container.to_string(), row.verdict().to_owned()]);
    cells.push(dash(row.executes().unwrap_or_default()));
    if wide {
        cells.extend([dash(row.file.clone().unwrap_or_default()), dash(row.notes.join("; "))]);
    }
    cells.push(dash(row.to_do()));
    // What a manifest says must not be able to draw on the terminal.
    cells.into_iter().map(|cell| cell.chars().map(|c| if c.is_control() { '?' } else { c }).collect()).collect()
}

fn value(report: &Report) -> Value {
    let fine = report.rows.iter().filter(|row| row.is_fine()).count();
    json!({
        "sidecars": report.rows.iter().map(entry).collect::<Vec<_>>(),
        "problems": report.problems.iter().map(|problem| format!("{problem:#}")).collect::<Vec<_>>(),
        "summary": {"podTemplates": report.templates, "sidecars": report.rows.len(), "ok": fine, "notOk": report.rows.len() - fine},
    })
}

fn entry(row: &Row) -> Value {
    json!({
        "file": row.file,
        "namespace": row.namespace,
        "kind": row.kind,
        "name": row.name,
        "place": row.place,
        "container": row.container,
        "verdict": row.verdict(),
        "ok": row.is_fine(),
        "reason": row.reason().map(|reason| reason.to_string()),
        "executes": row.executes(),
        "paths": row.paths(),
        "couldBeNative": row.could_be_native(),
        "whatToDo": row.to_do(),
        "notes": row.notes,
    })
}
