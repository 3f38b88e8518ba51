//! D2 and V3, on a node: Jobs that a swap would fail.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
use swaplet_testbed::{job_controller, scheduler};
use tokio::time::sleep;

use crate::harness::{Life, World};
use crate::objects::{EXIT, main_container, pod_of, sidecar};

fn on_a_node(world: &World, change: impl FnOnce(&mut NodeOptions)) {
    let mut options = NodeOptions::new("node-1", Profile::kubelet());
    change(&mut options);
    tokio::spawn(
        VirtualNode::new(
            world.server.client_as("node"),
            world.server.clock(),
            options,
        )
        .run(),
    );
}

/// A main that ends after two seconds, and a sidecar that exits with 143.
fn played() -> Vec<Value> {
    let (mut main, mut side) = (main_container(), sidecar("side"));
    main["args"] = json!(["run=2s"]);
    side["args"] = json!(["run=forever", "term=143"]);
    vec![main, side]
}

/// OpenKruise: `isPodFailed` (`broadcastjob_utils.go`), with the default `restartLimit` 0.
fn broadcast_job_fails(pod: &Value) -> bool {
    let statuses = ["initContainerStatuses", "containerStatuses"]
        .map(|list| pod["status"][list].as_array().cloned().unwrap_or_default());
    let restarts: i64 = statuses
        .iter()
        .flatten()
        .map(|status| status["restartCount"].as_i64().unwrap())
        .sum();
    pod["status"]["phase"] == "Failed" || (pod["status"]["phase"] != "Succeeded" && restarts > 0)
}

/// OpenKruise's own test: "BroadcastJob, restartPolicy=OnFailure, main succeeded".
#[tokio::test(start_paused = true)]
async fn d2_a_broadcast_job_under_on_failure_completes() {
    let world = World::new();
    on_a_node(&world, |_| {});
    world.wait(1).await;
    let mut pod = pod_of("p", "OnFailure", played());
    let owner = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob", "name": "job", "uid": "job", "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    world.create(&pod).await;
    let _life = world.start_controller_that_may_finish();
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        assert!(
            !broadcast_job_fails(&world.get("p")),
            "{}",
            world.get("p")["status"]
        );
    }
    assert_eq!(
        (world.phase("p").as_str(), world.image_changes("p")),
        ("Succeeded", 0)
    );
}

/// A cluster with the Job controller and a node that cannot pull the exit image.
async fn without_exit_image() -> (World, Life) {
    let world = World::new();
    let clock = world.server.clock();
    tokio::spawn(job_controller::run(
        world.server.client_as("job-controller"),
        clock,
    ));
    tokio::spawn(scheduler::run(world.server.client_as("scheduler"), clock));
    on_a_node(&world, |options| {
        options.images.missing = vec![EXIT.parse().unwrap()]
    });
    let life = world.start_controller_that_may_finish();
    world.wait(1).await;
    (world, life)
}

/// A Job under `Never`, whose sidecar exits with 143.
async fn create_job(world: &World, name: &str, limit: u32) {
    create_job_of(world, name, limit, "Never", played()).await;
}

async fn create_job_of(
    world: &World,
    name: &str,
    limit: u32,
    policy: &str,
    containers: Vec<Value>,
) {
    let spec = json!({"backoffLimit": limit});
    create_job_with(world, name, policy, containers, spec).await;
}

async fn create_job_with(
    world: &World,
    name: &str,
    policy: &str,
    containers: Vec<Value>,
    mut spec: Value,
) {
    spec["template"]["spec"] = json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": containers});
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    world
        .request(
            http::Method::POST,
            "/apis/batch/v1/namespaces/default/jobs",
            "application/json",
            &job,
        )
        .await;
}

/// The numbers of succeeded and failed pods of a Job.
fn ends(world: &World, name: &str) -> [Value; 2] {
    let job = world.server.peek("jobs.batch", "default", name).unwrap();
    ["succeeded", "failed"].map(|count| job["status"][count].clone())
}

/// `repro/promises/rep_never.py`: what is known of an exit image fails no further Job.
#[tokio::test(start_paused = true)]
async fn v3_a_lost_exit_image_fails_no_job_once_it_is_known() {
    let (world, _life) = without_exit_image().await;
    world.create(&pod_of("first", "OnFailure", played())).await;
    for _ in 0..60 {
        world.wait(1).await;
        if world
            .events("first")
            .contains(&"ExitImageNotPulled".to_owned())
        {
            break;
        }
    }
    for nth in 0..5 {
        create_job(&world, &format!("job{nth}"), 1).await;
    }
    world.wait(120).await;
    for nth in 0..5 {
        assert_eq!(ends(&world, &format!("job{nth}")), [json!(1), Value::Null]);
    }
}

/// Under `Never` a kubelet shows no pull that fails: the sidecar stays as it has ended. So one pod
/// fails, and no Job.
#[tokio::test(start_paused = true)]
async fn v3_under_never_alone_a_lost_exit_image_fails_one_pod_and_no_job() {
    let (world, _life) = without_exit_image().await;
    create_job(&world, "first", 2).await;
    world.wait(120).await;
    assert_eq!(ends(&world, "first"), [json!(1), json!(1)]);
    create_job(&world, "next", 0).await;
    world.wait(120).await;
    assert_eq!(ends(&world, "next"), [json!(1), Value::Null]);
}

/// So it is where only the sidecar is under `Never`.
#[tokio::test(start_paused = true)]
async fn u192_a_lost_exit_image_is_known_by_a_sidecar_under_never_in_a_pod_under_on_failure() {
    let (world, _life) = without_exit_image().await;
    for (name, failed) in [("first", json!(1)), ("next", Value::Null)] {
        let mut containers = played();
        containers[1]["restartPolicy"] = json!("Never");
        create_job_of(&world, name, 6, "OnFailure", containers).await;
        world.wait(120).await;
        assert_eq!(ends(&world, name), [json!(1), failed], "{name}");
    }
}

/// All of them end together, before the first failure shows that the exit image cannot be pulled.
#[tokio::test(start_paused = true)]
async fn u228_a_lost_exit_image_fails_no_more_pods_of_a_job_under_never_than_it_bears() {
    let (world, _life) = without_exit_image().await;
    let wave = json!({"backoffLimit": 6, "parallelism": 10, "completions": 10});
    create_job_with(&world, "wave", "Never", played(), wave).await;
    world.wait(180).await;
    let [succeeded, failed] = ends(&world, "wave");
    assert_eq!(succeeded, json!(10), "{failed} have failed");
    assert!(
        failed.as_i64().is_some_and(|failed| failed <= 6),
        "{failed}"
    );
}

#[tokio::test(start_paused = true)]
async fn u228_a_lost_exit_image_fails_no_pod_of_a_job_that_bears_no_failure() {
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}});
    for spec in [
        json!({"backoffLimit": 0}),
        json!({"backoffLimit": 6, "podFailurePolicy": {"rules": [rule]}}),
    ] {
        let (world, _life) = without_exit_image().await;
        create_job_with(&world, "job", "Never", played(), spec).await;
        world.wait(120).await;
        assert_eq!(ends(&world, "job"), [json!(1), Value::Null]);
    }
}
