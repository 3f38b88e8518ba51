//! No tenant can starve another: for each feature one who asks for everything, and one who asks for
//! little. What the modest one waits is printed and bounded.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Recorded, Verb};
use swaplet_testbed::virtual_node::ImageOptions;

use crate::harness::World;
use crate::node::{running, status, terminated};
use crate::objects::{EXIT, main_container, pod_of, sidecar};
use crate::pull_jobs::{Jobs, LIST, ONE};
use crate::restart::config::{Configured, web};
use crate::restart::world::Restarts;
use crate::warm::{JSON, NAMESPACE, PARK};

const GREEDY: &str = "a-greedy";
const MODEST: &str = "modest";

/// How many seconds it takes until this is so.
async fn waits(world: &World, most: u64, what: &str, is_so: impl Fn() -> bool) -> u64 {
    for seconds in 0..=most {
        if is_so() {
            println!("a9 {what}: the modest one waits {seconds} s, {most} s are allowed");
            return seconds;
        }
        world.wait(1).await;
    }
    panic!("{what}: not within {most} s")
}

/// A job of a namespace that pulls images.
async fn pull_job(world: &World, namespace: &str, kind: &str, name: &str, mut spec: Value) {
    if spec["completionPolicy"].is_null() {
        spec["completionPolicy"] = json!({});
    }
    let path = format!(
        "/apis/apps.kruise.io/v1alpha1/namespaces/{namespace}/{}s",
        kind.to_lowercase()
    );
    let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    world.request(Method::POST, &path, JSON, &job).await;
}

fn status_of(world: &World, namespace: &str, kind: &str, name: &str) -> Value {
    let resource = format!("{}s.apps.kruise.io", kind.to_lowercase());
    world.server.peek(&resource, namespace, name).unwrap()["status"].clone()
}

async fn tenants(jobs: &Jobs) {
    for namespace in [GREEDY, MODEST] {
        jobs.cluster.world.create_namespace(namespace).await;
    }
}

/// One node, where the images of the greedy one take so long.
async fn slow_node(seconds: u64) -> Jobs {
    let slow = vec![(
        "registry.example/greedy/*".parse().unwrap(),
        Duration::from_secs(seconds),
    )];
    let jobs = Jobs::on(
        1,
        &ImageOptions {
            slow,
            ..ImageOptions::default()
        },
    )
    .await;
    tenants(&jobs).await;
    jobs
}

fn greedy(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("registry.example/greedy/app{number}:v1"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a9_a_job_waits_for_one_image_of_another_namespace_and_not_for_all_its_jobs() {
    let (jobs, list) = (slow_node(200).await, LIST.as_str());
    let world = &jobs.cluster.world;
    for number in 0..5 {
        let spec = json!({"images": greedy(20), "pullPolicy": {"timeoutSeconds": 2_147_483_647}});
        pull_job(world, GREEDY, list, &format!("j{number}"), spec).await;
    }
    let _life = jobs.controller();
    world.wait(100).await;
    pull_job(
        world,
        MODEST,
        ONE.as_str(),
        "j",
        json!({"image": "registry.example/modest:v1"}),
    )
    .await;
    waits(world, 260, "pull jobs", || {
        status_of(world, MODEST, ONE.as_str(), "j")["completionTime"].is_string()
    })
    .await;
    assert_eq!(status_of(world, MODEST, ONE.as_str(), "j")["succeeded"], 1);
    world.wait(20 * 260).await;
    assert_eq!(
        status_of(world, GREEDY, list, "j0")["succeeded"],
        20,
        "the greedy one has what it asked for as well"
    );
}

/// As where a webhook does not answer for one namespace.
#[tokio::test(start_paused = true)]
async fn a9_a_job_waits_for_none_of_the_writes_that_hang_in_another_namespace() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    tenants(&jobs).await;
    let (world, one) = (&jobs.cluster.world, ONE.as_str());
    let _rule = world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Patch)
            .resource("imagepulljobs")
            .namespace(GREEDY)
    });
    let _life = jobs.controller();
    let spec = json!({"image": "registry.example/app:v1"});
    for number in 0..60 {
        pull_job(world, GREEDY, one, &format!("j{number}"), spec.clone()).await;
    }
    world.wait(30).await;
    pull_job(world, MODEST, one, "j", spec).await;
    waits(world, 40, "writes of pull jobs", || {
        status_of(world, MODEST, one, "j")["completionTime"].is_string()
    })
    .await;
}

/// As where a webhook for pods asks a registry of the tenant. The pods of a job with secrets are in
/// its namespace.
#[tokio::test(start_paused = true)]
async fn u253_no_node_is_held_by_creations_that_only_wait_behind_those_that_hang() {
    let jobs = Jobs::on(60, &ImageOptions::default()).await;
    tenants(&jobs).await;
    let (world, one) = (&jobs.cluster.world, ONE.as_str());
    let _rule = world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Create).resource("pods").namespace(GREEDY)
    });
    let _life = jobs.controller();
    let everywhere =
        json!({"image": greedy(1)[0], "pullSecrets": ["login"], "parallelism": "100%"});
    pull_job(world, GREEDY, one, "j", everywhere).await;
    world.wait(30).await;
    let last = json!({"image": "registry.example/app:v1", "selector": {"names": ["n9"]}});
    pull_job(world, MODEST, one, "j", last).await;
    waits(world, 60, "creations that hang", || {
        status_of(world, MODEST, one, "j")["completionTime"].is_string()
    })
    .await;
    assert_eq!(status_of(world, MODEST, one, "j")["succeeded"], 1);
    let creations = |request: &&Recorded| {
        request.verb == Verb::Create && request.resource == "pods" && request.namespace == GREEDY
    };
    let requests = world.requests();
    assert!(requests.iter().filter(creations).count() >= 3);
}

#[tokio::test(start_paused = true)]
async fn a9_a_registry_that_trickles_keeps_a_node_for_a_minute_and_its_job_ends() {
    let jobs = slow_node(1_000_000).await;
    let (world, one) = (&jobs.cluster.world, ONE.as_str());
    let endless = json!({"timeoutSeconds": 2_147_483_647, "backoffLimit": 0});
    pull_job(
        world,
        GREEDY,
        one,
        "j",
        json!({"image": greedy(1)[0], "pullPolicy": endless}),
    )
    .await;
    let _life = jobs.controller();
    world.wait(30).await;
    pull_job(
        world,
        MODEST,
        one,
        "j",
        json!({"image": "registry.example/modest:v1"}),
    )
    .await;
    waits(world, 90, "pulls that trickle", || {
        status_of(world, MODEST, one, "j")["succeeded"] == 1
    })
    .await;
    world.wait(1900).await;
    let status = status_of(world, GREEDY, one, "j");
    let why = status["failures"][0]["message"].as_str().unwrap();
    assert!(
        status["failed"] == 1 && why.contains("not pulled within 1800 s"),
        "{status}"
    );
}

#[tokio::test(start_paused = true)]
async fn a9_a_job_that_nobody_listed_delays_no_new_node() {
    let missing = ImageOptions {
        missing: vec!["registry.example/greedy/*".parse().unwrap()],
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(1, &missing).await;
    tenants(&jobs).await;
    let world = &jobs.cluster.world;
    let never = |image: &str| json!({"image": image, "completionPolicy": {"type": "Never"}});
    pull_job(world, GREEDY, ONE.as_str(), "j", never(&greedy(1)[0])).await;
    pull_job(
        world,
        MODEST,
        ONE.as_str(),
        "j",
        never("registry.example/modest:v1"),
    )
    .await;
    let taint =
        json!({"spec": {"taints": [{"key": "swaplet.io/warming", "effect": "NoSchedule"}]}});
    world
        .request(
            Method::PATCH,
            "/api/v1/nodes/n0",
            "application/merge-patch+json",
            &taint,
        )
        .await;
    let _life = world.start_warming(PARK, NAMESPACE, |settings| {
        let warm = settings.warm.as_mut().unwrap();
        (warm.startup_taint_timeout, warm.startup_taint_namespaces) =
            (Some(Duration::from_secs(300)), [MODEST.into()].into());
        warm.exit_image = Some(EXIT.into());
    });
    let is_free = || {
        world.server.peek("nodes", "", "n0").unwrap()["spec"]["taints"]
            .as_array()
            .is_none_or(Vec::is_empty)
    };
    waits(world, 60, "startup taint", is_free).await;
    world.wait(10).await;
    assert!(
        jobs.pulls().keys().any(|(_, image)| image == EXIT)
            && status_of(world, MODEST, ONE.as_str(), "j")["succeeded"] == 1
    );
}

/// A pod of a node that does nothing any more.
async fn hung_pod(world: &World, namespace: &str, name: &str) {
    let container = json!({"name": "app", "image": "registry.example/app:1"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": "hung", "restartPolicy": "Always", "containers": [container]}});
    world.create(&pod).await;
    let statuses = json!([status(&container, running())]);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    world
        .set_status_at(
            &path,
            json!({"phase": "Running", "containerStatuses": statuses}),
        )
        .await;
}

async fn restart(world: &World, namespace: &str, name: &str, pod: &str) {
    let path =
        format!("/apis/apps.kruise.io/v1alpha1/namespaces/{namespace}/containerrecreaterequests");
    let spec = json!({"podName": pod, "containers": [{"name": "app"}]});
    let request = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": {"name": name}, "spec": spec});
    world.request(Method::POST, &path, JSON, &request).await;
}

#[tokio::test(start_paused = true)]
async fn a9_a_restart_waits_for_none_of_hundreds_that_hang_in_another_namespace() {
    let world = Restarts::with_pod("Always").await;
    world.create_namespace(GREEDY).await;
    for number in 0..400 {
        hung_pod(&world, GREEDY, &format!("p{number}")).await;
        restart(&world, GREEDY, &format!("r{number}"), &format!("p{number}")).await;
    }
    let _life = world.start_controller();
    world.wait(20).await;
    let begun = |request: &Value| request["status"]["phase"] == "Recreating";
    let requests = world
        .server
        .peek_all("containerrecreaterequests.apps.kruise.io");
    assert!(
        requests.iter().filter(|request| begun(request)).count() > 100,
        "the greedy one is served, too"
    );
    restart(&world, "default", "r", "p").await;
    waits(&world, 20, "restarts", || {
        world.get("r")["status"]["phase"] == "Completed"
    })
    .await;
    assert_eq!(world.restarts("app"), 1);
}

#[tokio::test(start_paused = true)]
async fn bug4_hundreds_of_names_that_no_pod_has_hold_nobody_up_and_get_a_verdict() {
    let world = Restarts::with_pod("Always").await;
    world.create_namespace(GREEDY).await;
    for number in 0..300 {
        restart(
            &world,
            GREEDY,
            &format!("r{number}"),
            &format!("x={number}"),
        )
        .await;
    }
    let life = world.start_controller();
    restart(&world, "default", "r", "p").await;
    waits(&world, 20, "restarts beside bad names", || {
        world.get("r")["status"]["phase"] == "Completed"
    })
    .await;
    world.wait(30).await;
    let requests = world
        .server
        .peek_all("containerrecreaterequests.apps.kruise.io");
    let refused = requests.iter().filter(|request| {
        request["status"]["message"]
            .as_str()
            .is_some_and(|words| words.contains("podName"))
    });
    assert_eq!(refused.count(), 300);
    let asked = |name: &str| {
        life.line
            .sent()
            .iter()
            .any(|sent| sent.uri.contains(&format!("metadata.name%3D{name}")))
    };
    assert!(asked("p") && !asked("x"), "nobody is asked for them");
}

/// A pod whose main container is done, of a node that nobody knows.
async fn done_pod(world: &World, namespace: &str, name: &str, grace_seconds: u32) {
    let containers = vec![main_container(), sidecar("side")];
    let statuses = json!([
        status(&containers[0], terminated(0, 0)),
        status(&containers[1], running())
    ]);
    let mut pod = pod_of(name, "OnFailure", containers);
    pod["metadata"]["namespace"] = json!(namespace);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(grace_seconds);
    world.create(&pod).await;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let status = json!({"phase": "Running", "containerStatuses": statuses});
    world.set_status_at(&path, status).await;
}

/// The sidecars have a grace period of more than a century: none of these probes proves anything.
#[tokio::test(start_paused = true)]
async fn a9_a_pod_waits_ten_minutes_for_probes_of_a_node_whatever_the_pods_of_others_say() {
    for (namespace, others) in [("default", 0), (GREEDY, 9)] {
        let world = World::new();
        let virtual_node = json!({"type": "virtual-kubelet"});
        world.label_node("node-1", &virtual_node).await;
        world.create_namespace(GREEDY).await;
        done_pod(&world, namespace, "slow", 4_000_000_000).await;
        let _life = world.start_controller();
        world.wait(30).await;
        let slow = world.find(namespace, "slow").unwrap();
        let image = &slow["spec"]["containers"][1]["image"];
        assert_eq!(image, EXIT, "it is the probe");
        for number in 0..others {
            done_pod(&world, namespace, &format!("p{number}"), 4_000_000_000).await;
        }
        done_pod(&world, "default", "modest", 30).await;
        waits(&world, 640, "probes", || world.image("modest") == EXIT).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a9_objects_of_one_namespace_leave_another_its_share_of_what_is_watched() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    world.create_namespace(GREEDY).await;
    for number in 0..40 {
        let names: Vec<_> = (0..10)
            .map(|object| format!("configmap/c{number}-{object}"))
            .collect();
        let mut pod = web(number, &format!("app={}", names.join(",")));
        pod["metadata"]["namespace"] = json!(GREEDY);
        pod["metadata"]["name"] = json!(format!("greedy-{number}"));
        pod["metadata"]["ownerReferences"][0]["uid"] = json!(format!("rs-{number}"));
        world.create(&pod).await;
    }
    let _life = world.start().await;
    world.wait(10).await;
    world.set_color("blue").await;
    waits(&world, 40, "changed configuration", || {
        world.restarts_of("web-0") == (1, 0)
    })
    .await;
    let told: Vec<_> = (0..40)
        .flat_map(|number| world.said(&format!("greedy-{number}")))
        .collect();
    let beyond = told
        .iter()
        .filter(|(reason, words)| {
            reason == "RestartOnInvalid" && words.contains("more than its share")
        })
        .count();
    assert_eq!(
        beyond,
        400 - 255,
        "each object that is not watched is told once"
    );
    assert!(
        world
            .said("web-0")
            .iter()
            .all(|(reason, _)| reason == "RestartOnChanged")
    );
}
