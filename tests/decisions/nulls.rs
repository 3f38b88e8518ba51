//! Fields that are null: they are absent, and never a reason for a wrong write.

use serde_json::Value;
use swaplet_core::report::reason::Reason;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, read, sidecar};
use crate::expect::{EXIT, Life, assert_silent};

fn ready() -> PodBuilder {
    pod("Never")
        .with(main_container("main").ended(0))
        .with(sidecar("sidecar").running())
}

/// Every place of a pod that is read.
const PLACES: [&str; 28] = [
    "/metadata/deletionTimestamp",
    "/metadata/ownerReferences",
    "/spec",
    "/spec/restartPolicy",
    "/spec/terminationGracePeriodSeconds",
    "/spec/containers",
    "/spec/containers/0/name",
    "/spec/containers/0/image",
    "/spec/containers/0/restartPolicy",
    "/spec/containers/0/env",
    "/spec/containers/1/name",
    "/spec/containers/1/image",
    "/spec/containers/1/env",
    "/spec/containers/1/env/1/name",
    "/spec/containers/1/env/1/value",
    "/spec/containers/1/env/1/valueFrom",
    "/status",
    "/status/phase",
    "/status/containerStatuses",
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

/// I1, I2: whatever is null, only a marked container beside a main that is done is ever written.
#[test]
fn null_in_any_field_leaves_at_most_the_right_swap() {
    for place in PLACES {
        let mut json = ready().json();
        put(&mut json, place, Value::Null);
        let pod = read(json).expect("the address is intact");
        let decision = Life::new().sees_pod(&pod);
        let swaps = decision.swaps();
        assert!(
            swaps
                .iter()
                .all(|swap| swap.index == 1 && *swap.to == *EXIT),
            "{place}: {swaps:?}"
        );
        assert!(swaps.len() <= 1, "{place}");
    }
}

/// The same while the main runs: no null may pass for its end.
#[test]
fn null_in_any_field_of_a_running_pod_writes_nothing() {
    for place in PLACES {
        let mut json = ready().but("main", ContainerBuilder::running).json();
        put(&mut json, place, Value::Null);
        let decision = Life::new().sees_pod(&read(json).expect("the address is intact"));
        assert_eq!(decision.swaps(), vec![], "{place}");
    }
}

/// A strange status of a pod that nobody marked is nobody's business of ours.
#[test]
fn null_in_the_status_of_an_unmarked_pod_is_silent() {
    let foreign = pod("Never").with(main_container("main").ended(0));
    assert_silent(
        &foreign
            .phase("Running")
            .set("/status/conditions", Value::Null)
            .set("/status/phase", Value::Null),
        Reason::NoSidecar,
    );
}
