//! The schemas of the CRDs, as far as they can be judged without a cluster.

use serde_json::Value;

const REQUESTS: &str = include_str!("../../deploy/crds/containerrecreaterequests.yaml");
const CRDS: [&str; 5] = [
    REQUESTS,
    include_str!("../../deploy/crds/imagepulljobs.yaml"),
    include_str!("../../deploy/crds/imagelistpulljobs.yaml"),
    include_str!("../../deploy/crds/sidecarpolicies.yaml"),
    include_str!("../../deploy/crds/namespacedsidecarpolicies.yaml"),
];

/// Each schema in a schema, with where it is.
fn schemas<'a>(at: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    found.push((at.to_owned(), schema));
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.for_each(|(name, schema)| schemas(&format!("{at}.{name}"), schema, found));
    if let Some(items) = schema.get("items") {
        schemas(&format!("{at}[]"), items, found);
    }
}

/// Of each version that is served.
fn versions(crd: &str) -> Vec<Value> {
    let crd: Value = serde_saphyr::from_str(crd).unwrap();
    crd["spec"]["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["schema"]["openAPIV3Schema"].clone())
        .collect()
}

/// `format: int32` alone is not enforced, and one object with a larger number breaks every client
/// that lists them into an int32.
#[test]
fn d5_numbers_fit_into_what_clients_read_them_into() {
    for schema in CRDS.into_iter().flat_map(versions) {
        let mut found = Vec::new();
        schemas("", &schema, &mut found);
        let numbers: Vec<_> = found
            .iter()
            .filter(|(_, schema)| schema["format"] == "int32")
            .collect();
        assert!(numbers.len() >= 3, "{numbers:?}");
        for (at, schema) in numbers {
            let bound = |name: &str| {
                schema[name]
                    .as_i64()
                    .unwrap_or_else(|| panic!("{at} has no {name}"))
            };
            assert!(
                bound("minimum") >= i32::MIN.into() && bound("maximum") <= i32::MAX.into(),
                "{at}"
            );
        }
    }
}

/// What no label can be is no selector: the API server would answer each question for it with 400.
#[test]
fn d3_keys_and_values_of_selectors_are_those_of_labels() {
    for schema in CRDS.into_iter().skip(1).flat_map(versions) {
        let mut found = Vec::new();
        schemas("", &schema, &mut found);
        let expressions: Vec<_> = found
            .iter()
            .filter(|(at, _)| at.ends_with("matchExpressions[]"))
            .collect();
        assert!(!expressions.is_empty());
        for (at, schema) in expressions {
            let (key, values) = (
                &schema["properties"]["key"],
                &schema["properties"]["values"]["items"],
            );
            assert!(
                key["pattern"].is_string() && values["pattern"].is_string(),
                "{at}"
            );
        }
    }
}

/// What the API server checks of them is shown on a real one by
/// `the_crd_refuses_what_openkruises_webhook_refuses`.
#[test]
fn b5_d3_the_order_of_the_containers_stays_and_names_of_pods_are_names() {
    let schema = versions(REQUESTS).remove(0);
    let spec = &schema["properties"]["spec"];
    let rules: Vec<_> = spec["x-kubernetes-validations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["rule"].as_str().unwrap())
        .collect();
    assert!(
        rules.contains(&"self.containers.map(c, c.name) == oldSelf.containers.map(c, c.name)"),
        "{rules:?}"
    );
    let name = &spec["properties"]["podName"];
    assert_eq!(
        (&name["maxLength"], name["pattern"].as_str().is_some()),
        (&253.into(), true)
    );
}
