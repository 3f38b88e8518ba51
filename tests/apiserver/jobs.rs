//! The Job controller and the scheduler on the embedded server, in virtual time.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_testbed::{ApiServer, job_controller, scheduler};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::common::{server, set_status};

/// A server with both controllers and one Ready node; the controllers end with the set.
async fn cluster() -> (ApiServer, Client, JoinSet<()>) {
    let (server, client) = server();
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"metadata": {"name": "n1"}});
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).unwrap(),
        )
        .await
        .unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes
        .patch_status("n1", &PatchParams::default(), &Patch::Merge(ready))
        .await
        .unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(job_controller::run(
        server.client_as("job-controller"),
        server.clock(),
    ));
    tasks.spawn(scheduler::run(
        server.client_as("scheduler"),
        server.clock(),
    ));
    (server, client, tasks)
}

async fn start(client: &Client, policy: &str, spec: Value) -> Api<Job> {
    let mut spec = spec;
    spec["template"] = json!({"spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "m"}, {"name": "side", "image": "s"}]}});
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let job = serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec})).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    jobs
}

fn pod_names(server: &ApiServer) -> Vec<String> {
    server
        .peek_all("pods")
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn status(jobs: &Api<Job>) -> JobStatus {
    jobs.get("j").await.unwrap().status.unwrap()
}

fn conditions(status: &JobStatus) -> Vec<String> {
    status
        .conditions
        .iter()
        .flatten()
        .map(|one| {
            format!(
                "{} {}",
                one.type_,
                one.reason.as_deref().unwrap_or_default()
            )
        })
        .collect()
}

/// Ends a pod, its containers with it.
async fn end(server: &ApiServer, client: &Client, name: &str, phase: &str) {
    let now = server.clock().now().to_string();
    let ended = json!({"terminated": {"exitCode": 0, "finishedAt": now}});
    let container = |name| json!({"name": name, "state": ended, "image": "", "imageID": "", "ready": false, "restartCount": 0});
    set_status(
        client,
        name,
        json!({"phase": phase, "containerStatuses": [container("main"), container("side")]}),
    )
    .await
    .unwrap();
}

fn restarts(count: i64) -> Value {
    let container = |name, restarts| json!({"name": name, "state": {"running": {}}, "image": "", "imageID": "", "ready": true, "restartCount": restarts});
    json!({"phase": "Running", "containerStatuses": [container("main", 0), container("side", count)]})
}

/// The reasons of the events of Jobs.
async fn reasons_of_jobs(client: Client) -> Vec<String> {
    let events: Api<Event> = Api::default_namespaced(client);
    let events = events
        .list(&ListParams::default().fields("involvedObject.kind=Job"))
        .await
        .unwrap();
    events
        .items
        .into_iter()
        .filter_map(|event| event.reason)
        .collect()
}

async fn assert_nothing_is_written(server: &ApiServer, during: Duration) {
    server.forget_recorded();
    sleep(during).await;
    assert_eq!(
        server
            .recorded()
            .iter()
            .filter(|request| request.is_write())
            .count(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn runs_to_completion() {
    let (server, client, _tasks) = cluster().await;
    let jobs = start(
        &client,
        "Never",
        json!({"completions": 3, "parallelism": 2}),
    )
    .await;
    assert_eq!(pod_names(&server).len(), 2);
    assert!(
        server
            .peek_all("pods")
            .iter()
            .all(|pod| pod["spec"]["nodeName"] == "n1")
    );
    for name in pod_names(&server) {
        end(&server, &client, &name, "Succeeded").await;
    }
    sleep(Duration::from_secs(3)).await;
    let middle = status(&jobs).await;
    assert_eq!((middle.succeeded, middle.active), (Some(2), Some(1)));
    let last = pod_names(&server)
        .into_iter()
        .find(|name| server.peek("pods", "default", name).unwrap()["status"]["phase"] == "Pending")
        .unwrap();
    end(&server, &client, &last, "Succeeded").await;
    sleep(Duration::from_secs(3)).await;
    let done = status(&jobs).await;
    assert_eq!(
        conditions(&done),
        [
            "SuccessCriteriaMet CompletionsReached",
            "Complete CompletionsReached"
        ]
    );
    assert_eq!(
        (
            done.succeeded,
            done.active,
            done.ready,
            done.completion_time.is_some()
        ),
        (Some(3), None, Some(0), true)
    );
    assert!(
        server
            .peek_all("pods")
            .iter()
            .all(|pod| pod["metadata"].get("finalizers").is_none())
    );
    let reasons = reasons_of_jobs(client).await;
    assert!(
        reasons.contains(&"Completed".to_owned())
            && reasons.contains(&"SuccessfulCreate".to_owned()),
        "{reasons:?}"
    );
    // Nothing happens any more.
    assert_nothing_is_written(&server, Duration::from_secs(100)).await;
}

#[tokio::test(start_paused = true)]
async fn restarts_under_on_failure_count_up_to_the_limit() {
    let (server, client, _tasks) = cluster().await;
    let jobs = start(
        &client,
        "OnFailure",
        json!({"backoffLimit": 2, "completions": 2, "parallelism": 2}),
    )
    .await;
    let names = pod_names(&server);
    set_status(&client, &names[0], restarts(1)).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(conditions(&status(&jobs).await), Vec::<String>::new());
    // One restart in each of two pods is two restarts of the job.
    set_status(&client, &names[1], restarts(1)).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    let failing = status(&jobs).await;
    assert_eq!(conditions(&failing), ["FailureTarget BackoffLimitExceeded"]);
    assert_eq!(failing.terminating, Some(2));
    for name in names {
        super::common::pods(&client)
            .delete(&name, &DeleteParams::default().grace_period(0))
            .await
            .unwrap();
    }
    sleep(Duration::from_secs(5)).await;
    let failed = status(&jobs).await;
    assert_eq!(
        conditions(&failed),
        [
            "FailureTarget BackoffLimitExceeded",
            "Failed BackoffLimitExceeded"
        ]
    );
    assert_eq!(failed.failed, Some(2));
}

#[tokio::test(start_paused = true)]
async fn with_a_limit_of_zero_one_restart_fails_the_job() {
    let (server, client, _tasks) = cluster().await;
    let jobs = start(&client, "OnFailure", json!({"backoffLimit": 0})).await;
    set_status(&client, &pod_names(&server)[0], restarts(1))
        .await
        .unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(
        conditions(&status(&jobs).await),
        ["FailureTarget BackoffLimitExceeded"]
    );
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_later_each_time() {
    let (server, client, _tasks) = cluster().await;
    let jobs = start(&client, "Never", json!({"backoffLimit": 1})).await;
    end(&server, &client, &pod_names(&server)[0], "Failed").await;
    sleep(Duration::from_secs(8)).await;
    assert_eq!(pod_names(&server).len(), 1);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(
        (pod_names(&server).len(), status(&jobs).await.failed),
        (2, Some(1))
    );
    let second = pod_names(&server)
        .into_iter()
        .find(|name| server.peek("pods", "default", name).unwrap()["status"]["phase"] == "Pending")
        .unwrap();
    end(&server, &client, &second, "Failed").await;
    sleep(Duration::from_secs(3)).await;
    let failed = status(&jobs).await;
    assert_eq!(
        conditions(&failed),
        [
            "FailureTarget BackoffLimitExceeded",
            "Failed BackoffLimitExceeded"
        ]
    );
    assert_eq!(failed.failed, Some(2));
}

#[tokio::test(start_paused = true)]
async fn deadlines_and_times_to_live() {
    let (server, client, _tasks) = cluster().await;
    let jobs = start(
        &client,
        "Never",
        json!({"activeDeadlineSeconds": 50, "ttlSecondsAfterFinished": 100}),
    )
    .await;
    sleep(Duration::from_secs(50)).await;
    assert_eq!(
        conditions(&status(&jobs).await),
        ["FailureTarget DeadlineExceeded"]
    );
    super::common::pods(&client)
        .delete(
            &pod_names(&server)[0],
            &DeleteParams::default().grace_period(0),
        )
        .await
        .unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(conditions(&status(&jobs).await).len(), 2);
    sleep(Duration::from_secs(100)).await;
    assert!(jobs.get_opt("j").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_takes_its_pods_along() {
    let (server, client, _tasks) = cluster().await;
    let jobs = start(&client, "Never", json!({})).await;
    let name = pod_names(&server).remove(0);
    end(&server, &client, &name, "Succeeded").await;
    jobs.delete("j", &DeleteParams::background()).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert!(server.peek_all("pods").is_empty());
}
