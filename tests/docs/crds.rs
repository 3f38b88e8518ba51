//! The schemas of the CRDs, as far as they can be judged without a cluster.

use serde_json::Value;

const REQUESTS: &str = include_str!("../../deploy/crds/containerrecreaterequests.yaml");

/// Each schema in a schema, with where it is.
fn schemas<'a>(at: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    found.push((at.to_owned(), schema));
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.for_each(|(name, schema)| schemas(&format!("{at}.{name}"), schema, found));
    if let Some(items) = schema.get("items") {
        schemas(&format!("{at}[]"), items, found);
    }
}

fn of_requests() -> Value {
    let crd: Value = serde_saphyr::from_str(REQUESTS).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// `format: int32` alone is not enforced, and one object with a larger number breaks every client that lists them into an int32.
#[test]
fn d5_numbers_of_requests_fit_into_what_clients_read_them_into() {
    let (schema, mut found) = (of_requests(), Vec::new());
    schemas("", &schema, &mut found);
    let numbers: Vec<_> = found.iter().filter(|(_, schema)| schema["format"] == "int32").collect();
    assert!(numbers.len() >= 5, "{numbers:?}");
    for (at, schema) in numbers {
        let bound = |name: &str| schema[name].as_i64().unwrap_or_else(|| panic!("{at} has no {name}"));
        assert!(bound("minimum") >= i32::MIN.into() && bound("maximum") <= i32::MAX.into(), "{at}");
    }
}

/// What the API server checks of them is shown on a real one by `the_crd_refuses_what_openkruises_webhook_refuses`.
#[test]
fn b5_d3_the_order_of_the_containers_stays_and_names_of_pods_are_names() {
    let spec = &of_requests()["properties"]["spec"];
    let rules: Vec<_> = spec["x-kubernetes-validations"].as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert!(rules.contains(&"self.containers.map(c, c.name) == oldSelf.containers.map(c, c.name)"), "{rules:?}");
    let name = &spec["properties"]["podName"];
    assert_eq!((&name["maxLength"], name["pattern"].as_str().is_some()), (&253.into(), true));
}
