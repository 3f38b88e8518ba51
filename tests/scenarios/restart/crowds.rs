//! More pods than are followed at once.

use http::Method;
use serde_json::{Value, json};

use super::world::{Restarts, pod};

/// More than the 256 that are followed.
const MANY: usize = 270;

fn named(name: &str, node: &str) -> Value {
    let mut pod = pod("Always");
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

fn request(pod: &str) -> Value {
    json!({"podName": pod, "containers": [{"name": "app"}], "ttlSecondsAfterFinished": 86400})
}

fn phase(world: &Restarts, request: &str) -> String {
    world.get(request)["status"]["containerRecreateStates"][0]["phase"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Those that are completed and wait for their deletion keep nobody from his turn.
#[tokio::test(start_paused = true)]
async fn requests_for_more_pods_than_are_followed_at_once_all_get_their_turn() {
    let world = Restarts::with_pod("Always").await;
    for nth in 0..MANY {
        world.create(&named(&format!("c{nth}"), "virtual")).await;
    }
    world.wait(20).await;
    let _life = world.start_controller();
    for nth in 0..MANY {
        world
            .request(&format!("r{nth}"), &request(&format!("c{nth}")))
            .await;
    }
    world.wait(120).await;
    let open: Vec<_> = (0..MANY)
        .map(|nth| format!("r{nth}"))
        .filter(|name| phase(&world, name) != "Succeeded")
        .collect();
    assert!(open.is_empty(), "{open:?}");
    world.request("last", &request("p")).await;
    world.wait(20).await;
    assert_eq!(
        (phase(&world, "last"), world.restarts("app")),
        ("Succeeded".to_owned(), 1)
    );
}

/// OpenKruise leaves some of its requests open for ever.
#[tokio::test(start_paused = true)]
async fn requests_that_are_left_to_openkruise_keep_nobody_from_his_turn() {
    let world = Restarts::with_pod("Always").await;
    world.create_namespace("kruise-system").await;
    world.label_node("daemon-node", &json!({})).await;
    let daemon = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "kruise-system", "name": "kruise-daemon-x", "labels": {"control-plane": "daemon"}},
        "spec": {"nodeName": "daemon-node", "restartPolicy": "Always", "containers": [{"name": "daemon", "image": "daemon:1"}]}});
    world.create(&daemon).await;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let path = "/api/v1/namespaces/kruise-system/pods/kruise-daemon-x/status";
    world
        .world
        .request(Method::PATCH, path, "application/merge-patch+json", &ready)
        .await;
    for nth in 0..MANY {
        world
            .create(&named(&format!("a{nth}"), "daemon-node"))
            .await;
        world
            .request(&format!("a{nth}"), &request(&format!("a{nth}")))
            .await;
    }
    let _life = world.start_controller();
    world.request("last", &request("p")).await;
    world.wait(60).await;
    assert_eq!(
        (phase(&world, "last"), world.restarts("app")),
        ("Succeeded".to_owned(), 1)
    );
    assert!(
        (0..MANY).all(|nth| world.get(&format!("a{nth}"))["status"].is_null()),
        "they are OpenKruise's"
    );
    world.assert_quiet().await;
}
