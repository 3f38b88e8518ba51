//! Exit images with a digest, as a webhook of the cluster makes them of what swaplet writes.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::Leashed;
use super::legal::{brought_back, image, parking};
use super::pods::{DIGEST, main, pod};

const TOLD: &str = "allow it by leash.exitImageDigests of the chart";

/// Brackets mean themselves in a list.
const BY_ADDRESS: &str = "[fd00::1]:5000/swaplet/exit:v1";

/// The image that it had, by its digest, and with its tag as well.
fn pinned(exit: &str) -> [String; 2] {
    let repository = exit.rsplit_once(':').unwrap().0;
    [format!("{exit}@{DIGEST}"), format!("{repository}@{DIGEST}")]
}

async fn written(leashed: &Leashed, pod: &str, exit: &str) -> Result<(), String> {
    let patch: Value = image("log", exit);
    leashed.patch(pod, "", &patch).await.map(drop)
}

#[tokio::test]
async fn a_digest_of_the_same_repository_is_for_those_who_allow_it() {
    let off = Leashed::new("leash-digests").await;
    off.pods_are_there().await;
    for exit in pinned(&off.world.images.exit) {
        let words = written(&off, "done", &exit).await.expect_err("it is off");
        assert!(words.contains(TOLD), "{words}");
    }
    off.done().await;

    let allow = |text: &str| {
        let listed = "[\"registry.example/swaplet/exit:v1\"";
        text.replace("expression: 'false'", "expression: 'true'")
            .replace(listed, &format!("{listed}, \"{BY_ADDRESS}\""))
    };
    let on = Leashed::with("leash-digests-on", allow).await;
    on.pods_are_there().await;
    let exit = &on.world.images.exit;
    written(&on, "done", BY_ADDRESS).await.unwrap();
    for exit in pinned(exit).into_iter().chain(pinned(BY_ADDRESS)) {
        written(&on, "done", &exit).await.unwrap();
        let words = written(&on, "running", &exit).await.expect_err("it runs");
        assert!(words.contains("whose main containers are done"), "{words}");
    }
    let repository = exit.rsplit_once(':').unwrap().0;
    for other in [
        format!("{repository}:other@{DIGEST}"),
        format!("{repository}:other"),
        format!("{repository}-other@{DIGEST}"),
        format!("evil.example/{exit}@{DIGEST}"),
        format!("{exit}@sha256:aa"),
        format!("{exit}@{DIGEST}@{DIGEST}"),
        format!("{exit}\n@{DIGEST}"),
    ] {
        let words = written(&on, "done", &other).await.expect_err("another one");
        let is_said = words.contains("neither an exit image of the list");
        assert!(is_said && !words.contains(TOLD), "{other}: {words}");
    }
    let two = json!({"spec": {"containers": [{"name": "main", "image": pinned(exit)[0]}]}});
    let words = on.patch("done", "", &two).await.expect_err("a main");
    assert!(words.contains("that their owner has marked"), "{words}");
    on.done().await;
}

#[tokio::test]
async fn u206_a_container_of_a_registry_at_an_ipv6_address_is_parked_and_brought_back() {
    const WORK: &str = "[fd00::1]:5000/work:v1";
    let leashed = Leashed::new("leash-address").await;
    let mut containers = json!([main(&leashed)]);
    containers[0]["image"] = json!(WORK);
    let there = pod(&leashed, "address", "Always", containers);
    leashed.is_there(there, &[("main", None)], &[]).await;
    let (uid, park) = (leashed.uid("address").await, &leashed.world.images.park);
    let out = parking(image("main", park), &uid, park, &[("main", WORK)]);
    leashed.patch("address", "", &out).await.unwrap();

    let pods = leashed.world.api::<Pod>();
    let params = PatchParams::default();
    pods.patch("address", &params, &Patch::Strategic(out))
        .await
        .unwrap();
    let back = brought_back(image("main", WORK));
    leashed.patch("address", "", &back).await.unwrap();
    leashed.done().await;
}
