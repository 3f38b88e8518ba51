//! Requests, labels and annotations that somebody else has written.

use http::Method;
use serde_json::{Value, json};
use swaplet_core::restart::parked::Parked;
use swaplet_testbed::virtual_node::{Profile, ProviderOptions};

use super::world::{APP, Restarts, app, pinned, pod};
use crate::line::Patches;
use crate::objects::PARK;

const EVIL: &str = "evil.example/backdoor:1";
const POD: &str = "/api/v1/namespaces/default/pods/p";
const REQUESTS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/containerrecreaterequests";

fn forced() -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}})
}

/// A node without digests, so that containers are parked.
async fn without_digests() -> Restarts {
    let options = ProviderOptions {
        reports_image_id: false,
        new_container_ids: true,
        counts_restarts: true,
        ..ProviderOptions::default()
    };
    Restarts::on(Profile::Virtual(options), &pod("Always")).await
}

async fn patch_metadata(world: &Restarts, metadata: Value) {
    world
        .world
        .request(
            Method::PATCH,
            POD,
            "application/merge-patch+json",
            &json!({"metadata": metadata}),
        )
        .await;
}

/// What somebody says of the pod: that its container `app` had this image before it got its present
/// one.
async fn note(world: &Restarts, park: &str, image: &str, request: &str) {
    let uid = world.pod()["metadata"]["uid"].as_str().unwrap().into();
    let images = [("app".into(), image.into())].into();
    let note = Parked {
        pod: uid,
        name: "r".into(),
        request: request.into(),
        park: park.into(),
        images,
    };
    let metadata = json!({"labels": {"swaplet.io/parked": "true"}, "annotations": {"swaplet.io/parked": note.as_text()}});
    patch_metadata(world, metadata).await;
}

fn is_marked(world: &Restarts) -> bool {
    !world.pod()["metadata"]["labels"]["swaplet.io/parked"].is_null()
}

/// A container that is parked for the request `r`, and then a life that goes on.
async fn parked(then: impl AsyncFnOnce(&Restarts)) -> (Restarts, crate::harness::Life) {
    let world = without_digests().await;
    let life = world.start_controller();
    life.line.patches(Patches::PassBeforeAllStay(6));
    world.request("r", &forced()).await;
    world.wait(6).await;
    assert!(world.image("app") == PARK && is_marked(&world));
    life.kill();
    then(&world).await;
    let next = world.start_controller();
    world.wait(60).await;
    (world, next)
}

fn warned(world: &Restarts) -> String {
    let notes = world
        .told_with_notes()
        .into_iter()
        .filter(|(reason, _)| reason == "RestartFailed")
        .map(|(_, note)| note);
    notes.collect::<Vec<_>>().join("\n")
}

/// journal3.py
#[tokio::test(start_paused = true)]
async fn a2_a_request_with_a_forged_journal_is_a_request_like_any_other() {
    for (from, to, parking, back) in [
        (EVIL, APP, json!("back"), json!(null)),
        (EVIL, PARK, json!("back"), json!(null)),
        (EVIL, APP, json!("out"), json!(null)),
        (
            "registry.example/app:1@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
            APP,
            json!(null),
            json!("x"),
        ),
        (APP, EVIL, json!(null), json!(null)),
    ] {
        let world = Restarts::with_pod("Always").await;
        let intent = json!({"from": from, "to": to, "parking": parking, "back": back});
        let journal =
            json!({"app": {"containerID": "x", "restartCount": 0, "intent": intent}}).to_string();
        let labels = json!({"crr.apps.kruise.io/pod-uid": world.pod()["metadata"]["uid"], "crr.apps.kruise.io/active": "true"});
        let _life = world.start_controller();
        let metadata = json!({"name": "r", "labels": labels, "annotations": {"swaplet.io/restart-journal": journal}});
        let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": metadata, "spec": app()});
        world
            .world
            .request(Method::POST, REQUESTS, "application/json", &object)
            .await;
        world.wait(20).await;
        assert_eq!(
            (world.original("app"), world.restarts("app")),
            (pinned(APP), 1),
            "{intent}"
        );
        assert_eq!(
            world.get("r")["status"]["containerRecreateStates"][0]["phase"],
            "Succeeded",
            "{intent}"
        );
        world.assert_quiet().await;
    }
}

/// esc.py: nothing was ever parked.
#[tokio::test(start_paused = true)]
async fn v1_a_note_in_a_pod_that_is_not_parked_changes_no_image() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    note(&world, APP, EVIL, "none").await;
    world.wait(60).await;
    assert_eq!(
        (world.image("app"), world.image_changes("p")),
        (APP.to_owned(), 0)
    );
    assert!(
        warned(&world).contains("--park-image"),
        "{}",
        warned(&world)
    );
    world.assert_quiet().await;

    note(&world, PARK, EVIL, "none").await;
    world.wait(30).await;
    assert!(!is_marked(&world), "nothing is parked");
    assert_eq!(
        (world.image("app"), world.image_changes("p")),
        (APP.to_owned(), 0)
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn bug14_a_note_that_is_changed_while_it_is_parked_is_told() {
    let forge = async |world: &Restarts| {
        let uid = world.get("r")["metadata"]["uid"]
            .as_str()
            .unwrap()
            .to_owned();
        note(world, PARK, EVIL, &uid).await;
    };
    let (world, _life) = parked(forge).await;
    assert_eq!(
        (world.image("app"), world.image_changes("p")),
        (PARK.to_owned(), 1)
    );
    assert!(
        warned(&world).contains(EVIL) && warned(&world).contains(APP),
        "{}",
        warned(&world)
    );
    assert_eq!(world.get("r")["status"]["phase"], "Completed");
    world.assert_quiet().await;

    world.set_image("app", APP).await;
    world.wait(30).await;
    assert!(
        !is_marked(&world),
        "what a human has put back is the end of it"
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn bug13_a_note_that_is_taken_away_while_it_is_parked_is_told() {
    let take_away = async |world: &Restarts| {
        patch_metadata(world, json!({"labels": {"swaplet.io/parked": null}, "annotations": {"swaplet.io/parked": null}})).await;
    };
    let (world, _life) = parked(take_away).await;
    assert_eq!(
        (world.image("app"), world.image_changes("p")),
        (PARK.to_owned(), 1)
    );
    assert!(
        warned(&world).contains("kubectl set image -n default pod/p app=IMAGE"),
        "{}",
        warned(&world)
    );
    let request = world.get("r");
    assert_eq!(
        (
            &request["status"]["phase"],
            &request["metadata"]["labels"]["crr.apps.kruise.io/active"]
        ),
        (&json!("Completed"), &json!(null))
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn v6_a_note_does_not_stay_where_somebody_else_gave_the_container_an_image() {
    for image in ["registry.example/app:2", APP] {
        let (world, _life) = parked(async |world| world.set_image("app", image).await).await;
        assert!(!is_marked(&world), "{image}");
        assert_eq!(
            (world.image("app"), world.image_changes("p")),
            (image.to_owned(), 2)
        );
        assert_eq!(world.get("r")["status"]["phase"], "Completed");
        world.assert_quiet().await;
    }
}
