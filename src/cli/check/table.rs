//! The rows of the report, and the report for programs.

use serde_json::{Value, json};

use super::super::table::{Output, dash, render as print};
use super::Report;
use super::rows::Row;

pub(super) fn render(report: &Report, output: Output) -> anyhow::Result<String> {
    let (namespaces, wide) = (
        report.rows.iter().any(|row| row.namespace.is_some()),
        output == Output::Wide,
    );
    let mut lines = vec![header(namespaces, wide)];
    lines.extend(report.rows.iter().map(|row| cells(row, namespaces, wide)));
    print(output, &lines, &value(report))
}

fn header(namespaces: bool, wide: bool) -> Vec<String> {
    let mut header = if namespaces {
        vec!["NAMESPACE"]
    } else {
        Vec::new()
    };
    header.extend(["NAME", "CONTAINER", "VERDICT", "EXECUTES"]);
    if wide {
        header.extend(["FILE", "NOTES"]);
    }
    header.push("WHAT TO DO");
    header.into_iter().map(str::to_owned).collect()
}

fn cells(row: &Row, namespaces: bool, wide: bool) -> Vec<String> {
    let mut cells = if namespaces {
        vec![dash(row.namespace.as_deref().unwrap_or_default())]
    } else {
        Vec::new()
    };
    cells.extend([
        format!("{}/{}", row.kind, row.name),
        row.container.to_string(),
        row.verdict().to_owned(),
    ]);
    cells.push(dash(row.executes().unwrap_or_default()));
    if wide {
        cells.extend([
            dash(row.file.clone().unwrap_or_default()),
            dash(row.notes.join("; ")),
        ]);
    }
    cells.push(dash(row.to_do()));
    cells
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
