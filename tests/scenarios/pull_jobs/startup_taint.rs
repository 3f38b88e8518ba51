//! Nodes that take no pods until their images are there.

use std::time::Duration;

use serde_json::json;
use swaplet_controller::run::Settings;
use swaplet_testbed::apiserver::Effect;
use swaplet_testbed::virtual_node::{ImageOptions, NodeOptions, Profile};

use super::*;
use crate::objects::EXIT;

const TIMEOUT: u64 = 300;

fn path(node: &str) -> String {
    format!("/api/v1/nodes/{node}")
}

/// As a node pool, or a user, gives them.
async fn taint(jobs: &Jobs, node: &str, taints: &Value) {
    let patch = json!({"spec": {"taints": taints}});
    jobs.cluster
        .world
        .request(
            Method::PATCH,
            &path(node),
            "application/merge-patch+json",
            &patch,
        )
        .await;
}

fn warming(effect: &str) -> Value {
    json!({"key": "swaplet.io/warming", "effect": effect})
}

fn other(key: &str) -> Value {
    json!({"key": key, "value": "x", "effect": "NoSchedule"})
}

fn taints(jobs: &Jobs, node: &str) -> Vec<Value> {
    let node = jobs.cluster.world.server.peek("nodes", "", node).unwrap();
    node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

impl Jobs {
    fn takes_taints(&self, change: impl FnOnce(&mut Settings)) -> Life {
        self.cluster
            .world
            .start_warming(PARK, NAMESPACE, |settings| {
                let warm = settings.warm.as_mut().unwrap();
                (warm.startup_taint_timeout, warm.startup_taint_namespaces) = (
                    Some(Duration::from_secs(TIMEOUT)),
                    ["default".into()].into(),
                );
                change(settings);
            })
    }

    async fn never(&self, name: &str, image: &str) {
        let spec = json!({"image": image, "parallelism": 5, "pullPolicy": {"backoffLimit": 0}, "completionPolicy": {"type": "Never"}});
        self.create(ONE, name, spec).await;
    }

    /// What the controllers have sent to nodes.
    fn writes_to_nodes(&self) -> Vec<Recorded> {
        let requests = self.cluster.world.requests().into_iter();
        requests
            .filter(|request| {
                request.resource == "nodes"
                    && !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch)
            })
            .collect()
    }

    async fn leaves_nodes_alone(&self) {
        let written = self.writes_to_nodes().len();
        self.wait(3600).await;
        assert_eq!(self.writes_to_nodes().len(), written);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_loses_the_taint_when_it_is_warm_and_no_other() {
    let slow = ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(2, &slow).await;
    let (first, last) = (other("first"), other("last"));
    taint(
        &jobs,
        "n0",
        &json!([first, warming("NoSchedule"), last, warming("NoExecute")]),
    )
    .await;
    jobs.never("j", &image(0)).await;
    let _life = jobs.takes_taints(|_| ());
    jobs.wait(15).await;
    assert_eq!(
        (jobs.cluster.pods().len(), taints(&jobs, "n0").len()),
        (2, 4),
        "its images are being pulled"
    );
    jobs.wait(60).await;
    assert_eq!(
        (
            jobs.status(ONE, "j")["succeeded"].as_i64(),
            taints(&jobs, "n0")
        ),
        (Some(2), vec![first, last])
    );
    let uid = jobs.cluster.world.server.peek("nodes", "", "n0").unwrap()["metadata"]["uid"].clone();
    let written = jobs.writes_to_nodes();
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/taints/3/key", "value": "swaplet.io/warming"},
        {"op": "remove", "path": "/spec/taints/3"},
        {"op": "test", "path": "/spec/taints/1/key", "value": "swaplet.io/warming"},
        {"op": "remove", "path": "/spec/taints/1"},
    ]);
    assert_eq!(
        (written.len(), &*written[0].name, &written[0].body),
        (1, "n0", &expected)
    );
    jobs.leaves_nodes_alone().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_become_warm_loses_it_when_the_time_is_over() {
    let jobs = Jobs::on(1, &missing("registry.example/app1:*")).await;
    taint(&jobs, "n0", &json!([warming("NoSchedule")])).await;
    jobs.never("good", &image(0)).await;
    jobs.never("bad", &image(1)).await;
    let _life = jobs.takes_taints(|_| ());
    jobs.wait(TIMEOUT - 10).await;
    assert_eq!(
        (
            taints(&jobs, "n0").len(),
            jobs.status(ONE, "bad")["failed"].as_i64()
        ),
        (1, Some(1))
    );
    jobs.wait(20).await;
    assert_eq!(
        (taints(&jobs, "n0").len(), jobs.writes_to_nodes().len()),
        (0, 1)
    );
    jobs.leaves_nodes_alone().await;
}

/// Without a right, or while the API server fails, no job is known; nodes are not to wait for that.
#[tokio::test(start_paused = true)]
async fn a_node_loses_it_when_the_time_is_over_though_jobs_cannot_be_listed() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    taint(&jobs, "n0", &json!([warming("NoSchedule")])).await;
    jobs.cluster
        .world
        .fault(Effect::reply(403), |rule| rule.resource(LIST.plural()));
    let _life = jobs.takes_taints(|_| ());
    jobs.wait(TIMEOUT - 10).await;
    assert_eq!(taints(&jobs, "n0").len(), 1);
    jobs.wait(20).await;
    assert_eq!(
        (taints(&jobs, "n0").len(), jobs.writes_to_nodes().len()),
        (0, 1)
    );
    jobs.leaves_nodes_alone().await;
}

#[tokio::test(start_paused = true)]
async fn the_exit_image_counts_like_a_job_and_jobs_that_end_do_not() {
    let mut jobs = Jobs::on(1, &missing("registry.example/app1:*")).await;
    jobs.create(
        ONE,
        "ends",
        json!({"image": image(1), "pullPolicy": {"backoffLimit": 9}}),
    )
    .await;
    let _life = jobs
        .takes_taints(|settings| settings.warm.as_mut().unwrap().exit_image = Some(EXIT.into()));
    jobs.wait(30).await;
    let slow = ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    };
    let taints_of_new = vec![warming("NoSchedule")];
    jobs.cluster.start(NodeOptions {
        images: slow,
        ..NodeOptions::new("new", Profile::kubelet())
    });
    jobs.wait(1).await;
    taint(&jobs, "new", &json!(taints_of_new)).await;
    jobs.wait(20).await;
    assert_eq!(
        taints(&jobs, "new"),
        taints_of_new,
        "the exit image is being pulled"
    );
    jobs.wait(60).await;
    assert_eq!(
        (taints(&jobs, "new").len(), jobs.writes_to_nodes().len()),
        (0, 1)
    );
    assert!(jobs.status(ONE, "ends")["completionTime"].is_null());
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_to_be_waited_for_it_is_taken_at_once_also_when_it_is_set_again() {
    let mut jobs = Jobs::on(1, &ImageOptions::default()).await;
    jobs.cluster
        .start(NodeOptions::new("vk", Profile::updates()));
    jobs.wait(5).await;
    jobs.never("j", &image(0)).await;
    let _life = jobs.takes_taints(|_| ());
    jobs.wait(60).await;
    let before = taints(&jobs, "vk");
    for (number, node) in ["n0", "vk", "n0"].into_iter().enumerate() {
        let mut with = taints(&jobs, node);
        with.push(warming("NoSchedule"));
        taint(&jobs, node, &json!(with)).await;
        jobs.wait(5).await;
        assert!(
            taints(&jobs, node)
                .iter()
                .all(|taint| taint["key"] != "swaplet.io/warming"),
            "{node}"
        );
        assert_eq!(jobs.writes_to_nodes().len(), number + 1);
    }
    assert_eq!(taints(&jobs, "vk"), before);
    jobs.leaves_nodes_alone().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_life_goes_on_and_a_node_that_is_gone_gets_no_write() {
    let slow = ImageOptions {
        pull: Duration::from_secs(60),
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(2, &slow).await;
    for node in ["n0", "n1"] {
        taint(&jobs, node, &json!([warming("NoSchedule")])).await;
    }
    jobs.never("j", &image(0)).await;
    let life = jobs.takes_taints(|_| ());
    jobs.wait(20).await;
    life.kill();
    jobs.wait(30).await;
    let _next = jobs.takes_taints(|_| ());
    jobs.wait(5).await;
    jobs.cluster
        .world
        .request(Method::DELETE, &path("n1"), JSON, &json!({}))
        .await;
    jobs.wait(200).await;
    let written: Vec<_> = jobs
        .writes_to_nodes()
        .into_iter()
        .map(|request| request.name)
        .collect();
    assert_eq!((written, taints(&jobs, "n0").len()), (vec!["n0".into()], 0));
    jobs.leaves_nodes_alone().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_one_node_is_tried_each_minute_and_with_it_all_lose_the_taint() {
    let jobs = Jobs::on(5, &ImageOptions::default()).await;
    for number in 0..5 {
        taint(
            &jobs,
            &format!("n{number}"),
            &json!([warming("NoSchedule")]),
        )
        .await;
    }
    let why = "nodes \"n0\" is forbidden: User \"swaplet\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope";
    let forbidden = jobs
        .cluster
        .world
        .fault(Effect::reply(403).message(why), |rule| {
            rule.verb(Verb::Patch).resource("nodes")
        });
    let life = jobs.takes_taints(|_| ());
    jobs.wait(600).await;
    let tries = jobs.writes_to_nodes().len();
    assert!((9..=11).contains(&tries), "{tries}");
    assert_eq!(
        life.health.ready(),
        Ok(format!(
            "ok, but nodes keep the taint swaplet.io/warming: {why}"
        ))
    );
    jobs.cluster.world.server.faults().remove(forbidden);
    jobs.wait(70).await;
    assert!((0..5).all(|number| taints(&jobs, &format!("n{number}")).is_empty()));
    assert_eq!(jobs.writes_to_nodes().len(), tries + 5);
    assert_eq!(life.health.ready(), Ok("ok".to_owned()));
    jobs.leaves_nodes_alone().await;
}

/// A policy or a webhook denies one node; it does not say that the right is missing.
#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_changed_keeps_the_taint_and_the_others_lose_it_at_once() {
    let jobs = Jobs::on(3, &ImageOptions::default()).await;
    for number in 0..3 {
        taint(
            &jobs,
            &format!("n{number}"),
            &json!([warming("NoSchedule")]),
        )
        .await;
    }
    let why = "admission webhook \"nodes.example\" denied the request: not this one";
    let denied = jobs
        .cluster
        .world
        .fault(Effect::reply(403).message(why), |rule| {
            rule.verb(Verb::Patch).resource("nodes").name("n0")
        });
    let life = jobs.takes_taints(|_| ());
    jobs.wait(30).await;
    let with_it = |jobs: &Jobs| {
        (0..3)
            .filter(|number| !taints(jobs, &format!("n{number}")).is_empty())
            .collect::<Vec<_>>()
    };
    assert_eq!(with_it(&jobs), [0]);
    assert_eq!(life.health.ready(), Ok("ok".to_owned()));
    jobs.wait(600).await;
    let tries = jobs.writes_to_nodes().len() - 2;
    assert!((10..=12).contains(&tries), "{tries}");
    jobs.cluster.world.server.faults().remove(denied);
    jobs.wait(70).await;
    assert_eq!(with_it(&jobs), [0; 0]);
    jobs.leaves_nodes_alone().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_made_again_and_one_that_came_too_late_changes_nothing() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    taint(&jobs, "n0", &json!([other("mine"), warming("NoSchedule")])).await;
    let busy = jobs.cluster.world.fault(Effect::reply(503), |rule| {
        rule.verb(Verb::Patch).resource("nodes")
    });
    let _life = jobs.takes_taints(|_| ());
    jobs.wait(20).await;
    let tries = jobs.writes_to_nodes().len();
    assert!((1..=5).contains(&tries), "{tries}");
    jobs.cluster.world.server.faults().remove(busy);
    jobs.wait(60).await;
    assert_eq!(taints(&jobs, "n0"), [other("mine")]);
    // What was sent once more would take another taint, if it were not tested.
    let late = jobs.writes_to_nodes().pop().unwrap();
    taint(&jobs, "n0", &json!([other("mine"), other("yours")])).await;
    let refused = jobs
        .cluster
        .world
        .try_request(
            Method::PATCH,
            &path("n0"),
            "application/json-patch+json",
            &late.body,
        )
        .await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 422));
    assert_eq!(taints(&jobs, "n0"), [other("mine"), other("yours")]);
}

#[tokio::test(start_paused = true)]
async fn without_the_option_nodes_are_left_alone() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    taint(&jobs, "n0", &json!([warming("NoSchedule")])).await;
    let _life = jobs.controller();
    jobs.never("j", &image(0)).await;
    jobs.wait(60).await;
    assert_eq!(
        (
            jobs.status(ONE, "j")["succeeded"].as_i64(),
            taints(&jobs, "n0").len()
        ),
        (Some(1), 1),
        "its pods tolerate it"
    );
    jobs.leaves_nodes_alone().await;
    assert!(jobs.writes_to_nodes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn u40_a_taint_that_a_webhook_puts_back_is_removed_once_a_minute() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let keep = |resource: &str, old: &Value, new: &mut Value| {
        if resource == "nodes" && old["spec"]["taints"].is_array() {
            new["spec"]["taints"] = old["spec"]["taints"].clone();
        }
    };
    taint(&jobs, "n0", &json!([warming("NoSchedule")])).await;
    jobs.cluster.world.server.set_update_webhook(Some(keep));
    let _life = jobs.takes_taints(|_| {});
    jobs.wait(600).await;
    let writes = jobs.writes_to_nodes().len();
    assert!((5..12).contains(&writes), "{writes} in ten minutes");
}
