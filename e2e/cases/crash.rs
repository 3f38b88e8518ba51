//! Nothing is lost when the controller comes late, dies, or sees the past.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::audit::{assert_nothing_but_swaps, assert_swapped_once, written_in};
use crate::controller::{Controller, Why};
use crate::pods::{
    EXITS_143, STOPS_SLOWLY, container, main_has_ended, main_ok, pod, sidecar, spec,
};
use crate::witness::Witness;
use crate::world::{World, eventually, lets_go_on};

#[tokio::test]
async fn the_controller_starts_after_the_mains_have_ended() {
    let world = World::new("late").await;
    for policy in ["Never", "OnFailure"] {
        let name = policy.to_lowercase();
        world
            .create_pod(pod(
                &name,
                spec(
                    policy,
                    vec![main_ok(&world), sidecar(&world, "log", EXITS_143)],
                ),
            ))
            .await;
        world
            .pod_is(&name, "done but for its sidecar", main_has_ended)
            .await;
    }
    let _controller = Controller::start(&world).await;
    world.pod_ends("never", "Succeeded").await;
    world.pod_ends("onfailure", "Succeeded").await;
    assert_swapped_once(&world.namespace, &["never", "onfailure"]);
    world.done().await;
}

/// Ends when the sidecar runs.
const WAITS: &str = "until test -e /shared/runs; do sleep 1; done";
/// Stops when it is told to go on.
const STOPS_WHEN_TOLD: &str = "trap 'until test -e /shared/go; do sleep 1; done; exit 143' TERM; \
    touch /shared/runs; sleep 3600 & wait";

/// A pod whose sidecar, once it is swapped, stops when it is told to go on.
fn stops_when_told(world: &World, policy: &str) -> Value {
    let mut containers = vec![
        container(world, "main", WAITS),
        sidecar(world, "log", STOPS_WHEN_TOLD),
    ];
    for container in &mut containers {
        container["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
    }
    let mut spec = spec(policy, containers);
    spec["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    // Longer than a life of the controller takes to begin.
    spec["terminationGracePeriodSeconds"] = 600.into();
    pod(&policy.to_lowercase(), spec)
}

/// The next life finds the exit image in the spec, writes nothing, and tells the end.
#[tokio::test]
async fn the_controller_is_killed_between_swap_and_evidence() {
    let world = World::new("killed").await;
    let controller = Controller::process(&world, &[], Why::KilledInAMoment).await;
    for policy in ["Never", "OnFailure"] {
        world.create_pod(stops_when_told(&world, policy)).await;
    }
    eventually("two swaps", || async {
        (written_in(&world.namespace)
            .iter()
            .filter(|write| write.is_applied_swap())
            .count()
            == 2)
            .then_some(())
    })
    .await;
    controller.kill().await;
    let _next = Controller::process(&world, &[], Why::KilledInAMoment).await;
    for name in ["never", "onfailure"] {
        lets_go_on(&world, name, "log").await;
    }
    world.pod_ends("never", "Succeeded").await;
    world.pod_ends("onfailure", "Succeeded").await;
    let ends = eventually("two ends", || async {
        let events = world.events(2).await;
        let ends: Vec<_> = events
            .into_iter()
            .filter(|(_, reason)| reason == "SidecarEnded")
            .map(|(pod, _)| pod)
            .collect();
        (ends.len() == 2).then_some(ends)
    })
    .await;
    assert_eq!(ends, ["never", "onfailure"]);
    assert_swapped_once(&world.namespace, &["never", "onfailure"]);
    world.done().await;
}

/// Killed again and again, at no particular moment: every pod ends, and none is swapped twice.
#[tokio::test]
async fn no_pod_is_stranded_by_a_controller_that_keeps_dying() {
    let world = World::new("dying").await;
    let names: Vec<_> = (0..8).map(|number| format!("pod-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let policy = if number % 2 == 0 {
            "Never"
        } else {
            "OnFailure"
        };
        let main = container(&world, "main", &format!("sleep {}", 2 + number));
        world
            .create_pod(pod(
                name,
                spec(policy, vec![main, sidecar(&world, "log", EXITS_143)]),
            ))
            .await;
    }
    for life in 0..12 {
        let controller = Controller::process(&world, &[], Why::KilledInAMoment).await;
        sleep(Duration::from_millis(150 + 97 * life)).await;
        controller.kill().await;
    }
    let _last = Controller::process(&world, &[], Why::KilledInAMoment).await;
    for name in &names {
        let pod = world.pod_ends(name, "Succeeded").await;
        // Of a write whose sender is killed meanwhile the audit log says 504, applied or not. The
        // generation counts what was applied.
        assert_eq!(
            pod.metadata.generation,
            Some(2),
            "{name}: its spec was changed once"
        );
    }
    assert_nothing_but_swaps(&world.namespace);
    world.done().await;
}

/// How long a kubelet may show nothing of a pod until it has lost it: it has removed the folder of
/// the second pod with that of the first, and never looked at it again (seen on a busy node).
const LOST_AFTER: Duration = Duration::from_secs(150);

/// Another pod with the name of a finished one: its sidecar lives as long as its own main runs.
/// Where the kubelet loses the second one, there is another try with another name.
#[tokio::test]
async fn a_pod_of_the_same_name_is_another_pod() {
    let world = World::new("same-name").await;
    let _controller = Controller::start(&world).await;
    for name in ["again", "again-2", "again-3"] {
        if is_another_pod(&world, name).await {
            return world.done().await;
        }
    }
    panic!("the kubelet has lost each second pod");
}

/// Returns false if the kubelet has lost the second pod.
async fn is_another_pod(world: &World, name: &str) -> bool {
    let containers = |seconds: u32| {
        vec![
            container(world, "main", &format!("sleep {seconds}")),
            sidecar(world, "log", STOPS_SLOWLY),
        ]
    };
    world
        .create_pod(pod(name, spec("Never", containers(1))))
        .await;
    world
        .pod_is(name, "done but for its sidecar", main_has_ended)
        .await;
    let at_once = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    world.api::<Pod>().delete(name, &at_once).await.unwrap();
    let second = world
        .create_pod(pod(name, spec("Never", containers(8))))
        .await;
    let uid = second.metadata.uid.unwrap();
    let ends = world.pod_is(name, "done but for its sidecar", main_has_ended);
    let Ok(ended) = timeout(LOST_AFTER, ends).await else {
        world.api::<Pod>().delete(name, &at_once).await.unwrap();
        return false;
    };
    assert_eq!(ended.metadata.uid.as_ref(), Some(&uid));
    world.pod_ends(name, "Succeeded").await;
    let swaps: Vec<_> = written_in(&world.namespace)
        .into_iter()
        .filter(crate::audit::Written::is_applied_swap)
        .collect();
    let of_the_second: Vec<_> = swaps
        .iter()
        .filter(|write| write.body[0]["value"] == uid.as_str())
        .collect();
    assert_eq!(of_the_second.len(), 1, "{swaps:#?}");
    true
}

/// The same by a scenario, `tests/scenarios/watches.rs`, where etcd is restored in earnest.
mod long {
    use super::*;

    /// A real API server keeps a watch from a version that it has not reached open, and is silent.
    #[tokio::test]
    async fn f5_a_restore_of_etcd_is_noticed_by_one_cheap_list() {
        let mut world = World::new("restored").await;
        let witness = Witness::of(&mut world).await;
        witness.next_list_is_ahead();
        let _controller = Controller::process(&world, &[], Why::Witnessed).await;
        eventually("the first list", || async {
            (witness.lists_of_pods() > 0).then_some(())
        })
        .await;
        let containers = vec![main_ok(&world), sidecar(&world, "log", EXITS_143)];
        world
            .create_pod(pod("p", spec("OnFailure", containers)))
            .await;
        world
            .pod_is("p", "done but for its sidecar", main_has_ended)
            .await;
        sleep(Duration::from_secs(10)).await;
        assert!(
            written_in(&world.namespace).is_empty(),
            "the watch from the future is silent"
        );
        world.pod_ends("p", "Succeeded").await;
        assert_eq!(witness.lists_of_pods(), 2);
        assert_swapped_once(&world.namespace, &["p"]);
        world.done().await;
    }
}
