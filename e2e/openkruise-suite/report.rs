//! What the reports of a run say, in a form that is the same for each run that ends in the same
//! way.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// What the harness writes before an assertion that it leaves out.
const LEFT_OUT: &str = "left out: ";

/// One of OpenKruise's tests, as one run ended it.
pub struct Outcome {
    /// Its file, below `test/e2e/apps`.
    pub file: String,
    pub name: String,
    pub line: u64,
    pub passed: bool,
    /// The last step that it announced before it failed.
    failed_in: Option<String>,
    left_out: BTreeSet<String>,
    pub seconds: u64,
    pub message: String,
}

/// Those tests of a report of Ginkgo that were run, sorted.
pub fn outcomes(report: &str) -> Vec<Outcome> {
    let report: Value = serde_json::from_str(report).unwrap();
    let reports = report[0]["SpecReports"]
        .as_array()
        .expect("a report of Ginkgo");
    let ran = |report: &&Value| {
        report["LeafNodeType"] == "It" && !["skipped", "pending"].contains(&text(&report["State"]))
    };
    let mut outcomes: Vec<_> = reports.iter().filter(ran).map(outcome).collect();
    outcomes.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    outcomes
}

fn outcome(report: &Value) -> Outcome {
    let file = text(&report["LeafNodeLocation"]["FileName"]);
    let entries = report["ReportEntries"].as_array().into_iter().flatten();
    let left_out =
        entries.filter_map(|entry| Some(text(&entry["Name"]).strip_prefix(LEFT_OUT)?.to_owned()));
    let passed = report["State"] == "passed";
    Outcome {
        file: file
            .split_once("/apps/")
            .unwrap_or_else(|| panic!("{file}"))
            .1
            .to_owned(),
        name: text(&report["LeafNodeText"]).to_owned(),
        line: report["LeafNodeLocation"]["LineNumber"].as_u64().unwrap(),
        passed,
        failed_in: (!passed).then(|| last_step(report)),
        left_out: left_out.collect(),
        seconds: report["RunTime"].as_u64().unwrap_or_default() / 1_000_000_000,
        message: text(&report["Failure"]["Message"]).to_owned(),
    }
}

/// Steps come after a failure too, when the test cleans up; some names are drawn anew in each run.
fn last_step(report: &Value) -> String {
    let failed = report["Failure"]["TimelineLocation"]["Order"]
        .as_u64()
        .unwrap_or(u64::MAX);
    let steps = report["SpecEvents"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|event| {
            event["SpecEventType"] == "By"
                && event["TimelineLocation"]["Order"]
                    .as_u64()
                    .unwrap_or_default()
                    < failed
        });
    let mut steps = steps
        .map(|event| text(&event["Message"]))
        .filter(|step| !step.starts_with("Create job-"));
    steps.next_back().unwrap_or_default().to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What is compared with `result.json`: of each test how it ended, and how it ended in the second
/// run if it failed in the first.
pub fn result(strict: &[Outcome], lenient: &[Outcome]) -> Vec<Value> {
    let of = |outcome: &Outcome| {
        let mut told = Map::new();
        told.insert("file".into(), json!(outcome.file));
        told.insert("name".into(), json!(outcome.name));
        told.insert("passed".into(), json!(outcome.passed));
        if let Some(step) = &outcome.failed_in {
            told.insert("failed_in".into(), json!(step));
            let again = lenient
                .iter()
                .find(|again| (&again.file, &again.name) == (&outcome.file, &outcome.name));
            let again = again.map(|again| json!({"passed": again.passed, "failed_in": again.failed_in, "left_out": again.left_out}));
            told.insert("again".into(), json!(again));
        }
        Value::Object(told)
    };
    strict.iter().map(of).collect()
}
