//! A job that is edited, one that is deleted, and one that has its time to live.

use kube::api::DeleteParams;
use serde_json::json;

use super::{Jobs, LIST, ONE};
use crate::world::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_can_be_edited_and_deleted_in_the_middle_and_lives_as_long_as_it_says() {
    let jobs = Jobs::with_pods("pull-edit").await;
    let _controller = jobs.controller().await;
    let (work, exit, missing) = (
        &jobs.world.images.work,
        &jobs.world.images.exit,
        &jobs.world.images.missing,
    );
    jobs.start(
        ONE,
        "edited",
        json!({"image": missing, "pullPolicy": {"backoffLimit": 99}}),
    )
    .await;
    jobs.has_pods(true).await;
    jobs.edit(ONE, "edited", &json!({"image": work}))
        .await
        .unwrap();
    let status = jobs.completed(ONE, "edited").await;
    assert_eq!(
        [
            &status["succeeded"],
            &status["failed"],
            &status["observedGeneration"]
        ],
        [1, 0, 2],
        "{status}"
    );
    jobs.has_pods(false).await;
    jobs.start(
        LIST,
        "deleted",
        json!({"images": [missing], "pullPolicy": {"backoffLimit": 99}}),
    )
    .await;
    jobs.has_pods(true).await;
    jobs.api(LIST)
        .delete("deleted", &DeleteParams::default())
        .await
        .unwrap();
    jobs.has_pods(false).await;
    jobs.start(
        ONE,
        "short",
        json!({"image": exit, "completionPolicy": {"ttlSecondsAfterFinished": 1}}),
    )
    .await;
    eventually("the job to be deleted", || async {
        jobs.api(ONE)
            .get_opt("short")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    jobs.has_pods(false).await;
    jobs.done().await;
}
