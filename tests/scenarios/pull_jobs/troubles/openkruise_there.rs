//! Jobs where OpenKruise is installed, or has been.

use super::*;

#[tokio::test(start_paused = true)]
async fn i1_where_openkruise_has_left_its_crds_the_jobs_are_done() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    jobs.cluster.world.install_node_images().await;
    let _life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    assert_eq!(counts(&jobs.completed(ONE, "j").await), [1, 0, 1, 0, 0]);
    jobs.assert_quiet().await;
}

/// Nobody is left who takes it away.
#[tokio::test(start_paused = true)]
async fn i2_openkruises_finalizer_is_taken_from_jobs_that_are_deleted_and_from_no_others() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let life = jobs.controller();
    let finalizers = json!(["apps.kruise.io/deletion-protection", "example.com/theirs"]);
    jobs.create_with(
        ONE,
        &json!({"name": "j", "finalizers": finalizers}),
        json!({"image": image(0)}),
    )
    .await;
    jobs.create_with(
        ONE,
        &json!({"name": "k", "finalizers": [finalizers[0]]}),
        json!({"image": image(0)}),
    )
    .await;
    jobs.completed(ONE, "j").await;
    jobs.completed(ONE, "k").await;
    assert_eq!(
        jobs.find(ONE, "j").unwrap()["metadata"]["finalizers"],
        finalizers
    );
    life.kill();
    jobs.delete(ONE, "j").await;
    jobs.delete(ONE, "k").await;
    jobs.wait(60).await;
    assert!(jobs.find(ONE, "k").is_some(), "nobody has taken it away");
    let _next = jobs.controller();
    jobs.wait(5).await;
    assert!(jobs.find(ONE, "k").is_none());
    assert_eq!(
        jobs.find(ONE, "j").unwrap()["metadata"]["finalizers"],
        json!(["example.com/theirs"])
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn where_openkruise_is_installed_the_jobs_are_left_to_it() {
    let jobs = Jobs::on(1, &slow()).await;
    let _life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    jobs.wait(15).await;
    assert_eq!(jobs.cluster.pods().len(), 1);
    jobs.cluster.world.create_namespace("kruise-system").await;
    jobs.cluster
        .world
        .start_manager("ImagePullJobGate=true")
        .await;
    jobs.cluster.world.install_node_images().await;
    jobs.wait(60).await;
    assert_eq!(jobs.cluster.pods().len(), 0, "what was begun is taken back");
    jobs.assert_quiet().await;
}
