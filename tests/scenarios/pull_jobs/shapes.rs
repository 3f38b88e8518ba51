//! Jobs whose pods have an impossible command.

use serde_json::json;

use super::*;

impl Jobs {
    async fn on_windows(count: usize, images: &ImageOptions) -> Self {
        Self {
            cluster: Cluster::of_windows(count, images).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_job_says_the_same_as_by_swaps() {
    let jobs = Jobs::on_windows(2, &missing("registry.example/app1:*")).await;
    let _life = jobs.controller();
    let spec = json!({"images": images(10), "parallelism": 1, "pullPolicy": {"backoffLimit": 1}});
    jobs.create(LIST, "l", spec).await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [10, 10, 9],
        "{status}"
    );
    assert_eq!(status["failedImageStatuses"][0]["name"], image(1));
    assert_eq!(status["imageStatuses"][9]["pulls"]["nodes"], 2, "{status}");
    assert!(
        jobs.pulls().values().all(|pulls| *pulls == 1),
        "{:?}",
        jobs.pulls()
    );
    assert!(
        jobs.writes().iter().all(|write| write.verb != Verb::Patch),
        "nothing of a pod is changed"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_life_takes_over_the_pods_that_are_there() {
    let slow = ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    };
    let jobs = Jobs::on_windows(1, &slow).await;
    let life = jobs.controller();
    jobs.create(LIST, "l", json!({"images": images(3)})).await;
    jobs.wait(30).await;
    life.kill();
    jobs.wait(100).await;
    let _next = jobs.controller();
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(status["succeeded"], 3, "{status}");
    assert_eq!(
        jobs.writes()
            .iter()
            .filter(|write| write.verb == Verb::Create)
            .count(),
        1
    );
    jobs.assert_quiet().await;
}
