//! The tests that docs/reliability.md names are there.

use std::path::Path;

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
