//! How OpenKruise's own tests end against swaplet: the tables of `docs/parity.md` are made of what
//! `./test long` compares its runs with.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

const BEGIN: &str =
    "<!-- Made of e2e/openkruise-suite/result.json and reasons.yaml by tests/docs/suite.rs. -->\n";
const END: &str = "<!-- Made so far. -->";

/// How one of the tests ended.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    file: String,
    name: String,
    passed: bool,
    failed_in: Option<String>,
    again: Option<Again>,
}

/// How it ended without what differs on purpose.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Again {
    passed: bool,
    failed_in: Option<String>,
    left_out: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reasons {
    left_out: BTreeMap<String, String>,
    fails: BTreeMap<String, String>,
    not_applicable: BTreeMap<String, String>,
}

impl Ended {
    fn title(&self) -> String {
        format!("`{}`: {}", self.file, self.name)
    }

    fn passes_in_the_end(&self) -> bool {
        self.passed || self.again.as_ref().is_some_and(|again| again.passed)
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn results() -> Vec<Ended> {
    serde_json::from_str(&read("e2e/openkruise-suite/result.json")).unwrap()
}

fn reasons() -> Reasons {
    serde_saphyr::from_str(&read("e2e/openkruise-suite/reasons.yaml")).unwrap()
}

/// The tables. What is left out has a letter.
fn tables(results: &[Ended], reasons: &Reasons) -> String {
    let letters: BTreeMap<&str, char> = reasons
        .left_out
        .keys()
        .map(String::as_str)
        .zip('A'..='Z')
        .collect();
    let count = |which: fn(&Ended) -> bool| results.iter().filter(|ended| which(ended)).count();
    let mut text = format!(
        "\nOf {} tests {} pass as they are, {} pass without what differs on purpose, and {} fail.\n\n",
        results.len(),
        count(|ended| ended.passed),
        count(|ended| !ended.passed && ended.passes_in_the_end()),
        count(|ended| !ended.passes_in_the_end()),
    );
    text.push_str("| test | as it is | left out | then |\n|---|---|---|---|\n");
    for ended in results {
        let failed =
            |step: &Option<String>| format!("fails in \"{}\"", step.as_deref().unwrap_or_default());
        let first = if ended.passed {
            "passes".to_owned()
        } else {
            failed(&ended.failed_in)
        };
        let (left_out, then) = ended.again.as_ref().map_or_else(Default::default, |again| {
            let left_out: Vec<_> = again
                .left_out
                .iter()
                .map(|what| letters[&**what].to_string())
                .collect();
            let then = if again.passed {
                "passes".to_owned()
            } else {
                failed(&again.failed_in)
            };
            (left_out.join(", "), then)
        });
        let why = reasons
            .fails
            .get(&ended.title())
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        writeln!(
            text,
            "| {} | {first} | {left_out} | {then}{why} |",
            ended.title()
        )
        .unwrap();
    }
    text.push_str("\n| | left out | why |\n|---|---|---|\n");
    for (what, why) in &reasons.left_out {
        writeln!(text, "| {} | {what} | {why} |", letters[&**what]).unwrap();
    }
    text.push_str("\n| not run | why |\n|---|---|\n");
    for (test, why) in &reasons.not_applicable {
        writeln!(text, "| {test} | {why} |").unwrap();
    }
    text.push('\n');
    text
}

#[test]
fn the_table_of_openkruises_own_tests_is_what_their_run_gave() {
    let document = read("docs/parity.md");
    let (before, rest) = document.split_once(BEGIN).unwrap();
    let (made, after) = rest.split_once(END).unwrap();
    let tables = tables(&results(), &reasons());
    if std::env::var_os("SWAPLET_UPDATE_DOCS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parity.md");
        fs::write(path, format!("{before}{BEGIN}{tables}{END}{after}")).unwrap();
        return;
    }
    assert!(
        made == tables,
        "docs/parity.md: SWAPLET_UPDATE_DOCS=1 cargo test --test docs"
    );
}

/// Nothing differs, fails or is left out without a reason, and no reason is there for nothing.
#[test]
fn what_differs_in_openkruises_own_tests_has_a_reason() {
    let (results, reasons) = (results(), reasons());
    let left_out = results
        .iter()
        .filter_map(|ended| ended.again.as_ref())
        .flat_map(|again| again.left_out.iter().cloned());
    let left_out: BTreeSet<_> = left_out.collect();
    assert_eq!(
        left_out,
        reasons.left_out.into_keys().collect::<BTreeSet<_>>()
    );
    let failing = results
        .iter()
        .filter(|ended| !ended.passes_in_the_end())
        .map(Ended::title);
    assert_eq!(
        failing.collect::<BTreeSet<_>>(),
        reasons.fails.into_keys().collect::<BTreeSet<_>>()
    );
    for again in results.iter().filter_map(|ended| ended.again.as_ref()) {
        assert!(
            !again.left_out.is_empty() || !again.passed,
            "a test that passes in the second run only by chance"
        );
    }
    let patch = read("e2e/modules/openkruise-suite/2-left-out.patch");
    let words: BTreeSet<_> = patch
        .split("LeavesOut(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(
        words,
        left_out.iter().map(String::as_str).collect::<BTreeSet<_>>()
    );
}
