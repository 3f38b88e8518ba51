//! Restarts on nodes: by `swaplet run --restart`, and directly where the cluster knows no requests.

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Rule, Verb};
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};

use crate::restart::world::{REQUESTS, Ran, World, interrupt};

/// A node of this kind with a pod that runs on it, controlled by nobody or by this owner.
async fn on_a_node(profile: Profile, policy: &str, owners: Value) -> World {
    let mut world = World::new().await;
    let node = VirtualNode::new(
        world.server.client_as("node"),
        world.server.clock(),
        NodeOptions::new("node-1", profile),
    );
    world.parts.spawn(node.run());
    let container = |name: &str| json!({"name": name, "image": format!("registry.example/{name}:1"), "args": ["run=forever"]});
    let mut log = container("log");
    // What is written must be possible to take back: that takes more steps.
    log["imagePullPolicy"] = json!("Always");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-0", "labels": {"app": "web"}, "ownerReferences": owners},
        "spec": {"nodeName": "node-1", "restartPolicy": policy, "terminationGracePeriodSeconds": 1,
            "containers": [container("app"), log]},
    });
    world.create(pod).await;
    world
        .until("the pod is ready", |server| {
            is_ready(&server.peek("pods", "default", "web-0").unwrap())
        })
        .await;
    world
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn pod(world: &World) -> Value {
    Value::clone(&world.server.peek("pods", "default", "web-0").unwrap())
}

fn restarts(pod: &Value) -> Vec<(String, i64)> {
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    statuses
        .iter()
        .map(|status| {
            (
                status["name"].as_str().unwrap().to_owned(),
                status["restartCount"].as_i64().unwrap(),
            )
        })
        .collect()
}

fn writes(world: &World) -> Vec<String> {
    let ours = world
        .server
        .recorded()
        .into_iter()
        .filter(|write| write.user_agent.starts_with("swaplet/") && write.verb != Verb::Get);
    ours.filter(|write| write.verb != Verb::List)
        .map(|write| format!("{:?} {}", write.verb, write.resource))
        .collect()
}

#[tokio::test]
async fn where_nothing_is_installed_the_image_is_changed_directly() {
    for policy in ["Always", "OnFailure", "Never"] {
        let world = on_a_node(Profile::kubelet(), policy, json!([])).await;
        world.server.remove_group("apps.kruise.io");
        let ran = world
            .restart(&[
                "web-0",
                "-c",
                "app",
                "--min-started-seconds",
                "1",
                "--grace-period",
                "9",
            ])
            .await;
        assert_eq!(ran.code, Some(0), "{policy}: {ran:?}");
        let remark = "terminationGracePeriodSeconds 9 is not used without a daemon";
        assert!(
            ran.err.contains(remark) && ran.out.contains(remark),
            "what cannot be kept is said: {ran:?}"
        );
        let pod = pod(&world);
        assert_eq!(
            restarts(&pod),
            [("app".to_owned(), 1), ("log".to_owned(), 0)],
            "{policy}"
        );
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
        assert!(
            image.starts_with("registry.example/app:1-restart-2@sha256:"),
            "{image}"
        );
        // Where the start could be the last one, a dry run comes first.
        let tries = usize::from(policy != "Always");
        assert_eq!(
            writes(&world),
            vec!["Patch pods"; 1 + tries],
            "{policy}: nothing but one image is written"
        );
        let news = format!("pod/web-0: image of app: registry.example/app:1 -> {image}");
        assert!(
            ran.err
                .contains("the cluster has no ContainerRecreateRequests")
                && ran.err.contains(&news),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("pods: 1 Succeeded"), "{}", ran.err);
    }
}

#[tokio::test]
async fn two_containers_in_their_order() {
    let world = on_a_node(Profile::kubelet(), "Always", json!([])).await;
    world.server.remove_group("apps.kruise.io");
    let ran = world
        .restart(&["web-0", "-c", "log,app", "--ordered"])
        .await;
    assert_eq!(
        (ran.code, writes(&world)),
        (Some(0), vec!["Patch pods".to_owned(); 2]),
        "{ran:?}"
    );
    let pod = pod(&world);
    let started = |index: usize| {
        pod["status"]["containerStatuses"][index]["state"]["running"]["startedAt"]
            .as_str()
            .unwrap()
    };
    assert!(started(1) < started(0), "{pod}");
}

#[tokio::test]
async fn what_cannot_work_is_refused_and_nothing_is_written() {
    let world = on_a_node(Profile::inert(), "Always", json!([])).await;
    world.server.remove_group("apps.kruise.io");
    // The operator has told what this node is.
    let label = kube::api::Patch::Merge(
        json!({"metadata": {"labels": {"swaplet.io/node-class": "VirtualInert"}}}),
    );
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(world.client.clone());
    nodes
        .patch("node-1", &Default::default(), &label)
        .await
        .unwrap();
    let dry = world.restart(&["web-0", "-c", "app", "--dry-run"]).await;
    let ran = world.restart(&["web-0", "-c", "app"]).await;
    assert_eq!(
        (dry.code, ran.code, writes(&world)),
        (Some(2), Some(1), vec![]),
        "{dry:?} {ran:?}"
    );
    for ran in [dry, ran] {
        assert!(
            ran.err.contains("the node ignores a changed image"),
            "{}",
            ran.err
        );
    }
    let ran = world.restart(&["web-0", "-c", "app", "--wait=false"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("has to wait"), "{}", ran.err);
}

/// The restarts of all pods of a Job count against it.
#[tokio::test]
async fn no_job_is_failed_by_a_restart() {
    for (limit, code, words) in [
        (1, 1, "would fail it: raise the limit"),
        (6, 0, "pods: 1 Succeeded"),
    ] {
        let job = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "unknown", "controller": true}]);
        let world = on_a_node(Profile::kubelet(), "OnFailure", job).await;
        world.server.remove_group("apps.kruise.io");
        let template = json!({"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "app", "image": "app:1"}]}});
        let spec = json!({"backoffLimit": limit, "template": template, "suspend": true});
        let uid = world.create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": spec})).await;
        for (arguments, words) in [
            (
                &["web-0", "-c", "app"][..],
                "it is a main container of Job job",
            ),
            (
                &["web-0", "-c", "app", "--force"],
                "the Job of the pod has not been observed",
            ),
        ] {
            let refused = world.restart(arguments).await;
            assert_eq!(
                (refused.code, writes(&world)),
                (Some(1), vec![]),
                "{refused:?}"
            );
            assert!(refused.err.contains(words), "{}", refused.err);
        }
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": uid, "controller": true}]);
        let patch = kube::api::Patch::Merge(json!({"metadata": {"ownerReferences": owner}}));
        world
            .pods()
            .patch("web-0", &Default::default(), &patch)
            .await
            .unwrap();
        let ran = world.restart(&["web-0", "-c", "app", "--force"]).await;
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(ran.err.contains(words), "{}", ran.err);
    }
}

#[tokio::test]
async fn ctrl_c_names_what_is_changed_and_the_way_back() {
    let world = on_a_node(Profile::kubelet(), "Always", json!([])).await;
    world.server.remove_group("apps.kruise.io");
    let child = world.start(&["web-0", "-c", "app", "--min-started-seconds", "60"]);
    world
        .until("the image is changed", |server| {
            server.peek("pods", "default", "web-0").unwrap()["spec"]["containers"][0]["image"]
                != "registry.example/app:1"
        })
        .await;
    interrupt(&child).await;
    let ran = world.end_of(child).await;
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(
        ran.err
            .contains("kubectl set image -n default pod/web-0 app=registry.example/app:1"),
        "{}",
        ran.err
    );
}

/// As while the webhook's own pod is replaced.
#[tokio::test]
async fn u242_one_webhook_that_fails_before_the_first_change_fails_no_pod() {
    let world = on_a_node(Profile::kubelet(), "Always", json!([])).await;
    world.server.remove_group("apps.kruise.io");
    let down = Effect::reply(500).message(
        "Internal error occurred: failed calling webhook \"w.example\": connection refused",
    );
    let patches = |effect: Effect| {
        let rule = Rule::new(effect).verb(Verb::Patch).resource("pods");
        rule.user_agent("swaplet/")
    };
    world.server.faults().add(patches(down.into()).times(1));
    let ran = world.restart(&["web-0", "-c", "app"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = ran.err.matches("not changed, trying again").count();
    assert_eq!(told, 1, "{}", ran.err);
}

/// As where the pod is written more often than a slow webhook answers.
#[tokio::test]
async fn u243_a_pod_that_has_changed_whenever_a_write_arrives_is_tried_once_a_second() {
    let world = on_a_node(Profile::kubelet(), "Always", json!([])).await;
    world.server.remove_group("apps.kruise.io");
    let conflict = Effect::reply(409).message("the object has been modified");
    let rule = Rule::new(conflict).verb(Verb::Patch).resource("pods");
    world.server.faults().add(rule.user_agent("swaplet/"));
    let ran = world
        .restart(&["web-0", "-c", "app", "--timeout", "5"])
        .await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("it keeps changing"), "{}", ran.err);
    let tries = writes(&world).len();
    assert!((2..=10).contains(&tries), "{tries}");
}

#[tokio::test]
async fn a_user_who_may_not_change_pods_is_told_so() {
    let world = on_a_node(Profile::kubelet(), "Always", json!([])).await;
    world.server.remove_group("apps.kruise.io");
    let forbidden = Effect::reply(403).message("you may not patch pods");
    world.server.faults().add(
        Rule::new(forbidden)
            .verb(Verb::Patch)
            .resource("pods")
            .user_agent("swaplet/"),
    );
    let ran = world.restart(&["web-0", "-c", "app"]).await;
    assert_eq!(
        (ran.code, restarts(&pod(&world))[0].1),
        (Some(1), 0),
        "{ran:?}"
    );
    assert!(ran.err.contains("you may not patch pods"), "{}", ran.err);
}

#[tokio::test]
async fn requests_are_carried_out_by_the_controller_or_not_needed() {
    let world = on_a_node(Profile::kubelet(), "Always", json!([])).await;
    let ran = world.restart(&["web-0", "-c", "log", "--direct"]).await;
    assert_eq!((ran.code, world.requests().len()), (Some(0), 0), "{ran:?}");
    let mut controller = world
        .command(
            env!("CARGO_BIN_EXE_swaplet"),
            &[
                "run",
                "--restart",
                "--restart-without-leash",
                "--exit-image",
                "registry.example/exit:1",
            ],
        )
        .spawn()
        .unwrap();
    let ran: Ran = world.restart(&["pod/web-0", "-c", "app,log"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        restarts(&pod(&world)),
        [("app".to_owned(), 1), ("log".to_owned(), 2)]
    );
    let request = world.server.peek_all(REQUESTS).pop().unwrap();
    assert_eq!(request["status"]["phase"], "Completed");
    let again = world.restart(&["pod/web-0", "-c", "app"]).await;
    assert_eq!(
        (again.code, restarts(&pod(&world))[0].1),
        (Some(0), 2),
        "{again:?}"
    );
    controller.start_kill().unwrap();
}

/// What was written has to be taken back, also where a webhook does not answer for a moment.
#[tokio::test]
async fn u100_a_denial_after_the_first_change_is_tried_again() {
    let world = on_a_node(Profile::kubelet(), "Always", json!([])).await;
    world.server.remove_group("apps.kruise.io");
    let down = Effect::reply(500)
        .message("Internal error occurred: failed calling webhook \"w\": timeout");
    let patches = || {
        Rule::new(down.clone())
            .verb(Verb::Patch)
            .resource("pods")
            .user_agent("swaplet/")
    };
    world.server.faults().add(patches().after(1).times(1));
    let ran = world
        .restart(&["web-0", "-c", "app,log", "--ordered"])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("trying again"), "{}", ran.err);
    let restarts = restarts(&pod(&world));
    assert!(restarts.iter().all(|(_, restarts)| *restarts == 1));
}
