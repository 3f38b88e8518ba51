//! Jobs of both kinds, on all nodes and on one, from the first pod to the end.

use super::*;

#[tokio::test(start_paused = true)]
async fn ipj_e4_an_always_job_on_all_nodes() {
    let jobs = Jobs::on(3, &ImageOptions::default()).await;
    let life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0), "parallelism": 10, "completionPolicy": {"ttlSecondsAfterFinished": 20}})).await;
    let status = jobs.completed(ONE, "j").await;
    let pulled = life.sample("swaplet_image_pull_seconds_sum").unwrap();
    assert!(
        life.sample("swaplet_image_pull_seconds_count") == Some(3.0)
            && (0.89..0.91).contains(&pulled),
        "{pulled}"
    );
    assert_eq!(
        (counts(&status), &status["message"]),
        (vec![3, 0, 3, 0, 0], &json!("job has completed"))
    );
    assert!(
        status["startTime"].is_string() && status["failedNodes"] == json!([]),
        "{status}"
    );
    assert_eq!(
        status["pulls"],
        json!({"nodes": 3, "bytes": 4096, "slowest": "0.300s", "slowestNode": "n0"})
    );
    assert_eq!(jobs.pulls().len(), 3, "each node has pulled it once");
    jobs.wait(15).await;
    assert!(jobs.find(ONE, "j").is_some());
    jobs.wait(15).await;
    assert!(jobs.find(ONE, "j").is_none(), "its time is over");
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn ipj_e5_an_always_job_on_one_node() {
    let jobs = Jobs::on(3, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "j",
        json!({"image": image(0), "selector": {"names": ["n1", "not-there"]}}),
    )
    .await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(counts(&status), [1, 0, 1, 0, 0]);
    assert_eq!(jobs.writes().len(), 2, "a pod is made and deleted");
    jobs.delete(ONE, "j").await;
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn ilp_e1_two_images_on_all_nodes() {
    let jobs = Jobs::on(3, &ImageOptions::default()).await;
    let _life = jobs.controller();
    let spec = json!({"images": images(2), "parallelism": "100%", "completionPolicy": {"ttlSecondsAfterFinished": 5}});
    jobs.create(LIST, "l", spec).await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"],
            &status["active"]
        ],
        [2, 2, 2, 0]
    );
    let pulls = json!({"nodes": 3, "bytes": 4096, "slowest": "0.300s", "slowestNode": "n0"});
    assert_eq!(
        status["imageStatuses"][1],
        json!({"name": image(1), "desired": 3, "succeeded": 3, "failed": 0, "pulls": pulls})
    );
    assert_eq!(
        (&status["failedImageStatuses"], &status["message"]),
        (&json!([]), &json!("job has completed"))
    );
    assert_eq!(
        jobs.writes().len(),
        3 * 3,
        "no ImagePullJob is made, and no pod per image"
    );
    jobs.wait(20).await;
    assert!(jobs.find(LIST, "l").is_none());
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn ilp_e3_an_always_job_with_a_failure_names_the_image_the_node_and_the_reason() {
    let jobs = Jobs::on(2, &missing("registry.example/app1:*")).await;
    let _life = jobs.controller();
    jobs.create(
        LIST,
        "l",
        json!({"images": images(3), "parallelism": 2, "pullPolicy": {"backoffLimit": 1}}),
    )
    .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [3, 3, 2]
    );
    let failed = &status["failedImageStatuses"];
    assert_eq!(
        (failed.as_array().unwrap().len(), &failed[0]["name"]),
        (1, &json!(image(1)))
    );
    let message = failed[0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("2 of 2 node(s) failed: n0: ErrImagePull")
            && message.contains("not found"),
        "{message}"
    );

    jobs.create(
        ONE,
        "j",
        json!({"image": image(1), "parallelism": 2, "pullPolicy": {"backoffLimit": 0}}),
    )
    .await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(
        (counts(&status), &status["failedNodes"]),
        (vec![2, 0, 0, 2, 0], &json!(["n0", "n1"]))
    );
    assert!(
        status["failures"][0]["message"]
            .as_str()
            .unwrap()
            .contains("not found"),
        "{status}"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn ilp_e4_a_never_job_counts_what_is_completed_and_does_not_end() {
    let jobs = Jobs::on(2, &missing("registry.example/app1:*")).await;
    let _life = jobs.controller();
    let spec = json!({"images": images(2), "parallelism": 2, "pullPolicy": {"backoffLimit": 0}, "completionPolicy": {"type": "Never"}});
    jobs.create(LIST, "l", spec).await;
    jobs.wait(120).await;
    let status = jobs.status(LIST, "l");
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"],
            &status["active"]
        ],
        [2, 2, 1, 0]
    );
    assert_eq!(
        (
            &status["failedImageStatuses"][0]["name"],
            &status["completionTime"]
        ),
        (&json!(image(1)), &json!(null))
    );
    jobs.assert_quiet().await;
}
