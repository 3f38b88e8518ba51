//! Jobs that pull without swaps.

use super::*;

/// On the leash, in a namespace under pod security `restricted`.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_job_without_swaps_pulls_private_images_too_and_starts_nothing() {
    let jobs = Jobs::with_pods("pull-impossible").await;
    let private = RegistryProxy::start(Manner::Login("reader", "correct-horse")).await;
    create_login(&jobs.world, &private, "correct-horse").await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(|name| format!("impossible-{name}"));
    let mut images = Vec::new();
    for name in &names {
        images.push(image_behind(&private, name).await);
    }
    let missing = format!("{}/e2e/missing:{}", private.host(), std::process::id());
    images.insert(3, missing.clone());
    let arguments = ["--warm", "--park-image", &jobs.world.images.park, "--warm-shape", "impossible-command"];
    let _controller = Controller::start_with(&jobs.world, &arguments).await;
    let spec = json!({"images": images, "pullSecrets": ["login"], "pullPolicy": {"backoffLimit": 0}, "imagePullPolicy": "Always"});
    jobs.start(LIST, "all", spec).await;
    let status = jobs.completed(LIST, "all").await;
    assert_eq!([&status["desired"], &status["completed"], &status["succeeded"]], [10, 10, 9], "{status}");
    assert_eq!(status["failedImageStatuses"][0]["name"], missing);
    jobs.has_pods(false).await;
    let of_warmers = ListParams::default().fields("involvedObject.kind=Pod,reason=Started");
    assert_eq!(jobs.world.api::<Event>().list(&of_warmers).await.unwrap().items.len(), 0, "nothing was started");
    let mut user = restricted("Never", vec![json!({"name": "main", "image": images[0]})]);
    user["imagePullSecrets"] = json!([{"name": "login"}]);
    jobs.world.create_pod(pod("user", user)).await;
    jobs.pulls("user", &images[0], "already present").await;
    jobs.done().await;
}
