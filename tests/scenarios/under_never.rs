//! Pods under `Never` on virtual nodes: a provider that judges them while no container runs fails
//! one whose work is done.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::job_controller;
use swaplet_testbed::virtual_node::{Gap, NodeOptions, Profile, ProviderOptions, VirtualNode};

use super::harness::World;
use super::objects::{EXIT, main_container, pod_of, sidecar};

fn with_gap(gap: Gap) -> ProviderOptions {
    ProviderOptions {
        gap,
        start_delay: Duration::from_secs(1),
        ..ProviderOptions::default()
    }
}

/// A virtual node of a provider that replaces containers; nobody knows it unless `labels` name it.
async fn virtual_node(
    world: &World,
    name: &str,
    provider: ProviderOptions,
    labels: &[(&str, &str)],
) {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let options = NodeOptions {
        labels,
        ..NodeOptions::new(name, Profile::Virtual(provider))
    };
    tokio::spawn(
        VirtualNode::new(
            world.server.client_as("node"),
            world.server.clock(),
            options,
        )
        .run(),
    );
    // The world would make an ordinary one.
    while world.server.peek("nodes", "", name).is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Its main runs for two seconds; its sidecar ends with 143 when it is stopped.
fn pod_on(node: &str, name: &str, policy: &str) -> Value {
    let (mut main, mut side) = (main_container(), sidecar("side"));
    main["args"] = json!(["run=2s"]);
    side["args"] = json!(["run=forever", "term=143"]);
    let mut pod = pod_of(name, policy, vec![main, side]);
    pod["spec"]["nodeName"] = node.into();
    pod
}

async fn run_job(world: &World, node: &str, name: &str, backoff_limit: u32) {
    let template = json!({"spec": pod_on(node, "", "Never")["spec"]});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"backoffLimit": backoff_limit, "template": template}});
    world
        .try_request(
            Method::POST,
            "/apis/batch/v1/namespaces/default/jobs",
            "application/json",
            &job,
        )
        .await
        .unwrap();
}

/// What was told of a pod, but by its provider.
fn told(world: &World, pod: &str) -> Vec<String> {
    world
        .events(pod)
        .into_iter()
        .filter(|reason| !reason.starts_with("Provider"))
        .collect()
}

/// How the Job has ended, how many of its pods have failed, and what was told of all of them.
fn ending(world: &World, job: &str) -> (String, Value, Vec<String>) {
    let status = world.server.peek("jobs.batch", "default", job).unwrap()["status"].clone();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let last = conditions.rfind(|condition| condition["status"] == "True");
    let pods = world.server.peek_all("pods");
    let names = pods
        .iter()
        .filter(|pod| pod["metadata"]["ownerReferences"][0]["name"] == job);
    let mut names: Vec<_> = names
        .map(|pod| {
            (
                pod["metadata"]["creationTimestamp"].to_string(),
                pod["metadata"]["name"].to_string(),
            )
        })
        .collect();
    names.sort();
    let told = names
        .iter()
        .flat_map(|(_, name)| told(world, name.trim_matches('"')))
        .collect();
    (
        last.map_or_else(String::new, |condition| {
            condition["type"].as_str().unwrap().to_owned()
        }),
        status["failed"].clone(),
        told,
    )
}

fn complete(told: &[&str]) -> (String, Value, Vec<String>) {
    (
        "Complete".to_owned(),
        Value::Null,
        told.iter().map(|told| (*told).to_owned()).collect(),
    )
}

/// A world with a node of an unknown provider, on which updates have been proved under `OnFailure`.
async fn proved(provider: ProviderOptions) -> World {
    let world = World::new();
    world.create_namespace("state").await;
    tokio::spawn(job_controller::run(
        world.server.client_as("job-controller"),
        world.server.clock(),
    ));
    virtual_node(&world, "vk", provider, &[]).await;
    world.create(&pod_on("vk", "on-failure", "OnFailure")).await;
    world
}

fn owned(told: &[&str]) -> Vec<String> {
    told.iter().map(|reason| (*reason).to_owned()).collect()
}

const SWAPPED: &[&str] = &["SidecarEnded"];
const FINISHED: &[&str] = &["PhaseWritten", "SidecarEnded"];

/// As OpenKruise does it there: a written phase ends nothing that is billed.
#[tokio::test(start_paused = true)]
async fn eci_pods_under_never_are_swapped_on_alibaba_eci_and_finished_on_others() {
    for (label, expected) in [
        ("k8s.aliyun.com/vnode", SWAPPED),
        ("vci.vke.volcengine.com/node-type", FINISHED),
    ] {
        let world = World::new();
        virtual_node(
            &world,
            "vk",
            with_gap(Gap::Hidden),
            &[(label, if expected == SWAPPED { "true" } else { "vci" })],
        )
        .await;
        let _life = world.start_controller_that_may_finish();
        world.create(&pod_on("vk", "p", "Never")).await;
        world.wait(60).await;
        assert_eq!(
            (told(&world, "p"), world.phase("p").as_str()),
            (owned(expected), "Succeeded")
        );
        assert_eq!(world.image("p") == EXIT, expected == SWAPPED);
        if expected == FINISHED {
            let notes = world.notes("p");
            let note = &notes
                .iter()
                .find(|(reason, _)| reason == "PhaseWritten")
                .unwrap()
                .1;
            assert!(
                note.contains("its instance be billed, until the pod is deleted")
                    && note.contains("ttlSecondsAfterFinished"),
                "{note}"
            );
        }
        world.assert_quiet().await;
    }
}

/// ECI as well may do what its documents warn of.
#[tokio::test(start_paused = true)]
async fn eci_a_pod_under_never_that_failed_by_its_swap_holds_back_the_next() {
    let world = World::new();
    virtual_node(
        &world,
        "vk",
        with_gap(Gap::Judged),
        &[("k8s.aliyun.com/vnode", "true")],
    )
    .await;
    let _life = world.start_controller_that_may_finish();
    for (name, expected) in [("first", &["PodFailedAfterSwap"][..]), ("second", FINISHED)] {
        world.create(&pod_on("vk", name, "Never")).await;
        world.wait(60).await;
        assert_eq!(told(&world, name), expected);
    }
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t1_a_provider_that_updates_gets_one_swap_under_never_and_then_all() {
    let world = proved(with_gap(Gap::Hidden)).await;
    let _life = world.start_controller_that_may_finish();
    // Not before updates are proved, and at no risk of those who cannot bear it.
    run_job(&world, "vk", "early", 6).await;
    world.wait(60).await;
    assert_eq!(
        (told(&world, "on-failure"), ending(&world, "early")),
        (owned(SWAPPED), complete(FINISHED))
    );
    world.create(&pod_on("vk", "of-nobody", "Never")).await;
    run_job(&world, "vk", "at-risk", 1).await;
    world.wait(60).await;
    assert_eq!(
        (told(&world, "of-nobody"), ending(&world, "at-risk")),
        (owned(FINISHED), complete(FINISHED))
    );

    for job in ["a", "b", "c"] {
        run_job(&world, "vk", job, 6).await;
    }
    world.wait(60).await;
    let mut endings: Vec<_> = ["a", "b", "c"].map(|job| ending(&world, job)).into();
    endings.sort_by_key(|(_, _, told)| told.clone());
    assert_eq!(
        endings,
        [complete(FINISHED), complete(FINISHED), complete(SWAPPED)],
        "one at a time, and nobody waits for it"
    );

    world.create(&pod_on("vk", "of-somebody", "Never")).await;
    run_job(&world, "vk", "not-at-risk", 0).await;
    world.wait(60).await;
    assert_eq!(
        (told(&world, "of-somebody"), ending(&world, "not-at-risk")),
        (owned(SWAPPED), complete(SWAPPED))
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t1_a_provider_that_fails_a_pod_under_never_gets_no_other_on_any_node_and_in_no_life() {
    let world = proved(with_gap(Gap::Judged)).await;
    let life = world.start_controller_that_may_finish_keeping("state");
    world.wait(30).await;
    run_job(&world, "vk", "tried", 2).await;
    world.wait(120).await;
    let first_fails = owned(&["PodFailedAfterSwap", "PhaseWritten", "SidecarEnded"]);
    assert_eq!(
        ending(&world, "tried"),
        ("Complete".to_owned(), json!(1), first_fails)
    );

    virtual_node(&world, "other", with_gap(Gap::Judged), &[]).await;
    world
        .create(&pod_on("other", "on-other", "OnFailure"))
        .await;
    world.wait(60).await;
    assert_eq!(told(&world, "on-other"), SWAPPED);
    for (node, job) in [("vk", "again"), ("other", "elsewhere")] {
        run_job(&world, node, job, 6).await;
    }
    world.wait(60).await;
    assert_eq!(
        (ending(&world, "again"), ending(&world, "elsewhere")),
        (complete(FINISHED), complete(FINISHED))
    );

    life.kill();
    let _next = world.start_controller_that_may_finish_keeping("state");
    run_job(&world, "vk", "next-life", 6).await;
    world.wait(60).await;
    assert_eq!(ending(&world, "next-life"), complete(FINISHED));
    world.assert_quiet().await;
}

/// One that was killed while the proof was under way.
#[tokio::test(start_paused = true)]
async fn t1_another_life_puts_no_second_pod_at_risk() {
    let world = proved(ProviderOptions {
        update_latency: Duration::from_secs(15),
        ..with_gap(Gap::Hidden)
    })
    .await;
    let life = world.start_controller_that_may_finish_keeping("state");
    world.wait(90).await;
    let swapped = || {
        world
            .server
            .peek_all("pods")
            .iter()
            .filter(|pod| pod["spec"]["containers"][1]["image"] == EXIT)
            .count()
    };
    assert_eq!(swapped(), 1, "on-failure");
    run_job(&world, "vk", "first", 6).await;
    while swapped() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    life.kill();
    run_job(&world, "vk", "second", 6).await;
    let _next = world.start_controller_that_may_finish_keeping("state");
    world.wait(60).await;
    assert_eq!(ending(&world, "first").0, "Complete");
    assert_eq!(
        ending(&world, "second"),
        complete(FINISHED),
        "while the first was the proof"
    );
    world.assert_quiet().await;
}
