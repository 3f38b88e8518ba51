//! The tests that docs/reliability.md names are there, and as many writes as it says.

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
