//! Edits, deletions, deadlines, lives that end, and what is refused.

mod lives;
mod openkruise_there;
mod refusals;

use serde_json::json;
use swaplet_testbed::apiserver::Effect;

use super::*;

fn slow() -> ImageOptions {
    ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_deleted_in_the_middle_of_a_pull_leaves_nothing_behind() {
    let jobs = Jobs::on(2, &slow()).await;
    let _life = jobs.controller();
    jobs.create(LIST, "l", json!({"images": images(3), "parallelism": 2}))
        .await;
    jobs.wait(15).await;
    assert_eq!(jobs.cluster.pods().len(), 2);
    jobs.delete(LIST, "l").await;
    jobs.wait(10).await;
    assert_eq!(jobs.cluster.pods().len(), 0);
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_deleted_while_nobody_looks_is_cleaned_up_by_the_next_life() {
    let jobs = Jobs::on(1, &slow()).await;
    let life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    jobs.wait(15).await;
    life.kill();
    jobs.delete(ONE, "j").await;
    jobs.wait(60).await;
    assert_eq!(jobs.cluster.pods().len(), 1);
    let _next = jobs.controller();
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_takes_effect_in_the_middle_and_after_the_end() {
    let jobs = Jobs::on(2, &slow()).await;
    let _life = jobs.controller();
    jobs.create(LIST, "l", json!({"images": images(2), "parallelism": 2}))
        .await;
    jobs.wait(30).await;
    jobs.edit(LIST, "l", &json!({"images": [image(1), image(2)]}))
        .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        (
            &status["desired"],
            &status["succeeded"],
            &status["observedGeneration"]
        ),
        (&json!(2), &json!(2), &json!(2))
    );
    assert_eq!(status["imageStatuses"][1]["name"], image(2));
    jobs.assert_quiet().await;

    jobs.edit(LIST, "l", &json!({"images": [image(3)]})).await;
    jobs.wait(5).await;
    let status = jobs.status(LIST, "l");
    assert!(
        status["completionTime"].is_null() && status["observedGeneration"] == 3,
        "it begins anew: {status}"
    );
    assert_eq!(jobs.completed(LIST, "l").await["succeeded"], 1);
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_what_pods_are_like_makes_new_pods() {
    let jobs = Jobs::on(1, &slow()).await;
    let most = watch_nodes(&jobs.cluster);
    let _life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0), "sandboxConfig": {"labels": {"team": "a"}, "annotations": {"note": "x"}}})).await;
    jobs.wait(15).await;
    let pods = jobs.cluster.pods();
    assert_eq!(
        (
            &pods[0]["metadata"]["labels"]["team"],
            &pods[0]["metadata"]["annotations"]["note"]
        ),
        (&json!("a"), &json!("x"))
    );
    let hostile =
        json!({"team": "b", "swaplet.io/pull-job": "spoofed", "linkerd.io/inject": "enabled"});
    jobs.edit(ONE, "j", &json!({"sandboxConfig": {"labels": hostile, "annotations": {"k8s.v1.cni.cncf.io/networks": "other"}}})).await;
    jobs.wait(15).await;
    let pods = jobs.cluster.pods();
    let uid = &jobs.find(ONE, "j").unwrap()["metadata"]["uid"];
    assert_eq!(
        (
            &pods[0]["metadata"]["labels"]["team"],
            &pods[0]["metadata"]["labels"]["swaplet.io/pull-job"]
        ),
        (&json!("b"), uid)
    );
    let taken_over = [
        &pods[0]["metadata"]["labels"]["linkerd.io/inject"],
        &pods[0]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"],
    ];
    assert_eq!(
        taken_over,
        [&json!(null); 2],
        "what the administrator has not listed goes to no pod"
    );
    let completed = jobs.completed(ONE, "j").await;
    assert_eq!(counts(&completed), [1, 0, 1, 0, 0]);
    let told = "not taken over from sandboxConfig: linkerd.io/inject, swaplet.io/pull-job, k8s.v1.cni.cncf.io/networks";
    assert!(
        completed["message"].as_str().unwrap().contains(told),
        "{completed}"
    );
    assert_eq!(
        *most.lock().unwrap(),
        (1, 1),
        "the old pod has gone before the new one came"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_exceeds_its_deadline_fails_what_is_open() {
    let jobs = Jobs::on(3, &slow()).await;
    let _life = jobs.controller();
    let spec = json!({"image": image(0), "pullPolicy": {"timeoutSeconds": 50}, "completionPolicy": {"activeDeadlineSeconds": 50}});
    jobs.create(ONE, "j", spec).await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(
        (counts(&status), &status["message"]),
        (
            vec![3, 0, 1, 2, 0],
            &json!("job exceeds activeDeadlineSeconds")
        )
    );
    assert_eq!(
        status["failures"][0],
        json!({"node": "n1", "message": "job exceeds activeDeadlineSeconds"})
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn u33_a_job_goes_on_while_nobody_may_ask_for_its_kind() {
    let jobs = Jobs::on(1, &slow()).await;
    let _life = jobs.controller();
    jobs.create(LIST, "l", json!({"images": images(5)})).await;
    jobs.wait(15).await;
    let pods = jobs.cluster.pods();
    jobs.cluster.world.fault(Effect::reply(403), |rule| {
        rule.outside("/apis/apps.kruise.io")
    });
    jobs.wait(45).await;
    assert_eq!(
        jobs.cluster.pods()[0]["metadata"]["uid"],
        pods[0]["metadata"]["uid"]
    );
    assert_eq!(jobs.completed(LIST, "l").await["succeeded"], 5);
}
