//! What OpenKruise's daemon is asked for, and what happens without it.

use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::audit::written_in;
use crate::install::OpenKruise;
use crate::pods::{EXITS_0, EXITS_143, main_ok, pod, sidecar, spec};
use crate::process::Process;
use crate::world::{World, eventually};

/// Within this, in seconds, the next way is taken.
const MINUTE: f64 = 60.0;

/// A pod whose sidecar has its program on a volume: whatever image it gets, the same program runs
/// again.
fn program_on_a_volume(world: &World, policy: &str) -> Value {
    let mount = json!([{"name": "tools", "mountPath": "/tools"}]);
    let copy = "cat /bin/busybox > /tools/sh; /bin/busybox chmod 755 /tools/sh";
    let install = json!({"name": "install", "image": world.images.work, "args": [copy], "volumeMounts": mount});
    let mut log = sidecar(world, "log", EXITS_0);
    log["command"] = json!(["/tools/sh", "-c"]);
    log["volumeMounts"] = mount;
    let mut spec = spec(policy, vec![main_ok(world), log]);
    spec["initContainers"] = json!([install]);
    spec["volumes"] = json!([{"name": "tools", "emptyDir": {}}]);
    pod(&policy.to_lowercase(), spec)
}

/// The requests to the daemon that the controller has made: the pod of each.
fn asked(world: &World) -> Vec<String> {
    let written = written_in(&world.namespace)
        .into_iter()
        .filter(|write| write.resource == "containerrecreaterequests");
    written
        .map(|write| write.body["spec"]["podName"].as_str().unwrap().to_owned())
        .collect()
}

/// The reasons of our Events about a pod, in the order of their times, with the seconds since the
/// first.
async fn story(world: &World, pod: &str) -> Vec<(String, f64)> {
    let mut events: Vec<_> = world
        .api::<Event>()
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    events.retain(|event| event.reporting_controller.as_deref() == Some("swaplet.io/controller"));
    events
        .retain(|event| event.regarding.as_ref().and_then(|pod| pod.name.as_deref()) == Some(pod));
    events.sort_by_key(|event| event.event_time.as_ref().unwrap().0);
    let first = events
        .first()
        .map(|event| event.event_time.as_ref().unwrap().0);
    let since = |event: &Event| {
        (event.event_time.as_ref().unwrap().0 - first.unwrap())
            .total(jiff::Unit::Second)
            .unwrap()
    };
    events
        .iter()
        .map(|event| (event.reason.clone().unwrap(), since(event)))
        .collect()
}

async fn tells(world: &World, pod: &str, reasons: &[&str]) -> Vec<f64> {
    let story = eventually(&format!("{reasons:?} about {pod}"), || async {
        let story = story(world, pod).await;
        (story.len() >= reasons.len()).then_some(story)
    })
    .await;
    assert_eq!(
        story.iter().map(|(reason, _)| reason).collect::<Vec<_>>(),
        reasons,
        "{pod}"
    );
    story.into_iter().map(|(_, at)| at).collect()
}

pub async fn a_command_on_a_volume_is_ended_by_the_daemon(world: &World) {
    let _controller = Process::start_beside_openkruise(world, &["--finish=never"]).await;
    for policy in ["Never", "OnFailure"] {
        world.create_pod(program_on_a_volume(world, policy)).await;
    }
    for name in ["never", "onfailure"] {
        world.pod_ends(name, "Succeeded").await;
        tells(world, name, &["RecreateRequested", "SidecarEnded"]).await;
    }
    let mut asked = asked(world);
    asked.sort();
    assert_eq!(asked, ["never", "onfailure"]);
}

pub async fn the_daemon_is_asked_first_where_that_is_preferred(world: &World) {
    let _controller = Process::start_beside_openkruise(world, &["--prefer=crr"]).await;
    // What one pod has shown of its sidecar is nothing about another's.
    for name in ["first", "second"] {
        world
            .create_pod(pod(
                name,
                spec(
                    "OnFailure",
                    vec![main_ok(world), sidecar(world, "log", EXITS_143)],
                ),
            ))
            .await;
        world.pod_ends(name, "Succeeded").await;
        tells(
            world,
            name,
            &["RecreateRequested", "RecreateFailed", "SidecarEnded"],
        )
        .await;
    }
    assert_eq!(asked(world), ["first", "second"]);
}

pub async fn a_daemon_that_is_dead_costs_less_than_a_minute(
    world: &World,
    openkruise: &OpenKruise,
) {
    let _controller = Process::start_beside_openkruise(world, &["--prefer=crr"]).await;
    openkruise.stop_daemon();
    for (policy, name) in [("Never", "log"), ("OnFailure", "proxy")] {
        let containers = vec![main_ok(world), sidecar(world, name, EXITS_143)];
        world
            .create_pod(pod(&policy.to_lowercase(), spec(policy, containers)))
            .await;
    }
    for name in ["never", "onfailure"] {
        world.pod_ends(name, "Succeeded").await;
        let times = tells(
            world,
            name,
            &["RecreateRequested", "RecreateUnanswered", "SidecarEnded"],
        )
        .await;
        assert!(times[2] < MINUTE, "{name} has ended after {} s", times[2]);
    }
}

/// The daemon must be dead when this begins.
pub async fn a_daemon_that_is_removed_costs_less_than_a_minute(
    world: &World,
    openkruise: &OpenKruise,
) {
    let _controller = Process::start_beside_openkruise(world, &["--prefer=crr"]).await;
    world
        .create_pod(pod(
            "asked",
            spec(
                "Never",
                vec![main_ok(world), sidecar(world, "log", EXITS_143)],
            ),
        ))
        .await;
    eventually("a request", || async {
        (!asked(world).is_empty()).then_some(())
    })
    .await;
    openkruise.remove_daemon();
    world.pod_ends("asked", "Succeeded").await;
    let times = tells(world, "asked", &["RecreateRequested", "SidecarEnded"]).await;
    assert!(times[1] < MINUTE, "ended after {} s", times[1]);
    world
        .create_pod(pod(
            "swapped",
            spec(
                "Never",
                vec![main_ok(world), sidecar(world, "log", EXITS_143)],
            ),
        ))
        .await;
    world.pod_ends("swapped", "Succeeded").await;
    tells(world, "swapped", &["SidecarEnded"]).await;
    assert_eq!(asked(world), ["asked"]);
}
