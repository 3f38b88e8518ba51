//! Several jobs on the same nodes.

use std::sync::Mutex;

use serde_json::json;
use swaplet_testbed::apiserver::Effect;
use tokio::time::sleep;

use super::*;

/// The most pods that a node has at a time. One that is terminating pulls nothing more.
fn watch_live(cluster: &Cluster) -> Arc<Mutex<usize>> {
    let most = Arc::new(Mutex::new(0));
    let (server, noted) = (cluster.world.server.clone(), most.clone());
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(100)).await;
            let mut nodes = BTreeMap::<_, usize>::new();
            for pod in server.peek_all("pods") {
                let node = pod["metadata"]["annotations"]["swaplet.io/warm-node"].to_string();
                let is_live = pod["metadata"]["deletionTimestamp"].is_null();
                *nodes.entry(node).or_default() += usize::from(is_live);
            }
            let mut most = noted.lock().unwrap();
            *most = nodes.into_values().fold(*most, usize::max);
        }
    });
    most
}

#[tokio::test(start_paused = true)]
async fn ipj_e7_jobs_that_want_the_same_image_pull_it_once() {
    let slow = ImageOptions {
        pull: Duration::from_secs(10),
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(3, &slow).await;
    let most = watch_live(&jobs.cluster);
    let _life = jobs.controller();
    jobs.create(ONE, "a", json!({"image": image(0), "parallelism": 3}))
        .await;
    jobs.create(ONE, "b", json!({"image": image(0), "parallelism": 3}))
        .await;
    jobs.create(LIST, "c", json!({"images": [image(0)], "parallelism": 3}))
        .await;
    for name in ["a", "b"] {
        assert_eq!(counts(&jobs.completed(ONE, name).await), [3, 0, 3, 0, 0]);
    }
    assert_eq!(jobs.completed(LIST, "c").await["succeeded"], 1);
    assert_eq!(*most.lock().unwrap(), 1, "one pod per node");
    assert!(
        jobs.pulls().values().all(|pulls| *pulls == 1),
        "{:?}",
        jobs.pulls()
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_take_turns_on_a_node_and_none_waits_for_tries_that_fail() {
    let jobs = Jobs::on(1, &missing("registry.example/app0:*")).await;
    let most = watch_nodes(&jobs.cluster);
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "a",
        json!({"image": image(0), "pullPolicy": {"backoffLimit": 5}}),
    )
    .await;
    jobs.wait(10).await;
    jobs.create(ONE, "b", json!({"image": image(1)})).await;
    jobs.wait(20).await;
    assert_eq!(
        counts(&jobs.status(ONE, "b")),
        [1, 0, 1, 0, 0],
        "while the other one waits for its next try"
    );
    assert_eq!(counts(&jobs.completed(ONE, "a").await), [1, 0, 0, 1, 0]);
    assert_eq!(*most.lock().unwrap(), (1, 1));
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_pull_without_asking_the_registry_does_not_count_for_a_job_that_wants_it_asked() {
    let slow = ImageOptions {
        pull: Duration::from_secs(10),
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(1, &slow).await;
    let _life = jobs.controller();
    jobs.create(ONE, "a", json!({"image": image(0)})).await;
    jobs.create(
        ONE,
        "b",
        json!({"image": image(0), "imagePullPolicy": "Always"}),
    )
    .await;
    jobs.completed(ONE, "a").await;
    jobs.completed(ONE, "b").await;
    let created = jobs
        .writes()
        .into_iter()
        .filter(|write| write.verb == Verb::Create);
    let policies: Vec<_> = created
        .map(|write| write.body["spec"]["containers"][0]["imagePullPolicy"].clone())
        .collect();
    assert_eq!(policies, ["IfNotPresent", "Always"]);
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn d6_a_registry_that_hangs_holds_up_its_own_image_only() {
    let hangs = ImageOptions {
        slow: vec![(
            "registry.example/app0:*".parse().unwrap(),
            Duration::from_secs(3000),
        )],
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(1, &hangs).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "a",
        json!({"image": image(0), "pullPolicy": {"timeoutSeconds": 900, "backoffLimit": 0}}),
    )
    .await;
    jobs.wait(10).await;
    jobs.create(
        ONE,
        "b",
        json!({"image": image(1), "completionPolicy": {"activeDeadlineSeconds": 90}}),
    )
    .await;
    jobs.wait(10).await;
    let message = jobs.status(ONE, "b")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("1 node(s) wait for pods of other jobs there"),
        "{message}"
    );
    assert_eq!(
        counts(&jobs.completed(ONE, "b").await),
        [1, 0, 1, 0, 0],
        "in its own time"
    );
    let message = jobs.status(ONE, "a")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("1 node(s) have pulled for more than 60 s: n0: registry.example/app0:v1"),
        "{message}"
    );
    assert_eq!(counts(&jobs.completed(ONE, "a").await), [1, 0, 0, 1, 0]);
    jobs.assert_quiet().await;
}

/// As while its kubelet pulls: the job no longer selects the node, and its pod stays terminating.
#[tokio::test(start_paused = true)]
async fn u28_a_pod_that_does_not_go_away_from_a_node_that_is_left_keeps_no_other_node_waiting() {
    let slow = ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(2, &slow).await;
    let world = &jobs.cluster.world;
    for node in ["n0", "n1"] {
        world.label_node(node, &json!({"pool": "batch"})).await;
    }
    world.server.set_webhook(|resource, object| {
        if resource == "pods" {
            object["metadata"]["finalizers"] = json!(["example.com/theirs"]);
        }
    });
    let _life = jobs.controller();
    let selector = json!({"matchLabels": {"pool": "batch"}});
    let spec = json!({"image": image(0), "parallelism": 1, "selector": selector});
    jobs.create(ONE, "j", spec).await;
    jobs.wait(10).await;
    let pods = jobs.cluster.pods();
    let node = pods[0]["spec"]["nodeName"].as_str().unwrap();
    world.label_node(node, &json!({"pool": null})).await;
    jobs.wait(60).await;
    let message = jobs.status(ONE, "j")["message"].to_string();
    assert!(message.contains("no longer needed"), "{message}");
    jobs.wait(120).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 1, 0, 0]);
}

/// A policy denies the deletion of a pod whose job is gone: it held its node for every job.
#[tokio::test(start_paused = true)]
async fn u84_a_pod_whose_deletion_is_denied_keeps_its_node_for_two_minutes_only() {
    let jobs = Jobs::on(1, &missing("registry.example/app0:*")).await;
    let world = &jobs.cluster.world;
    let _life = jobs.controller();
    jobs.create(ONE, "first", json!({"image": image(0)})).await;
    jobs.wait(10).await;
    world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::Delete).resource("pods")
    });
    jobs.delete(ONE, "first").await;
    jobs.create(ONE, "second", json!({"image": image(1)})).await;
    jobs.wait(90).await;
    assert_eq!(counts(&jobs.status(ONE, "second"))[2], 0);
    jobs.wait(60).await;
    assert_eq!(counts(&jobs.status(ONE, "second"))[2], 1);
}
