//! A defect that one object meets, in every loop of a whole controller: the others get what is
//! theirs, and so does this one once the defect is mended.

mod world;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_core::restart::hot_upgrade::sidecar_set::UpgradeImages;
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
use tokio::time::sleep;

use self::world::World;
use crate::frame::isolated::break_for;
use crate::restart::driver::RestartSettings;
use crate::restart::on_config::RestartOnSettings;
use crate::run::TimeOfDay;

const KRUISE: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// The longest that something of this kind takes without a defect.
const SOON: u64 = 45;
/// When what has met a defect once is tried again, and done.
const AGAIN: u64 = 120;

async fn wait(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn of_workloads_that_are_pre_downloaded() {
    let world = World::new();
    let template = |name: &str, image: &str| json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}});
    for name in ["bad", "good"] {
        let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template(name, "app:2")});
        let metadata = json!({"name": name, "annotations": {"swaplet.io/predownload": "true"}});
        world.create(DEPLOYMENTS, &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})).await;
        let metadata = json!({"name": name, "labels": {"app": name}});
        let spec = json!({"nodeName": "n", "containers": [{"name": "main", "image": "app:1"}]});
        world
            .create(PODS, &json!({"metadata": metadata, "spec": spec}))
            .await;
    }
    break_for(Some("bad"));
    world.start(|settings| settings.predownload = true);
    wait(SOON).await;
    let owners = || {
        let jobs = world.all("imagepulljobs.apps.kruise.io");
        jobs.iter()
            .map(|job| {
                job["metadata"]["ownerReferences"][0]["name"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!((owners(), world.defects()), (vec!["good".to_owned()], 1));
    let note = "nothing is done for this Deployment because of a defect in swaplet; please report it, with the Deployment: index out of bounds";
    assert_eq!(world.reported(), [("bad".to_owned(), note.to_owned())]);
    break_for(None);
    wait(AGAIN).await;
    assert_eq!((owners().len(), world.defects()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn of_requests_to_restart_containers() {
    let world = World::new();
    let requests = format!("{KRUISE}/containerrecreaterequests");
    for name in ["bad", "good"] {
        let spec = json!({"podName": "nobody", "containers": [{"name": "app"}]});
        world.create(&requests, &json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": {"name": name}, "spec": spec})).await;
    }
    break_for(Some("bad"));
    world.start_restarting(None);
    wait(SOON).await;
    let phase = |name: &str| {
        world
            .server
            .peek("containerrecreaterequests.apps.kruise.io", "default", name)
            .unwrap()["status"]["phase"]
            .clone()
    };
    assert_eq!(
        (phase("good"), phase("bad"), world.defects()),
        (json!("Completed"), Value::Null, 1)
    );
    break_for(None);
    wait(AGAIN).await;
    assert_eq!((phase("bad"), world.defects()), (json!("Completed"), 1));
}

#[tokio::test(start_paused = true)]
async fn of_pods_whose_configuration_has_changed() {
    let world = World::new();
    world
        .create(
            "/api/v1/namespaces",
            &json!({"metadata": {"name": "state"}}),
        )
        .await;
    world
        .create(
            "/api/v1/namespaces/default/configmaps",
            &json!({"metadata": {"name": "settings"}, "data": {"color": "red"}}),
        )
        .await;
    let node = VirtualNode::new(
        world.server.client_as("node"),
        world.server.clock(),
        NodeOptions::new("virtual", Profile::kubelet()),
    );
    tokio::spawn(node.run());
    wait(1).await;
    for name in ["bad", "good"] {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true}]);
        let annotations = json!({"swaplet.io/restart-on": "app=configmap/settings"});
        let container = json!({"name": "app", "image": "registry.example/app:1", "args": ["run=forever"], "envFrom": [{"configMapRef": {"name": "settings"}}]});
        let metadata = json!({"name": name, "annotations": annotations, "ownerReferences": owner});
        world.create(PODS, &json!({"metadata": metadata, "spec": {"nodeName": "virtual", "containers": [container]}})).await;
    }
    wait(5).await;
    world.start_restarting(Some(RestartOnSettings {
        state_namespace: "state".to_owned(),
        mount_delay: Duration::from_secs(120),
        park: None,
    }));
    wait(SOON).await;
    break_for(Some("bad"));
    world
        .send(
            Method::PATCH,
            "/api/v1/namespaces/default/configmaps/settings",
            &json!({"data": {"color": "blue"}}),
        )
        .await;
    wait(SOON).await;
    let asked = || {
        let requests = world.all("containerrecreaterequests.apps.kruise.io");
        requests
            .iter()
            .map(|request| request["spec"]["podName"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!((asked(), world.defects()), (vec!["good".to_owned()], 1));
    let note = "nothing is done for this pod because of a defect in swaplet; please report it, with the pod: index out of bounds";
    assert_eq!(world.reported(), [("bad".to_owned(), note.to_owned())]);
    break_for(None);
    wait(AGAIN).await;
    assert_eq!((asked().len(), world.defects()), (2, 1));
}

async fn create_job(world: &World, name: &str, nodes: &[&str]) {
    let spec = json!({"image": "registry.example/app:1", "selector": {"names": nodes}, "completionPolicy": {"type": "Always"}});
    let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": {"name": name}, "spec": spec});
    world.create(&format!("{KRUISE}/imagepulljobs"), &job).await;
}

/// The nodes that have a warmer pod.
fn warming(world: &World) -> Vec<String> {
    let pods = world.all("pods");
    let mut nodes: Vec<_> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["annotations"]["swaplet.io/warm-node"].as_str())
        .map(str::to_owned)
        .collect();
    nodes.sort();
    nodes
}

#[tokio::test(start_paused = true)]
async fn of_jobs_that_pull_images() {
    let world = World::new();
    world.create_node("one").await;
    world.create_node("two").await;
    world.start_warming();
    create_job(&world, "bad", &["one"]).await;
    wait(SOON).await;
    assert_eq!(warming(&world), ["one"]);
    break_for(Some("bad"));
    create_job(&world, "good", &["two"]).await;
    wait(SOON).await;
    assert_eq!(
        (warming(&world), world.defects()),
        (vec!["one".to_owned(), "two".to_owned()], 1),
        "the pod of a job that is left alone stays"
    );
    break_for(None);
    // The job is looked after again, and the pod of the other one is not given up yet.
    wait(65).await;
    world
        .send(
            Method::DELETE,
            &format!("{KRUISE}/imagepulljobs/bad"),
            &json!({}),
        )
        .await;
    wait(5).await;
    assert_eq!(
        (warming(&world), world.defects()),
        (vec!["two".to_owned()], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn of_jobs_that_have_image_caches_made() {
    let world = World::new();
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {}});
    let crd = json!({"metadata": {"name": "imagecaches.eci.alibabacloud.com"}, "spec": {"group": "eci.alibabacloud.com", "scope": "Cluster",
        "names": {"kind": "ImageCache", "plural": "imagecaches"}, "versions": [version]}});
    world
        .create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &crd,
        )
        .await;
    let taint = json!({"key": "virtual-kubelet.io/provider", "value": "alibabacloud", "effect": "NoSchedule"});
    world
        .create(
            "/api/v1/nodes",
            &json!({"metadata": {"name": "eci"}, "spec": {"taints": [taint]}}),
        )
        .await;
    break_for(Some("bad"));
    world.start_warming();
    for name in ["bad", "good"] {
        let spec = json!({"image": format!("registry.example/{name}:1"), "completionPolicy": {"type": "Always"}});
        let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": {"name": name}, "spec": spec});
        world.create(&format!("{KRUISE}/imagepulljobs"), &job).await;
    }
    wait(SOON).await;
    let cached = || {
        world
            .all("imagecaches.eci.alibabacloud.com")
            .iter()
            .map(|cache| cache["spec"]["images"][0].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (cached(), world.defects()),
        (vec![json!("registry.example/good:1")], 1)
    );
    break_for(None);
    wait(65).await;
    assert_eq!((cached().len(), world.defects()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn of_nodes_to_which_images_are_pulled() {
    let world = World::new();
    world.create_node("bad-node").await;
    world.create_node("good-node").await;
    break_for(Some("bad-node"));
    world.start_warming();
    create_job(&world, "all", &["bad-node", "good-node"]).await;
    wait(SOON).await;
    assert_eq!(
        (warming(&world), world.defects()),
        (vec!["good-node".to_owned()], 1)
    );
    let status = world
        .server
        .peek("imagepulljobs.apps.kruise.io", "default", "all")
        .unwrap()["status"]
        .clone();
    assert_eq!(
        (&status["failedNodes"], &status["active"]),
        (&json!(["bad-node"]), &json!(1)),
        "{status}"
    );
    let failure = json!([{"node": "bad-node", "message": "a defect in swaplet, please report it: index out of bounds"}]);
    assert_eq!(status["failures"], failure);
}

#[tokio::test(start_paused = true)]
async fn of_a_whole_task_beside_the_loop_of_pods() {
    let world = World::new();
    world.create_node("one").await;
    break_for(Some("pulling images"));
    world.start_warming();
    create_job(&world, "job", &["one"]).await;
    wait(SOON).await;
    assert_eq!(
        (warming(&world), world.defects()),
        (Vec::<String>::new(), 1)
    );
    break_for(None);
    wait(AGAIN).await;
    assert_eq!(
        (warming(&world), world.defects()),
        (vec!["one".to_owned()], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_write_which_counts_as_failed() {
    let world = World::new();
    world.create_node("one").await;
    world.start_warming();
    wait(SOON).await;
    break_for(Some("pods"));
    create_job(&world, "job", &["one"]).await;
    wait(SOON).await;
    assert_eq!(warming(&world), Vec::<String>::new());
    break_for(None);
    wait(SOON).await;
    assert_eq!(warming(&world), ["one"]);
}

/// So the liveness probe, and the process itself, see each that stands still.
#[tokio::test(start_paused = true)]
async fn u135_each_loop_has_a_heartbeat_while_it_runs() {
    let world = World::new();
    let state = json!({"metadata": {"name": "state"}});
    world.create("/api/v1/namespaces", &state).await;
    let clock = world.server.clock();
    world.start(|settings| {
        settings.restart = Some(RestartSettings {
            time_of_day: TimeOfDay(Arc::new(move || clock.now())),
            on_config: Some(RestartOnSettings {
                state_namespace: "state".to_owned(),
                mount_delay: Duration::from_secs(120),
                park: None,
            }),
            readiness_gates: true,
            park: None,
            leash: None,
        });
        settings.warm = Some(world.warm());
        settings.hot_upgrade = Some(UpgradeImages {
            listed: Vec::new(),
            park: None,
            empty: Vec::new(),
        });
        (settings.predownload, settings.protect) = (true, true);
    });
    for _ in 0..20 {
        wait(60).await;
        assert_eq!(
            world.health.loops(),
            [
                "hot upgrades",
                "jobs that pull images",
                "pods",
                "pre-downloads",
                "protected objects",
                "readiness gates",
                "restarts for changed configuration",
            ]
        );
        assert_eq!(world.health.alive(), Ok(()), "with nothing to do");
    }
}
