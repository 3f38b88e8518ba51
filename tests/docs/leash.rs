//! The tables of writes that the leash denies (`e2e/cases/leash/tables`), as far as they can be
//! judged without a cluster.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// Policies about users, who have cases of their own (`e2e/cases/leash/asked.rs`).
const OF_USERS: [&str; 2] = ["requests", "pull-jobs"];

fn read(file: &Path) -> Vec<Value> {
    let text =
        std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The words that a policy may say.
fn words(policy: &Value) -> String {
    let of = |validation: &Value| {
        format!(
            "{} {} ",
            validation["message"].as_str().unwrap_or(""),
            validation["messageExpression"].as_str().unwrap_or("")
        )
    };
    policy["spec"]["validations"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect()
}

/// Looks through the table of a policy; gives how many writes it denies.
fn writes_of(name: &str, policy: &Value, table: &Value) -> usize {
    let mut denied = 0;
    let says = table["says"].as_object().unwrap();
    for said in says.values() {
        // What follows a name is put together when it is said.
        let said = said
            .as_str()
            .unwrap()
            .trim_end_matches("main")
            .trim_end_matches(" 30");
        assert!(words(policy).contains(said), "{name} never says {said:?}");
    }
    let mut used = BTreeSet::new();
    for group in table["writes"].as_array().unwrap() {
        assert!(
            group["let"].is_object(),
            "{name}: what is let through, beside {group}"
        );
        let lines = group["deny"].as_array().unwrap();
        assert!(
            !lines.is_empty(),
            "{name}: {group} is near nothing that is denied"
        );
        used.extend(
            lines
                .iter()
                .map(|line| line["says"].as_str().unwrap().to_owned()),
        );
        denied += lines.len();
    }
    assert_eq!(
        used,
        says.keys().cloned().collect(),
        "{name}: each of its words is said by some line"
    );
    denied
}

#[test]
fn every_policy_has_a_table_and_every_write_that_is_denied_an_honest_neighbour() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let policies: Vec<_> = read(&root.join("deploy/leash.yaml"))
        .into_iter()
        .filter(|object| object["kind"] == "ValidatingAdmissionPolicy")
        .collect();
    let folder = root.join("e2e/cases/leash/tables");
    let all: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let (mut denied, mut seen) = (0, BTreeSet::new());
    for policy in &policies {
        let name = policy["metadata"]["name"]
            .as_str()
            .unwrap()
            .trim_start_matches("swaplet-leash-");
        if OF_USERS.contains(&name) {
            continue;
        }
        // What belongs to one feature has a table of its own: POLICY.FEATURE.yaml.
        let own = format!("{name}.");
        let tables: Vec<_> = all.iter().filter(|file| file.starts_with(&own)).collect();
        assert!(tables.contains(&&format!("{name}.yaml")), "{name}");
        for file in tables {
            let table = read(&folder.join(file)).remove(0);
            assert_eq!(table["policy"], name);
            seen.insert(file.clone());
            denied += writes_of(name, policy, &table);
        }
    }
    assert_eq!(seen, all, "no table without a policy");
    assert!(denied >= 250, "{denied} writes");
}
