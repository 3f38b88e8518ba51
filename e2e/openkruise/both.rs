//! Both controllers are on: each pod has one actor.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::audit::{Written, written_by};
use crate::controller::Controller;
use crate::install::{OpenKruise, SidecarTerminator};
use crate::pods::{EXITS_0, MARK, main_ok, pod, sidecar, spec};
use crate::world::World;

const OPENKRUISE: &str = "system:serviceaccount:kruise-system:kruise-manager";

fn with_image(world: &World, mut sidecar: Value) -> Value {
    sidecar["env"].as_array_mut().unwrap().push(json!({"name": format!("{MARK}_WITH_IMAGE"), "value": world.images.exit}));
    sidecar
}

fn without_plain_mark(mut sidecar: Value) -> Value {
    sidecar["env"].as_array_mut().unwrap().retain(|entry| entry["name"] != MARK);
    sidecar
}

/// Whether this ends a sidecar of a pod: a write of the pod, or a request to the daemon that is made for it.
fn acts_on(write: &Written, name: &str, uid: &str) -> bool {
    let is_request = write.resource == "containerrecreaterequests"
        && write.verb == "create"
        && write.body["metadata"]["name"] == format!("sidecar-termination-{uid}");
    write.code < 400 && (is_request || (write.resource == "pods" && write.pod == name))
}

/// Who has acted on each pod, as the API server saw it.
async fn actors(world: &World) -> BTreeMap<String, Vec<&'static str>> {
    let users = [("openkruise", OPENKRUISE.to_owned()), ("swaplet", format!("system:serviceaccount:{}:swaplet", world.namespace))];
    let written = users.map(|(actor, user)| (actor, written_by(&user, Some(&world.namespace))));
    let pods = world.pods().await.into_iter().map(|pod| {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap());
        let acts = |writes: &[Written]| writes.iter().any(|write| acts_on(write, &name, &uid));
        let actors = written.iter().filter(|(_, writes)| acts(writes)).map(|(actor, _)| *actor).collect();
        (name, actors)
    });
    pods.collect()
}

#[tokio::test]
async fn each_pod_has_one_actor() {
    let world = World::new("both").await;
    let openkruise = OpenKruise::install(&world, SidecarTerminator::On).await;
    let _controller = Controller::start(&world).await;
    let log = || sidecar(&world, "log", EXITS_0);
    for policy in ["Never", "OnFailure"] {
        let cases = [
            ("plain", log()),
            ("both", with_image(&world, log())),
            // On ordinary nodes OpenKruise silently does nothing for it.
            ("image", without_plain_mark(with_image(&world, log()))),
        ];
        for (name, sidecar) in cases {
            world.create_pod(pod(&format!("{name}-{}", policy.to_lowercase()), spec(policy, vec![main_ok(&world), sidecar]))).await;
        }
    }
    let expected: BTreeMap<_, _> = ["plain", "both", "image"]
        .iter()
        .flat_map(|name| ["never", "onfailure"].map(|policy| format!("{name}-{policy}")))
        .map(|pod| (pod.clone(), vec![if pod.starts_with("image") { "swaplet" } else { "openkruise" }]))
        .collect();
    for pod in expected.keys() {
        world.pod_ends(pod, "Succeeded").await;
    }
    assert_eq!(actors(&world).await, expected);
    drop(openkruise);
    world.done().await;
}
