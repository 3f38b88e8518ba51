//! Fields of JSON types that Kubernetes does not allow for them: told where it matters, and never a
//! wrong write.

use serde_json::{Value, json};
use swaplet_core::report::reason::Reason;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, read, sidecar};
use crate::expect::{EXIT, Life, assert_silent};

fn ready() -> PodBuilder {
    pod("Never")
        .with(main_container("main").ended(0))
        .with(sidecar("sidecar").running())
}

/// Every place of a pod that is read.
const PLACES: [&str; 32] = [
    "/metadata/deletionTimestamp",
    "/metadata/ownerReferences",
    "/spec",
    "/spec/restartPolicy",
    "/spec/terminationGracePeriodSeconds",
    "/spec/containers",
    "/spec/containers/0",
    "/spec/containers/0/name",
    "/spec/containers/0/image",
    "/spec/containers/0/restartPolicy",
    "/spec/containers/0/env",
    "/spec/containers/1",
    "/spec/containers/1/name",
    "/spec/containers/1/image",
    "/spec/containers/1/env",
    "/spec/containers/1/env/1",
    "/spec/containers/1/env/1/name",
    "/spec/containers/1/env/1/value",
    "/spec/containers/1/env/1/valueFrom",
    "/status",
    "/status/phase",
    "/status/containerStatuses",
    "/status/containerStatuses/0",
    "/status/containerStatuses/0/name",
    "/status/containerStatuses/0/state",
    "/status/containerStatuses/0/state/terminated",
    "/status/containerStatuses/0/lastState",
    "/status/containerStatuses/1/image",
    "/status/containerStatuses/1/containerID",
    "/status/containerStatuses/1/restartCount",
    "/status/containerStatuses/1/state",
    "/status/initContainerStatuses",
];

fn put(json: &mut Value, place: &str, value: Value) {
    let (parent, key) = place.rsplit_once('/').unwrap();
    match json.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        object => object[key] = value,
    }
}

fn wrong_values() -> [Value; 7] {
    [
        Value::Null,
        json!(true),
        json!(-1),
        json!(0.5),
        json!("text"),
        json!(["x", null]),
        json!({"x": {}}),
    ]
}

/// I1, I2: whatever has the wrong type, only a marked container beside a main that is done is ever
/// written.
#[test]
fn any_wrong_type_in_any_field_leaves_at_most_the_right_swap() {
    for place in PLACES {
        for value in wrong_values() {
            let mut json = ready().json();
            put(&mut json, place, value.clone());
            let pod = read(json).expect("the address is intact");
            let decision = Life::new().sees_pod(&pod);
            assert!(
                decision
                    .swaps()
                    .iter()
                    .all(|swap| swap.index == 1 && *swap.to == *EXIT),
                "{place} = {value}: {decision:?}"
            );
            assert!(decision.swaps().len() <= 1, "{place} = {value}");
        }
    }
}

/// The same while the main runs: nothing of the wrong type may pass for its end.
#[test]
fn any_wrong_type_in_any_field_of_a_running_pod_writes_nothing() {
    // Without its name, or as no object at all, container 0 is no main any more: but then the pod
    // is told as malformed.
    for place in PLACES {
        for value in wrong_values().into_iter().filter(|value| {
            *place != *"/status/containerStatuses/0/state/terminated" || !value.is_object()
        }) {
            let mut json = ready().but("main", ContainerBuilder::running).json();
            put(&mut json, place, value.clone());
            let decision = Life::new().sees_pod(&read(json).expect("the address is intact"));
            assert_eq!(decision.swaps(), vec![], "{place} = {value}");
        }
    }
}

#[test]
fn a_wrong_type_where_roles_and_ends_are_read_is_told() {
    let places = [
        "/metadata/ownerReferences",
        "/spec",
        "/spec/containers",
        "/spec/containers/1",
        "/spec/containers/1/env",
        "/status",
        "/status/containerStatuses",
        "/status/containerStatuses/1/restartCount",
        "/status/initContainerStatuses",
    ];
    for place in places {
        let mut json = ready().json();
        put(&mut json, place, json!("text"));
        let decision = Life::new().sees_pod(&read(json).unwrap());
        assert_eq!(
            decision
                .reports
                .iter()
                .map(|report| report.reason)
                .collect::<Vec<_>>(),
            [Reason::PodMalformed],
            "{place}"
        );
        assert_eq!(decision.swaps(), vec![], "{place}");
    }
}

/// A strange status of a pod that nobody marked is nobody's business of ours.
#[test]
fn a_wrong_type_in_the_status_of_an_unmarked_pod_is_silent() {
    let foreign = pod("Never").with(main_container("main").ended(0));
    assert_silent(
        &foreign.clone().phase("Running").set("/status/phase", 5),
        Reason::NoSidecar,
    );
    assert_silent(
        &foreign
            .set("/status/conditions", "text")
            .set("/spec/restartPolicy", 5),
        Reason::NoSidecar,
    );
}
