//! The presets of SidecarPolicies stand in `docs/sidecars.md`, and the chart opens their containers.

use serde_json::Value;

use crate::markdown::root;

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

fn words(list: &Value) -> Vec<String> {
    let words = list.as_array().unwrap().iter();
    words
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_preset_has_its_row_and_its_containers_may_be_ended_where_policies_are_on() {
    let presets: Value = serde_saphyr::from_str(&read("src/core/policies/presets.yaml")).unwrap();
    let document = read("docs/sidecars.md");
    let mut containers = Vec::new();
    for preset in presets.as_array().unwrap() {
        let own = words(&preset["containers"]);
        let quoted: Vec<_> = own.iter().map(|name| format!("`{name}`")).collect();
        let row = format!(
            "| `{}` | {} | {} |\n",
            preset["name"].as_str().unwrap(),
            quoted.join(", "),
            preset["source"].as_str().unwrap()
        );
        assert!(document.contains(&row), "docs/sidecars.md lacks {row}");
        containers.extend(own);
    }
    let values: Value = serde_saphyr::from_str(&read("deploy/chart/values.yaml")).unwrap();
    let mut opened = words(&values["sidecarPolicies"]["containers"]);
    containers.sort_unstable();
    opened.sort_unstable();
    assert_eq!(opened, containers);
}
