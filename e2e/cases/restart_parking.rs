//! Images that have no other spelling, or only one that no registry knows, are restarted on a real
//! kubelet.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::controller::Controller;
use crate::images::push_work_as;
use crate::imported::{ctr, import_work};
use crate::pods::{container, status_of};
use crate::restart::{COUNTS, Restarts, restarts, started, succeeded};
use crate::restart_images::image_id;
use crate::witness::Witness;
use crate::world::{eventually, variable};

/// A controller that parks.
async fn parking(restart: &Restarts) -> Controller {
    Controller::start_with(
        &restart.world,
        &["--restart", "--park-image", &restart.world.images.park],
    )
    .await
}

/// A name that no registry and no other run has.
fn name(case: &str) -> String {
    format!("imported.example/{case}:{}", std::process::id())
}

/// An image that has no name but its digest: it was imported, and its name was taken away.
pub async fn nameless(case: &str) -> String {
    let digest = import_work(&name(case)).await;
    eventually(
        "the kubelet's runtime to know the image by its digest",
        || async {
            ctr(&["images", "ls", "-q"])
                .await
                .contains(&digest)
                .then_some(())
        },
    )
    .await;
    ctr(&["images", "rm", "--sync", &name(case)]).await;
    digest
}

/// A container whose image has no name but the digest that the spec names already.
pub async fn without_a_name(restart: &Restarts, case: &str) -> Value {
    let mut app = container(&restart.world, "app", COUNTS);
    app["image"] = json!(nameless(case).await);
    app["imagePullPolicy"] = json!("IfNotPresent");
    app
}

pub fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0]
        .image
        .as_deref()
        .unwrap()
}

pub fn forced() -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}})
}

/// It was started twice, the second time from the park image, and nothing else has changed.
pub async fn was_parked_once(restart: &Restarts, before: &Pod) {
    // The record goes once the container is seen running again.
    let is_unmarked = |pod: &Pod| {
        !pod.labels().contains_key("swaplet.io/parked")
            && !pod.annotations().contains_key("swaplet.io/parked")
    };
    let after = restart.world.pod_is("p", "unmarked", is_unmarked).await;
    assert_eq!(
        (
            image(before),
            restarts(&after, "app"),
            restarts(&after, "log")
        ),
        (image(&after), 2, 0)
    );
    assert_eq!(
        (before.uid(), started(before, "log")),
        (after.uid(), started(&after, "log"))
    );
    restart.assert_starts("started\nstarted\n").await;
}

async fn park_and_back(case: &str, policy: &str) {
    let restart = Restarts::new(case).await;
    let app = without_a_name(&restart, case).await;
    let before = restart.run_pod_with(policy, app).await;
    let _controller = parking(&restart).await;
    restart
        .request(
            "careful",
            &json!({"podName": "p", "containers": [{"name": "app"}]}),
        )
        .await;
    let refused = restart.completed("careful").await[0]["message"].to_string();
    assert!(
        refused.contains("park image") && refused.contains("forceRecreate"),
        "{refused}"
    );
    restart.request("r", &forced()).await;
    assert_eq!(restart.completed("r").await, succeeded());
    was_parked_once(&restart, &before).await;
    restart.world.done().await;
}

#[tokio::test]
async fn an_image_without_another_name_is_parked_under_never() {
    park_and_back("park-never", "Never").await;
}

/// The digest that the node reports is another name of the image. Of its other names the status
/// alone tells, which others may have written. CRI-O reports that of the manifest, by which there
/// are new names without end, and nothing is parked.
#[tokio::test]
async fn an_imported_image_goes_to_its_digest_and_is_parked_from_there() {
    let restart = Restarts::new("restart-imported").await;
    let digest = import_work(&name("named")).await;
    let mut app = container(&restart.world, "app", COUNTS);
    app["image"] = json!(name("named"));
    let before = image_id(&restart.run_pod_with("Never", app).await);
    let (digest, second) = match before.split_once('@') {
        Some((_, manifest)) => (manifest, 2),
        None => (&*digest, 3),
    };
    let _controller = parking(&restart).await;
    let unforced = json!({"podName": "p", "containers": [{"name": "app"}]});
    for (request, spec, count) in [("to-digest", &unforced, 1), ("again", &forced(), second)] {
        restart.request(request, spec).await;
        assert_eq!(restart.completed(request).await, succeeded());
        let after = restart.world.pod_is("p", "there", |_| true).await;
        assert_eq!(
            (
                image(&after).rsplit('@').next(),
                restarts(&after, "app"),
                restarts(&after, "log")
            ),
            (Some(digest), count, 0)
        );
    }
    restart.world.done().await;
}

/// `kubectl set image` to another tag of the same bytes: the node goes on to report the first one, so
/// there is no telling whether its digest is of the image that the spec has.
#[tokio::test]
async fn u7_an_image_that_the_node_reports_by_another_tag_is_parked() {
    let restart = Restarts::new("restart-same-bytes").await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let tags = [1, 2].map(|tag| format!("{registry}/e2e/u7-{}:{tag}", std::process::id()));
    for tag in &tags {
        push_work_as(&registry, tag, &tags[0]).await;
    }
    let mut app = container(&restart.world, "app", COUNTS);
    app["image"] = json!(tags[0]);
    restart.run_pod_with("Never", app).await;
    let update = json!({"spec": {"containers": [{"name": "app", "image": tags[1]}]}});
    let pods = restart.world.api::<Pod>();
    pods.patch("p", &PatchParams::default(), &Patch::Strategic(update))
        .await
        .unwrap();
    let is_updated = |pod: &Pod| restarts(pod, "app") == 1 && started(pod, "app").is_some();
    let before = restart.world.pod_is("p", "updated", is_updated).await;
    let shown = status_of(&before, "app").unwrap().image.clone();
    assert_eq!((image(&before), &shown), (&*tags[1], &tags[0]));
    let _controller = parking(&restart).await;
    // Unforced it waits until the update is ten minutes ago (l1).
    restart.request("r", &forced()).await;
    assert_eq!(restart.completed("r").await, succeeded());
    let is_back = |pod: &Pod| restarts(pod, "app") == 3 && image(pod) == tags[1];
    restart.world.pod_is("p", "back", is_back).await;
    restart.assert_starts("started\nstarted\nstarted\n").await;
    restart.world.done().await;
}

async fn killed_at_every_write(case: &str, policy: &str) {
    let mut restart = Restarts::new(case).await;
    let app = without_a_name(&restart, case).await;
    let before = restart.run_pod_with(policy, app).await;
    restart.request("r", &forced()).await;
    let park_image = restart.world.images.park.clone();
    let witness = Witness::of(&mut restart.world).await;
    let written = restart
        .lives_of_one_write(&witness, &["--restart", "--park-image", &park_image])
        .await;
    assert_eq!(restart.completed("r").await, succeeded());
    // The last life may have ended before it could take the record away.
    witness.all_writes();
    let _next = parking(&restart).await;
    was_parked_once(&restart, &before).await;
    let of_pod = written.iter().filter(|resource| *resource == "pods/p");
    assert!(
        (2..=3).contains(&of_pod.count()),
        "out, back, and perhaps the record: {written:?}"
    );
    assert!(written.len() >= 7, "{written:?}");
    restart.world.done().await;
}

#[tokio::test]
async fn controllers_that_die_at_every_write_park_it_once_under_never() {
    killed_at_every_write("park-dies-never", "Never").await;
}

/// A controller that dies when it has parked the container `app`.
pub async fn park_and_die(restart: &Restarts, witness: &Witness, request: &str, before: &Pod) {
    restart.request(request, &forced()).await;
    while restart
        .life_of_one_write(
            witness,
            &["--restart", "--park-image", &restart.world.images.park],
        )
        .await
        != "pods/p"
    {}
    assert_ne!(
        image(&restart.world.pod_is("p", "there", |_| true).await),
        image(before)
    );
}

/// Nobody is there who has asked for it any more.
#[tokio::test]
async fn a_container_whose_request_is_deleted_while_it_is_parked_comes_back() {
    let mut restart = Restarts::new("park-deleted").await;
    let witness = Witness::of(&mut restart.world).await;
    let app = without_a_name(&restart, "park-deleted").await;
    let before = restart.run_pod_with("Never", app).await;
    park_and_die(&restart, &witness, "r", &before).await;
    restart
        .requests
        .delete("r", &Default::default())
        .await
        .unwrap();
    witness.all_writes();
    let _next = parking(&restart).await;
    restart
        .world
        .pod_is("p", "as it was", |pod| {
            image(pod) == image(&before) && restarts(pod, "app") == 2
        })
        .await;
    was_parked_once(&restart, &before).await;
    restart.world.done().await;
}

mod long {
    use super::*;

    #[tokio::test]
    async fn an_image_without_another_name_is_parked_under_on_failure() {
        park_and_back("park-onfailure", "OnFailure").await;
    }

    #[tokio::test]
    async fn controllers_that_die_at_every_write_park_it_once_under_on_failure() {
        killed_at_every_write("park-dies-onfailure", "OnFailure").await;
    }
}
