//! Sidecars as their charts, operators and manuals start them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::command::in_pod;

fn table() -> Vec<Value> {
    serde_saphyr::from_str(include_str!("sidecars.yaml")).unwrap()
}

#[test]
fn every_sidecar_gets_its_verdict() {
    let mut wrong = Vec::new();
    for case in table() {
        let pod = json!({"volumes": case["volumes"], "nodeSelector": case["nodeSelector"]});
        let verdict = in_pod(&case["container"], &pod);
        if case["verdict"] != verdict.as_str() {
            wrong.push(format!(
                "{}: {verdict}, not {}",
                case["name"], case["verdict"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn there_are_at_least_sixty_and_each_has_a_name_and_a_source() {
    let table = table();
    let names: BTreeSet<&str> = table
        .iter()
        .map(|case| case["name"].as_str().unwrap())
        .collect();
    assert!(
        names.len() >= 60 && names.len() == table.len(),
        "{}",
        names.len()
    );
    assert!(table.iter().all(|case| {
        case["source"]
            .as_str()
            .is_some_and(|source| source.len() > 10)
    }));
}
