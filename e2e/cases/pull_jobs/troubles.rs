//! Jobs that share a node, whose controllers die, or whose pods may not be made.

use serde_json::{Value, json};

use super::{Jobs, LIST, ONE, restricted};
use crate::controller::{Controller, Why};
use crate::pods::pod;
use crate::refusals::{MISSING, is_said};
use crate::warm_images::push;
use crate::witness::Witness;
use crate::world::variable;

#[tokio::test(flavor = "multi_thread")]
async fn two_list_jobs_at_once_share_a_node_and_tell_what_is_missing() {
    let jobs = Jobs::with_pods("pull-lists").await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let name = |image: &str| format!("{registry}/e2e/jobs-{image}:{}", std::process::id());
    let images = ["one", "two", "three", "four"].map(&name);
    for image in &images {
        push(
            &registry,
            image,
            json!({"User": "no-such-user", "Entrypoint": ["/no/such/program"]}),
            64,
        )
        .await;
    }
    let missing = name("missing");
    let _controller = jobs.controller().await;
    let mut all = images.to_vec();
    all.insert(1, missing.clone());
    jobs.start(
        LIST,
        "all",
        json!({"images": all, "pullPolicy": {"backoffLimit": 0}}),
    )
    .await;
    jobs.start(LIST, "some", json!({"images": images[1..]}))
        .await;
    let status = jobs.completed(LIST, "all").await;
    let (count, good) = (all.len(), all.len() - 1);
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [count, count, good],
        "{status}"
    );
    tells_what_is_missing(&status, &missing);
    let status = jobs.completed(LIST, "some").await;
    assert_eq!(
        [&status["completed"], &status["succeeded"]],
        [3, 3],
        "{status}"
    );
    jobs.has_pods(false).await;
    // The kubelet itself is the judge.
    jobs.world
        .create_pod(pod(
            "user",
            restricted("Never", vec![json!({"name": "main", "image": images[0]})]),
        ))
        .await;
    jobs.pulls("user", &images[0], "already present").await;
    jobs.done().await;
}

fn tells_what_is_missing(status: &Value, missing: &str) {
    let failed = &status["failedImageStatuses"];
    assert_eq!(
        (failed.as_array().unwrap().len(), &failed[0]["name"]),
        (1, &json!(missing))
    );
    assert!(
        is_said(MISSING, failed[0]["message"].as_str().unwrap()),
        "{failed}"
    );
}

/// One life of a controller after another, each killed right after the API server has carried out
/// another kind of write of its.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_that_die_at_every_kind_of_write_end_the_job_as_one_that_does_not() {
    let mut jobs = Jobs::with_pods("pull-kill").await;
    let witness = Witness::of(&mut jobs.world).await;
    let (work, exit, missing) = (
        &jobs.world.images.work,
        &jobs.world.images.exit,
        &jobs.world.images.missing,
    );
    jobs.start(
        LIST,
        "l",
        json!({"images": [work, missing, exit], "pullPolicy": {"backoffLimit": 0}}),
    )
    .await;
    let arguments = ["--warm", "--park-image", &jobs.world.images.park];
    let written = witness.life_of_one_write(&jobs.world, &arguments).await;
    assert!(
        written.ends_with("/imagelistpulljobs/l/status"),
        "when the job was begun comes first: {written}"
    );
    let is_swap = |write: &str, _: &str| write.starts_with("PATCH") && write.contains("/pods/");
    // A new life knows nothing, and asks for the first image again; so the last of them has to do
    // it all, and so has the one after it.
    witness
        .life_until(
            |write, _| write.starts_with("POST") && write.ends_with("/pods"),
            &jobs.world,
            &arguments,
        )
        .await;
    witness.life_until(is_swap, &jobs.world, &arguments).await;
    witness.life_until(is_swap, &jobs.world, &arguments).await;
    witness
        .life_until(
            |write, _| write.starts_with("DELETE") && write.contains("/pods/"),
            &jobs.world,
            &arguments,
        )
        .await;
    witness
        .life_until(
            |_, body| body.contains("completionTime\":\""),
            &jobs.world,
            &arguments,
        )
        .await;
    ended_but_for(&jobs, &jobs.world.images.missing).await;
    witness.all_writes();
    let _last = jobs.controller().await;
    jobs.has_pods(false).await;
    jobs.done().await;
}

async fn ended_but_for(jobs: &Jobs, missing: &str) {
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [3, 3, 2],
        "{status}"
    );
    assert_eq!(status["failedImageStatuses"][0]["name"], *missing);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_make_pods_a_job_fails_and_names_it() {
    let jobs = Jobs::new("pull-denied").await;
    let arguments = ["--warm", "--park-image", &jobs.world.images.park];
    let _controller = Controller::process(&jobs.world, &arguments, Why::NotByTheChart).await;
    jobs.start(
        ONE,
        "denied",
        json!({"image": jobs.world.images.work, "pullSecrets": ["login"]}),
    )
    .await;
    let status = jobs.completed(ONE, "denied").await;
    assert_eq!(
        [&status["desired"], &status["succeeded"], &status["failed"]],
        [1, 0, 1],
        "{status}"
    );
    let why = status["failures"][0]["message"].as_str().unwrap();
    assert!(
        why.contains("cannot create resource \"pods\"") && why.contains(&jobs.world.namespace),
        "{why}"
    );
    jobs.done().await;
}
