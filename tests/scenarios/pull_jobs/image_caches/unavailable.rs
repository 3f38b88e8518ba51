//! The right, the option or the CRD is missing, or the CRD goes away.

use super::*;

#[tokio::test(start_paused = true)]
async fn without_the_right_or_while_paused_nothing_is_made_and_the_job_says_so() {
    let jobs = Jobs::beside_eci(0).await;
    jobs.serve_image_caches().await;
    let why = "imagecaches.eci.alibabacloud.com is forbidden: cannot create";
    let fault = jobs
        .cluster
        .world
        .fault(Effect::reply(403).message(why), |rule| {
            rule.verb(Verb::Create).resource("imagecaches")
        });
    let _life = jobs.caching_controller();
    jobs.create(ONE, "paused", json!({"image": image(0), "parallelism": 0}))
        .await;
    jobs.wait(100).await;
    assert_eq!(jobs.asked_for_caches(), 0);
    jobs.edit(ONE, "paused", &json!({"parallelism": 1})).await;
    jobs.wait(100).await;
    let message = jobs.status(ONE, "paused")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains(why) && (2..6).contains(&jobs.asked_for_caches()),
        "{message} {}",
        jobs.asked_for_caches()
    );
    jobs.cluster.world.end_fault(fault);
    jobs.wait(60).await;
    jobs.provider_says(json!({"phase": "Ready"})).await;
    assert_eq!(
        counts(&jobs.completed(ONE, "paused").await),
        [2, 0, 2, 0, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_option_or_the_crd_such_nodes_are_skipped_and_it_is_said_what_to_do() {
    let jobs = Jobs::beside_eci(1).await;
    let life = jobs.caching_controller();
    jobs.create(ONE, "no-crd", json!({"image": image(0)})).await;
    let status = jobs.completed(ONE, "no-crd").await;
    assert_eq!(counts(&status), [1, 0, 1, 0, 2]);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("--warm-image-caches creates an ImageCache for it, if the CRD"),
        "{message}"
    );
    life.kill();
    jobs.serve_image_caches().await;
    let life = jobs.controller();
    jobs.create(
        ONE,
        "no-option",
        json!({"image": image(0), "selector": {"names": ["eci0"]}}),
    )
    .await;
    let status = jobs.completed(ONE, "no-option").await;
    assert_eq!(
        (counts(&status), jobs.asked_for_caches()),
        (vec![1, 0, 0, 1, 1], 0)
    );
    life.kill();
    // The CRD may come while a job goes on.
    let _life = jobs.caching_controller();
    jobs.create(
        ONE,
        "never",
        json!({"image": image(0), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(40).await;
    assert_eq!(
        (counts(&jobs.status(ONE, "never")), jobs.asked_for_caches()),
        (vec![3, 2, 1, 0, 0], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn where_the_api_server_does_not_know_them_any_more_such_nodes_are_skipped() {
    let jobs = Jobs::beside_eci(1).await;
    jobs.serve_image_caches().await;
    let _life = jobs.caching_controller();
    jobs.create(
        ONE,
        "never",
        json!({"image": image(0), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(40).await;
    assert_eq!(counts(&jobs.status(ONE, "never")), [3, 2, 1, 0, 0]);
    let crd =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/imagecaches.eci.alibabacloud.com";
    let versions = |served: bool| json!({"spec": {"versions": [{"name": "v1", "served": served, "storage": true, "schema": {}}]}});
    jobs.cluster
        .world
        .request(
            Method::PATCH,
            crd,
            "application/merge-patch+json",
            &versions(false),
        )
        .await;
    jobs.wait(120).await;
    assert_eq!(
        (counts(&jobs.status(ONE, "never")), jobs.asked_for_caches()),
        (vec![1, 0, 1, 0, 2], 1)
    );
    jobs.cluster
        .world
        .request(
            Method::PATCH,
            crd,
            "application/merge-patch+json",
            &versions(true),
        )
        .await;
    jobs.wait(60).await;
    assert_eq!(
        (counts(&jobs.status(ONE, "never")), jobs.asked_for_caches()),
        (vec![3, 2, 1, 0, 0], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn u33_image_caches_count_as_there_while_nobody_may_ask_for_them() {
    let jobs = Jobs::beside_eci(1).await;
    jobs.serve_image_caches().await;
    let _life = jobs.caching_controller();
    let never = json!({"image": image(0), "completionPolicy": {"type": "Never"}});
    jobs.create(ONE, "never", never).await;
    jobs.wait(40).await;
    let world = &jobs.cluster.world;
    world.fault(Effect::reply(403), |rule| {
        rule.outside("/apis/eci.alibabacloud.com")
    });
    // A watch that fails is a reason to ask.
    world.fault(Effect::reply(500), |rule| {
        rule.verb(Verb::Watch).resource("imagecaches")
    });
    jobs.wait(120).await;
    assert_eq!(counts(&jobs.status(ONE, "never")), [3, 2, 1, 0, 0]);
}
