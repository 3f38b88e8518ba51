//! Pods that are wrong: one clear report, no write, and nothing else affected.

mod exit_images;
mod marks;
mod restart_policies;
mod statuses;

use serde_json::{Value, json};
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, read, sidecar};
use crate::expect::swaps;

/// A main that is done beside the container in question.
fn beside_done_main(container: ContainerBuilder) -> PodBuilder {
    pod("Never")
        .with(main_container("main").ended(0))
        .with(container)
}

fn ready() -> PodBuilder {
    beside_done_main(sidecar("sidecar").running())
}

#[test]
fn a_megabyte_of_annotations_changes_nothing() {
    let annotations = json!({"big": "x".repeat(1 << 20), "deep": "[".repeat(1 << 16)});
    let pod = ready().set("/metadata/annotations", annotations).set(
        "/metadata/managedFields",
        json!([{"fieldsV1": {"f:a": {}}}]),
    );
    swaps(&pod, &["sidecar"]);
}

#[test]
fn a_pod_without_an_address_is_not_read() {
    for place in ["/metadata/name", "/metadata/namespace", "/metadata/uid"] {
        for value in [Value::Null, json!("")] {
            assert_eq!(read(ready().set(place, value).json()), None, "{place}");
        }
    }
    assert_eq!(read(ready().set("/metadata", Value::Null).json()), None);
}

#[test]
fn only_json_that_is_no_object_fails_to_decode() {
    for json in ["null", "1", "\"pod\"", "[]", "[[]]", "true"] {
        let read = serde_json::from_str::<PodWire>(json)
            .ok()
            .and_then(PodWire::read);
        assert_eq!(read, None, "{json}");
    }
    assert!(serde_json::from_str::<PodWire>("{}").is_ok());
}

#[test]
fn deep_nesting_in_a_field_that_is_not_read_is_skipped() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let text = ready()
        .set("/metadata/managedFields", "DEEP")
        .json()
        .to_string()
        .replace("\"DEEP\"", &deep);
    let pod = serde_json::from_str::<PodWire>(&text)
        .expect("it decodes")
        .read()
        .expect("it reads");
    let expected = Pod {
        node_runs_on: pod.node_runs_on,
        ..ready().read()
    };
    assert_eq!(pod, expected);
}
