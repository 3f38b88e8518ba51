//! Whole Jobs, with the Job controller's own rules: none of them fails because its sidecars are
//! ended.

mod broken_images;
mod tight_limits;
mod unseen;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
use swaplet_testbed::{job_controller, scheduler};

use super::harness::{Life, World};
use super::objects::{EXIT, main_container, sidecar};

const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/job";

/// A world with a Job controller, a scheduler and a node.
fn cluster() -> World {
    let world = World::new();
    let (server, clock) = (&world.server, world.server.clock());
    tokio::spawn(job_controller::run(
        server.client_as("job-controller"),
        clock,
    ));
    tokio::spawn(scheduler::run(server.client_as("scheduler"), clock));
    tokio::spawn(
        VirtualNode::new(
            server.client_as("node"),
            clock,
            NodeOptions::new("node-1", Profile::kubelet()),
        )
        .run(),
    );
    world
}

/// Main containers run for ten seconds, and sidecars exit with 143 when they are stopped.
fn job(pods: u32, backoff_limit: u32, policy: &str) -> Value {
    let (mut main, mut side) = (main_container(), sidecar("side"));
    main["args"] = json!(["run=10s"]);
    side["args"] = json!(["run=forever", "term=143"]);
    let spec = json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 4, "containers": [main, side]});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
        "spec": {"parallelism": pods, "completions": pods, "backoffLimit": backoff_limit, "template": {"spec": spec}}})
}

impl World {
    async fn create_job(&self, job: Value) {
        let jobs = JOB.trim_end_matches("/job");
        self.try_request(Method::POST, jobs, "application/json", &job)
            .await
            .unwrap();
    }

    async fn set_limit(&self, backoff_limit: u32) {
        let patch = json!({"spec": {"backoffLimit": backoff_limit}});
        self.try_request(Method::PATCH, JOB, "application/merge-patch+json", &patch)
            .await
            .unwrap();
    }

    async fn runs_job(&self, pods: u32, backoff_limit: u32, policy: &str) {
        self.wait(1).await;
        self.create_job(job(pods, backoff_limit, policy)).await;
        self.wait(9).await;
        assert_eq!(
            (u32::try_from(self.job_pods().len()), self.swapped_of_job()),
            (Ok(pods), 0)
        );
    }

    fn job_status(&self) -> Value {
        self.server.peek("jobs.batch", "default", "job").unwrap()["status"].clone()
    }

    fn job_is(&self, condition: &str) -> bool {
        let status = self.job_status();
        status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|found| found["type"] == condition && found["status"] == "True")
    }

    async fn job_completes(&self, pods: u32) {
        for _ in 0..300 {
            if self.job_is("Complete") {
                let status = self.job_status();
                assert_eq!(
                    (&status["succeeded"], &status["failed"]),
                    (&json!(pods), &Value::Null),
                    "{status}"
                );
                return;
            }
            assert!(
                !self.job_is("FailureTarget"),
                "the Job failed: {}",
                self.job_status()
            );
            self.wait(1).await;
        }
        panic!("the Job does not end: {:#?}", self.server.peek_all("pods"));
    }

    /// The names of the pods of the Job.
    fn job_pods(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .server
            .peek_all("pods")
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    /// The user gives a main container another image: it is restarted.
    async fn restart_main(&self, name: &str, image: &str) {
        let patch = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        let path = super::harness::path(name);
        self.try_request(
            Method::PATCH,
            &path,
            "application/strategic-merge-patch+json",
            &patch,
        )
        .await
        .unwrap();
    }

    /// The node reports so many restarts of a main container.
    async fn restarts(&self, name: &str, restarts: u32) {
        let mut statuses = self.get(name)["status"]["containerStatuses"].clone();
        statuses[0]["restartCount"] = restarts.into();
        self.set_status(name, json!({"containerStatuses": statuses}))
            .await;
    }

    fn swapped_of_job(&self) -> usize {
        self.job_pods()
            .iter()
            .filter(|name| self.image(name) == EXIT)
            .count()
    }

    /// What controllers told of the Job.
    fn notes_of_job(&self) -> Vec<(String, String)> {
        let events = self.server.peek_all("events");
        let ours = events.iter().filter(|event| {
            event["involvedObject"]["kind"] == "Job"
                && event["reportingComponent"] == "swaplet.io/controller"
        });
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        ours.map(|event| (text(event, "reason"), text(event, "message")))
            .collect()
    }

    /// Each pod was patched once, and told of once.
    fn each_pod_took_one_patch(&self) {
        for name in self.job_pods() {
            assert_eq!(
                (self.patches(&name), self.image_changes(&name)),
                (1, 1),
                "{name}"
            );
            let told: Vec<_> = self
                .events(&name)
                .into_iter()
                .filter(|reason| reason.starts_with("Sidecar"))
                .collect();
            assert_eq!(told, ["SidecarEnded"], "{name}");
        }
    }
}

/// A Job whose main containers are about to end.
async fn with_job(pods: u32, backoff_limit: u32, policy: &str) -> (World, Life) {
    let world = cluster();
    let life = world.start_controller();
    world.runs_job(pods, backoff_limit, policy).await;
    (world, life)
}

async fn twenty(backoff_limit: u32, policy: &str) -> (World, Life) {
    with_job(20, backoff_limit, policy).await
}

#[tokio::test(start_paused = true)]
async fn twenty_pods_that_end_at_once_complete_under_the_default_limit() {
    let (world, _life) = twenty(6, "OnFailure").await;
    world.job_completes(20).await;
    world.each_pod_took_one_patch();
    assert_eq!(world.notes_of_job(), []);
    world.assert_quiet().await;
    let asked = |verb, resource| {
        world
            .requests()
            .iter()
            .filter(|request| request.verb == verb && request.resource == resource)
            .count()
    };
    assert_eq!(
        (
            asked(Verb::List, "pods"),
            asked(Verb::List, "jobs"),
            world.count(Verb::Get)
        ),
        (1, 1, 0)
    );
}

/// The test can tell: a controller that believes in another limit fails the same Job.
#[tokio::test(start_paused = true)]
async fn without_headroom_the_same_job_fails() {
    let (world, _life) = twenty(100, "OnFailure").await;
    world.fault(Effect::HoldWatch, |rule| {
        rule.verb(Verb::Watch).resource("jobs")
    });
    world.set_limit(6).await;
    world.wait(30).await;
    assert!(world.job_is("Failed"), "{}", world.job_status());
}

#[tokio::test(start_paused = true)]
async fn under_never_nobody_waits() {
    let (world, _life) = twenty(0, "Never").await;
    while world.swapped_of_job() == 0 {
        world.wait(1).await;
    }
    world.wait(1).await;
    assert_eq!(world.swapped_of_job(), 20);
    world.job_completes(20).await;
    world.each_pod_took_one_patch();
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn restarts_by_the_user_are_counted() {
    let (world, _life) = twenty(6, "OnFailure").await;
    let pods = world.job_pods();
    for name in &pods[..2] {
        world.restart_main(name, "main:2").await;
    }
    // The others end and wait for each other; while they do, one main is restarted once more.
    while world.swapped_of_job() == 0 {
        world.wait(1).await;
    }
    world.restart_main(&pods[0], "main:3").await;
    world.job_completes(20).await;
    assert!(pods.iter().all(|name| world.patches(name) == 1));
    assert_eq!(world.notes_of_job(), []);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_killed_every_second_fails_no_job() {
    let (world, mut life) = twenty(6, "OnFailure").await;
    let mut lives = 1;
    while !world.job_is("Complete") {
        world.wait(1).await;
        life.kill();
        life = world.start_controller();
        lives += 1;
        assert!(
            !world.job_is("FailureTarget") && lives < 100,
            "after {lives} lives: {}",
            world.job_status()
        );
    }
    world.job_completes(20).await;
    assert!(lives > 5, "too fast to show anything: {lives}");
    assert!(
        world
            .job_pods()
            .iter()
            .all(|name| world.image_changes(name) == 1)
    );
    world.wait(1).await;
    world.assert_quiet().await;
}

/// The answers of writes that were applied are lost: they count until the pods tell.
#[tokio::test(start_paused = true)]
async fn writes_without_an_answer_are_counted() {
    for effect in [
        Effect::ApplyThenDrop,
        Effect::ApplyThenReply(Effect::reply(504)),
        Effect::Drop,
        Effect::reply(503).into(),
    ] {
        let (world, _life) = with_job(6, 4, "OnFailure").await;
        let lost = world.patch_fault(effect);
        world.wait(20).await;
        world.end_fault(lost);
        world.job_completes(6).await;
        assert!(
            world
                .job_pods()
                .iter()
                .all(|name| world.image_changes(name) == 1)
        );
        world.assert_quiet().await;
    }
}

/// Pods that the user deletes make room as the others do, and so do those that take their place.
#[tokio::test(start_paused = true)]
async fn deleted_pods_hold_no_room() {
    let (world, _life) = twenty(6, "OnFailure").await;
    while world.swapped_of_job() == 0 {
        world.wait(1).await;
    }
    for name in world
        .job_pods()
        .iter()
        .filter(|name| world.image(name) == EXIT)
    {
        world.remove(name).await;
    }
    for _ in 0..120 {
        world.wait(1).await;
        assert!(!world.job_is("FailureTarget"), "{}", world.job_status());
    }
    assert_eq!(
        world.job_status()["succeeded"],
        20,
        "{}",
        world.job_status()
    );
    world.assert_quiet().await;
}
