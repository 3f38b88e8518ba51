//! Both controllers are on: each pod has one actor.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::audit::{Written, written_by};
use crate::pods::{EXITS_0, MARK, container, main_ok, pod, sidecar, spec};
use crate::process::Process;
use crate::virtual_kubelet::VirtualNode;
use crate::world::World;

const OPENKRUISE: &str = "system:serviceaccount:kruise-system:kruise-manager";

fn with_image(world: &World, mut sidecar: Value) -> Value {
    sidecar["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": format!("{MARK}_WITH_IMAGE"), "value": world.images.exit}));
    sidecar
}

fn without_plain_mark(mut sidecar: Value) -> Value {
    sidecar["env"]
        .as_array_mut()
        .unwrap()
        .retain(|entry| entry["name"] != MARK);
    sidecar
}

/// Whether this ends a sidecar of a pod: a write of the pod, or a request to the daemon that is
/// made for it.
fn acts_on(write: &Written, name: &str, uid: &str) -> bool {
    let is_request = write.resource == "containerrecreaterequests"
        && write.verb == "create"
        && write.body["metadata"]["name"] == format!("sidecar-termination-{uid}");
    write.code < 400 && (is_request || (write.resource == "pods" && write.pod == name))
}

/// Who has acted on each pod, as the API server saw it.
async fn actors(world: &World) -> BTreeMap<String, Vec<&'static str>> {
    let users = [
        ("openkruise", OPENKRUISE.to_owned()),
        (
            "swaplet",
            format!("system:serviceaccount:{}:swaplet", world.namespace),
        ),
    ];
    let written = users.map(|(actor, user)| (actor, written_by(&user, Some(&world.namespace))));
    let pods = world.pods().await.into_iter().map(|pod| {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap());
        let acts = |writes: &[Written]| writes.iter().any(|write| acts_on(write, &name, &uid));
        let actors = written
            .iter()
            .filter(|(_, writes)| acts(writes))
            .map(|(actor, _)| *actor)
            .collect();
        (name, actors)
    });
    pods.collect()
}

async fn each_has_its_actor(world: &World, expected: BTreeMap<String, Vec<&'static str>>) {
    for pod in expected.keys() {
        world.pod_ends(pod, "Succeeded").await;
    }
    assert_eq!(actors(world).await, expected);
}

pub async fn each_pod_on_an_ordinary_node_has_one_actor(world: &World) {
    let _controller = Process::start_beside_openkruise(world, &[]).await;
    let log = || sidecar(world, "log", EXITS_0);
    let cases = [
        ("plain", log(), "openkruise"),
        ("both", with_image(world, log()), "openkruise"),
        // On ordinary nodes OpenKruise silently does nothing for it.
        (
            "image",
            without_plain_mark(with_image(world, log())),
            "swaplet",
        ),
    ];
    let mut expected = BTreeMap::new();
    for policy in ["Never", "OnFailure"] {
        for (name, sidecar, actor) in &cases {
            let name = format!("{name}-{}", policy.to_lowercase());
            world
                .create_pod(pod(
                    &name,
                    spec(policy, vec![main_ok(world), sidecar.clone()]),
                ))
                .await;
            expected.insert(name, vec![*actor]);
        }
    }
    each_has_its_actor(world, expected).await;
}

pub async fn each_pod_on_a_virtual_node_has_one_actor(world: &World, node: &VirtualNode) {
    let _controller = Process::start_beside_openkruise(world, &[]).await;
    let log = || sidecar(world, "log", "term=0");
    let cases = [
        // On virtual nodes OpenKruise silently does nothing for it.
        ("plain", log(), "swaplet"),
        ("both", with_image(world, log()), "openkruise"),
        (
            "image",
            without_plain_mark(with_image(world, log())),
            "openkruise",
        ),
    ];
    let mut expected = BTreeMap::new();
    for (name, sidecar, actor) in cases {
        let spec = node.place(spec(
            "OnFailure",
            vec![container(world, "main", "run=2s"), sidecar],
        ));
        world.create_pod(pod(name, spec)).await;
        expected.insert(name.to_owned(), vec![actor]);
    }
    each_has_its_actor(world, expected).await;
}
