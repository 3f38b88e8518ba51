//! docs/reliability.md has a row for each finding, the tests that it names are there, and as many
//! writes as it says.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

const TEXT: &str = include_str!("../../docs/reliability.md");

#[test]
fn every_test_that_a_finding_is_shown_by_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named: Vec<_> = TEXT
        .split('`')
        .filter_map(|word| word.split_once(".rs::"))
        .collect();
    assert!(named.len() > 40, "{named:?}");
    for (file, test) in named {
        let text = std::fs::read_to_string(root.join(format!("{file}.rs")))
            .unwrap_or_else(|error| panic!("{file}.rs: {error}"));
        assert!(
            text.contains(&format!("fn {test}(")),
            "{file}.rs has no test {test}"
        );
    }
}

/// What the first cells of the tables name: `bug 7`, or a letter and a number.
fn findings() -> BTreeSet<String> {
    let cells = TEXT
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let mut named = BTreeSet::new();
    for cell in cells {
        let mut kind = "";
        for word in cell.split(|letter: char| !letter.is_alphanumeric()) {
            let is_number = word.parse::<u8>().is_ok();
            match word {
                "" | "and" => continue,
                "bug" | "bugs" => kind = "bug ",
                _ if !is_number => kind = "",
                _ => {}
            }
            named.insert(format!("{kind}{word}"));
        }
    }
    named
}

/// So many were found by each of the trials.
#[test]
fn every_finding_has_a_row() {
    let named = findings();
    for (kind, count) in [
        ("A", 19),
        ("bug ", 14),
        ("V", 6),
        ("B", 8),
        ("I", 9),
        ("D", 7),
        ("T", 12),
        ("R", 21),
        ("L", 9),
        ("G", 6),
    ] {
        let all = (1..=count).map(|number| format!("{kind}{number}"));
        let has_a_row = |finding: &str| {
            let mut parts = ('a'..='d').map(|part| format!("{finding}{part}"));
            named.contains(finding) || parts.any(|part| named.contains(&part))
        };
        let missing: Vec<_> = all.filter(|finding| !has_a_row(finding)).collect();
        assert!(missing.is_empty(), "no row for {missing:?}");
    }
}

#[test]
fn as_many_writes_are_denied_and_let_through_as_is_said() {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/cases/leash/tables");
    let (mut denied, mut allowed) = (0, 0);
    for table in std::fs::read_dir(tables).unwrap() {
        let text = std::fs::read_to_string(table.unwrap().path()).unwrap();
        let table: Value = serde_saphyr::from_str(&text).unwrap();
        for group in table["writes"].as_array().unwrap() {
            allowed += 1;
            denied += group["deny"].as_array().unwrap().len();
        }
    }
    let said = format!("{denied} forbidden writes beside {allowed} that are let through");
    assert!(
        TEXT.contains(&said),
        "docs/reliability.md has another number: {said}"
    );
}

#[test]
fn each_part_of_the_long_tier_has_a_row_that_says_when_it_ran_last() {
    let tiers = include_str!("../../e2e/tiers");
    let parts = tiers
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" | "))
        .map(|(part, _)| part);
    let (_, table) = TEXT.split_once("### Each part\n").unwrap();
    let (table, _) = table.split_once("\n#").unwrap();
    for part in parts.chain(["hunt", "worlds", "release", "fuzzing"]) {
        let rows = table.matches(&format!("\n| {part} | ")).count();
        assert_eq!(rows, 1, "docs/reliability.md has {rows} rows for {part}");
    }
}
