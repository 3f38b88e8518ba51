//! A claim is as good as the version that it was measured on: each row of docs/measured.md has a
//! result of a version of Kubernetes that was supported on the day that `kubernetes.yaml` names.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::markdown::root;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Versions {
    until: BTreeMap<String, String>,
    day: String,
    /// Rows that may be old, and why.
    history: BTreeMap<String, String>,
}

/// The versions such as 1.37 in a text.
fn versions(text: &str) -> Vec<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let is_one = |word: &&str| {
        let minor = word.strip_prefix("1.").unwrap_or_default();
        minor.len() == 2 && minor.bytes().all(|byte| byte.is_ascii_digit())
    };
    words.filter(is_one).collect()
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim_matches('|');
    inner.split('|').map(str::trim).collect()
}

/// Each row that names versions, by the cell that says what was tried, with those that it has a
/// result of.
fn measured(text: &str) -> Vec<(&str, Vec<&str>)> {
    let (mut head, mut found) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if !line.starts_with('|') {
            head.clear();
            continue;
        }
        let row = cells(line);
        if head.is_empty() {
            head = row;
            continue;
        }
        if row[0].starts_with("---") {
            continue;
        }
        // A row about no kubelet names none.
        let kubelet = head.iter().position(|head| *head == "kubelet");
        let of: Vec<_> = match kubelet {
            Some(column) => versions(row[column]),
            None => {
                let results = head.iter().zip(&row);
                let tried = results.filter(|(_, cell)| **cell != "not tried");
                tried.flat_map(|(head, _)| versions(head)).collect()
            }
        };
        if !of.is_empty() || kubelet.is_none() && head.iter().any(|head| !versions(head).is_empty())
        {
            let what = head.iter().position(|head| *head == "what was tried");
            found.push((row[what.unwrap_or_default()], of));
        }
    }
    found
}

/// The rows without a result of a version that was supported on this day.
fn stale(text: &str, until: &BTreeMap<String, String>, day: &str) -> Vec<String> {
    let is_supported = |version: &&str| until.get(*version).is_some_and(|until| &**until >= day);
    let mut rows = measured(text);
    rows.retain(|(_, of)| !of.iter().any(is_supported));
    rows.into_iter().map(|(what, _)| what.to_owned()).collect()
}

#[test]
fn each_measured_row_is_of_a_supported_version() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let Versions {
        until,
        day,
        history,
    } = serde_saphyr::from_str(&read("tests/docs/kubernetes.yaml")).unwrap();
    let text = read("docs/measured.md");
    assert!(measured(&text).len() > 40, "{}", measured(&text).len());
    let old = stale(&text, &until, &day);
    assert_eq!(
        BTreeSet::from_iter(old.iter()),
        history.keys().collect(),
        "measure these rows of docs/measured.md on a supported version, or say in tests/docs/kubernetes.yaml why that is not needed"
    );
    assert!(history.values().all(|why| !why.is_empty()));

    let [everyday, of_kind] = ["cluster", "kind"].map(|module| {
        let modules = read(&format!("e2e/modules/{module}/go.mod"));
        let (_, version) = modules.split_once("k8s.io/kubernetes v").unwrap();
        version.split_whitespace().next().unwrap().to_owned()
    });
    assert_eq!(of_kind, everyday, "the clusters have one version");
    let everyday: Vec<_> = everyday.split('.').take(2).collect();
    let everyday = everyday.join(".");
    assert!(
        until.get(&everyday).is_some_and(|until| *until >= day),
        "Kubernetes {everyday} of the everyday cluster is not supported on {day}, by tests/docs/kubernetes.yaml"
    );
}

#[test]
fn a_row_is_stale_where_only_old_versions_have_a_result() {
    let table = "| row | what was tried | 1.30 | 1.34 | 1.37 |\n|---|---|---|---|---|\n\
        | 1 | new | S | S | S |\n| 2 | old | S | S | not tried |\n\
        | 3 | none | not tried | not tried | not tried |\n\n\
        | pod | 1.34 |\n|---|---|\n| before | S |\n\n\
        | restarts | kubelet | result |\n|---|---|---|\n| seen | 1.34, 1.37 | x |\n| gone | 1.34 | x |\n| other | - | x |\n\n\
        | the provider | Never |\n|---|---|\n| 1.34 | x |\n";
    let until = [("1.34", "2026-10-27"), ("1.37", "2027-10-28")];
    let until = until
        .map(|(version, day)| (version.to_owned(), day.to_owned()))
        .into();
    assert_eq!(
        stale(table, &until, "2026-11-28"),
        ["old", "none", "before", "gone"]
    );
    assert_eq!(stale(table, &until, "2026-10-27"), ["none"]);
    assert_eq!(stale(table, &until, "2027-10-29").len(), 6);
}
