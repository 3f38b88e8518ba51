//! Which nodes a job wants, also while nodes and pods come and go.

use serde_json::json;
use swaplet_testbed::virtual_node::{ImageOptions, NodeOptions, Profile};

use super::*;

#[tokio::test(start_paused = true)]
async fn ipj_e6_a_never_job_follows_nodes_that_are_new_and_does_not_end() {
    let mut jobs = Jobs::on(2, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "j",
        json!({"image": image(0), "parallelism": 5, "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(60).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [2, 0, 2, 0, 0]);
    jobs.cluster
        .start(NodeOptions::new("new", Profile::kubelet()));
    jobs.wait(15).await;
    let status = jobs.status(ONE, "j");
    assert_eq!(counts(&status), [3, 0, 3, 0, 0], "at once: {status}");
    assert_eq!(
        (&status["completionTime"], &status["message"]),
        (&json!(null), &json!("job is running, progress 100.0%"))
    );
    jobs.cluster
        .world
        .request(Method::DELETE, "/api/v1/nodes/n0", JSON, &json!({}))
        .await;
    jobs.wait(15).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [2, 0, 2, 0, 0]);
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_over_virtual_nodes_only_is_no_success_and_among_others_they_are_skipped() {
    let mut jobs = Jobs::on(1, &ImageOptions::default()).await;
    jobs.cluster
        .start(NodeOptions::new("vk", Profile::updates()));
    jobs.wait(5).await;
    let _life = jobs.controller();
    jobs.create(ONE, "mixed", json!({"image": image(0)})).await;
    let status = jobs.completed(ONE, "mixed").await;
    assert_eq!(counts(&status), [1, 0, 1, 0, 1]);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("job has completed; 1 node(s) skipped: vk: "),
        "{message}"
    );

    let written = jobs.writes().len();
    jobs.create(
        ONE,
        "virtual",
        json!({"image": image(0), "selector": {"names": ["vk"]}}),
    )
    .await;
    let status = jobs.completed(ONE, "virtual").await;
    assert_eq!(
        (counts(&status), &status["failedNodes"]),
        (vec![1, 0, 0, 1, 1], &json!(["vk"]))
    );
    jobs.create(
        LIST,
        "virtual",
        json!({"images": images(2), "selector": {"names": ["vk"]}}),
    )
    .await;
    let status = jobs.completed(LIST, "virtual").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"],
            &status["skipped"]
        ],
        [2, 2, 0, 1]
    );
    assert_eq!(jobs.writes().len(), written, "nothing is written for them");
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_node_is_told() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let _life = jobs.controller();
    let names = ["n0", "node-that-was-removed"];
    jobs.create(
        ONE,
        "j",
        json!({"image": image(0), "selector": {"names": names}}),
    )
    .await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(
        (&status["desired"], &status["succeeded"], &status["message"]),
        (
            &json!(1),
            &json!(1),
            &json!("job has completed; no such node: node-that-was-removed")
        )
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_selects_no_node_ends_and_says_so() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "j",
        json!({"image": image(0), "selector": {"matchLabels": {"pool": "none"}}}),
    )
    .await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(
        (counts(&status), &status["message"]),
        (
            vec![0; 5],
            &json!("job has completed; no node is selected, so nothing is pulled")
        )
    );
    jobs.create(
        LIST,
        "l",
        json!({"images": images(1), "selector": {"matchLabels": {"pool": "none"}}}),
    )
    .await;
    assert_eq!(
        jobs.completed(LIST, "l").await["succeeded"],
        0,
        "nothing was pulled, which is no success"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_selector_means_all_nodes_and_labels_are_followed() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "all",
        json!({"image": image(0), "selector": {}, "parallelism": 2}),
    )
    .await;
    assert_eq!(counts(&jobs.completed(ONE, "all").await), [2, 0, 2, 0, 0]);
    let selector =
        json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["batch"]}]});
    jobs.create(
        ONE,
        "j",
        json!({"image": image(1), "selector": selector, "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(20).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [0; 5]);
    jobs.cluster
        .world
        .label_node("n1", &json!({"pool": "batch"}))
        .await;
    jobs.wait(20).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 1, 0, 0]);
    jobs.cluster
        .world
        .label_node("n1", &json!({"pool": null}))
        .await;
    jobs.wait(20).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [0; 5]);
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_selector_means_the_nodes_of_active_pods_of_the_jobs_namespace() {
    let jobs = Jobs::on(3, &ImageOptions::default()).await;
    let world = &jobs.cluster.world;
    for (name, node) in [("a", "n0"), ("b", "n0"), ("c", "n2")] {
        let spec = json!({"nodeName": node, "containers": [{"name": "main", "image": "registry.example/web:1", "args": ["run=forever"]}]});
        world.create(&json!({"metadata": {"namespace": "default", "name": name, "labels": {"app": "web"}}, "spec": spec})).await;
    }
    jobs.wait(10).await;
    let _life = jobs.controller();
    let spec = json!({"image": image(0), "podSelector": {"matchLabels": {"app": "web"}}, "completionPolicy": {"type": "Never"}, "parallelism": 3});
    jobs.create(ONE, "j", spec.clone()).await;
    jobs.wait(30).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [2, 0, 2, 0, 0]);
    jobs.cluster.world.remove("c").await;
    jobs.wait(15).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 1, 0, 0]);
    jobs.edit(
        ONE,
        "j",
        &json!({"podSelector": {"matchLabels": {"app": "none"}}}),
    )
    .await;
    jobs.wait(15).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [0; 5]);
    for name in ["a", "b"] {
        jobs.cluster.world.remove(name).await;
    }
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn another_node_of_the_same_name_gets_the_image_too() {
    let mut jobs = Jobs::on(1, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "j",
        json!({"image": image(0), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(30).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 1, 0, 0]);
    let written = jobs.writes().len();
    jobs.cluster
        .world
        .request(Method::DELETE, "/api/v1/nodes/n0", JSON, &json!({}))
        .await;
    jobs.cluster
        .start(NodeOptions::new("n0", Profile::kubelet()));
    jobs.wait(30).await;
    assert_eq!(
        (counts(&jobs.status(ONE, "j")), jobs.writes().len()),
        (vec![1, 0, 1, 0, 0], written + 2)
    );
    jobs.assert_quiet().await;
}

/// Jobs whose pods are not watched, by their status.
fn waiting(jobs: &Jobs, count: usize) -> Vec<String> {
    let names = (0..count).map(|number| format!("j{number}"));
    let waits = |name: &String| {
        jobs.find(ONE, name).is_some_and(|job| {
            let message = job["status"]["message"].as_str().unwrap_or_default();
            message.contains("waits until other jobs with a podSelector")
        })
    };
    names.filter(waits).collect()
}

fn requests_of_pods(jobs: &Jobs, verb: Verb) -> usize {
    let requests = jobs.cluster.world.requests().into_iter();
    requests
        .filter(|request| {
            (request.verb, &*request.resource, &*request.namespace) == (verb, "pods", "default")
        })
        .count()
}

fn lists_of_pods(jobs: &Jobs) -> usize {
    requests_of_pods(jobs, Verb::List)
}

#[tokio::test(start_paused = true)]
async fn a9_the_pods_of_so_many_jobs_of_a_namespace_are_watched_and_the_others_say_that_they_wait()
{
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let _life = jobs.controller();
    let selecting = |completion: &str| {
        let labels = json!({"matchLabels": {"app": "none"}});
        json!({"image": image(0), "podSelector": labels, "completionPolicy": {"type": completion}})
    };
    for number in 0..34 {
        jobs.create(ONE, &format!("j{number}"), selecting("Never"))
            .await;
    }
    jobs.wait(20).await;
    assert_eq!(lists_of_pods(&jobs), 32);
    let waiting_now = waiting(&jobs, 34);
    assert_eq!(waiting_now.len(), 2);

    let first = (0..34)
        .map(|number| format!("j{number}"))
        .find(|name| !waiting_now.contains(name))
        .unwrap();
    jobs.delete(ONE, &first).await;
    jobs.wait(20).await;
    assert_eq!((lists_of_pods(&jobs), waiting(&jobs, 34).len()), (33, 1));

    let mut ends = selecting("Always");
    ends["completionPolicy"]["activeDeadlineSeconds"] = json!(30);
    jobs.edit(ONE, &waiting(&jobs, 34)[0], &ends).await;
    jobs.wait(60).await;
    assert_eq!(
        waiting(&jobs, 34).len(),
        0,
        "a job that waits ends when its time is over"
    );
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_completed_job_are_watched_no_more_until_it_starts_again() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let pod = |name: &str, node: &str| {
        let spec = json!({"nodeName": node, "containers": [{"name": "main", "image": "registry.example/web:1", "args": ["run=forever"]}]});
        json!({"metadata": {"namespace": "default", "name": name, "labels": {"app": "web"}}, "spec": spec})
    };
    jobs.cluster.world.create(&pod("a", "n0")).await;
    jobs.wait(10).await;
    let _life = jobs.controller();
    let selecting = json!({"image": image(0), "podSelector": {"matchLabels": {"app": "web"}}});
    for number in 0..40 {
        jobs.create(ONE, &format!("j{number}"), selecting.clone())
            .await;
    }
    for number in 0..40 {
        let status = jobs.completed(ONE, &format!("j{number}")).await;
        assert_eq!(counts(&status), [1, 0, 1, 0, 0]);
    }
    assert_eq!(lists_of_pods(&jobs), 40);
    jobs.wait(5).await;
    let watches = requests_of_pods(&jobs, Verb::Watch);
    jobs.wait(1800).await;
    assert_eq!(
        requests_of_pods(&jobs, Verb::Watch),
        watches,
        "a watch is begun again after some minutes"
    );
    jobs.cluster.world.remove("a").await;
    jobs.cluster.world.create(&pod("b", "n1")).await;
    jobs.wait(10).await;
    jobs.edit(ONE, "j0", &json!({"image": image(1)})).await;
    jobs.wait(10).await;
    jobs.completed(ONE, "j0").await;
    let pulled: Vec<_> = jobs
        .pulls()
        .into_keys()
        .filter(|(_, pulled)| *pulled == image(1))
        .map(|(node, _)| node)
        .collect();
    assert_eq!(pulled, ["n1"], "the pods are listed anew");
    jobs.cluster.world.remove("b").await;
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_selector_that_changes_and_changes_back_at_once_still_means_its_nodes() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let spec = json!({"nodeName": "n0", "containers": [{"name": "main", "image": "registry.example/web:1", "args": ["run=forever"]}]});
    jobs.cluster
        .world
        .create(&json!({"metadata": {"namespace": "default", "name": "a", "labels": {"app": "web"}}, "spec": spec}))
        .await;
    jobs.wait(10).await;
    let _life = jobs.controller();
    let selecting = |app: &str| json!({"podSelector": {"matchLabels": {"app": app}}});
    let mut spec = selecting("web");
    (spec["image"], spec["completionPolicy"]) = (json!(image(0)), json!({"type": "Never"}));
    jobs.create(ONE, "j", spec).await;
    jobs.wait(30).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 1, 0, 0]);
    jobs.edit(ONE, "j", &selecting("none")).await;
    jobs.edit(ONE, "j", &selecting("web")).await;
    jobs.wait(30).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 1, 0, 0]);
    jobs.cluster.world.remove("a").await;
    jobs.assert_quiet().await;
}
