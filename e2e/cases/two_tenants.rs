//! What one tenant makes keeps nobody else waiting.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::controller::{Controller, Why};
use crate::images::swaplet;
use crate::pods::{EXITS_0, job, main_has_ended, main_ok, pod, sidecar, spec, status_of};
use crate::restart::restarts;
use crate::world::{World, kubectl, variable};

/// When pods whose sidecars only the phase ends have become quiet.
const QUIET: Duration = Duration::from_secs(15);
/// A Job of another tenant ends in seconds: in so many on a busy machine.
const SECONDS: Duration = Duration::from_secs(60);
/// Whoever is told to stop has no more.
const TO_STOP: Duration = Duration::from_secs(30);

/// A park image that nothing is parked in, by this tag.
async fn park(tag: &str) -> String {
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let image = format!("{registry}/test/park:{tag}");
    swaplet(&["park-image", "push", &image]).await;
    image
}

/// One of the pods of the Job, with these images for its containers.
fn one_of(job: &Job, name: &str, images: [&str; 3]) -> Value {
    let containers = ["main", "a", "b"].into_iter().zip(images);
    let containers: Vec<_> = containers
        .map(|(name, image)| {
            let mark = json!([{"name": crate::pods::MARK, "value": "true"}]);
            let env = if name == "main" { json!([]) } else { mark };
            json!({"name": name, "image": image, "command": ["/bin/sh"], "env": env})
        })
        .collect();
    let mut made = pod(name, spec("OnFailure", containers));
    made["metadata"]["annotations"] = json!({"swaplet.io/order": "b=1"});
    made["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job",
        "name": job.name_any(), "uid": job.uid().unwrap(), "controller": true}]);
    made
}

/// Three pods of a Job that nobody manages, which has room for one restart more: of one the main
/// container was restarted twice, one has one of its two sidecars behind it, and one has both before
/// it.
async fn three_pods_are_there(world: &World) {
    let [first, second] = [park("1").await, park("2").await];
    let main = json!({"name": "main", "image": first, "command": ["/bin/sh"]});
    let mut unmanaged = job("j", spec("OnFailure", vec![main]));
    unmanaged["spec"]["managedBy"] = json!("example.com/nobody");
    unmanaged["spec"]["backoffLimit"] = json!(3);
    for field in ["parallelism", "completions"] {
        unmanaged["spec"][field] = json!(3);
    }
    world.create_job(unmanaged).await;
    let job = world.api::<Job>().get("j").await.unwrap();
    let exit = &*world.images.exit;
    for (name, images) in [
        ("p0", [exit, &first, &first]),
        ("p1", [exit, exit, &first]),
        ("p2", [&*first, &first, &first]),
    ] {
        world.create_pod(one_of(&job, name, images)).await;
    }
    for (image, count) in [(&second, 1), (&first, 2)] {
        let runs = |pod: &Pod| {
            let status = status_of(pod, "main").and_then(|status| status.state.as_ref());
            status.is_some_and(|state| state.running.is_some())
        };
        world.pod_is("p2", "running", runs).await;
        let patch = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        world
            .api::<Pod>()
            .patch("p2", &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap();
        let restarted = |pod: &Pod| restarts(pod, "main") == count && runs(pod);
        world.pod_is("p2", "restarted", restarted).await;
    }
    for name in ["p0", "p1"] {
        world.pod_is(name, "without its main", main_has_ended).await;
    }
    let swapped = |pod: &Pod| {
        let state = status_of(pod, "a").and_then(|status| status.state.as_ref());
        state.is_some_and(|state| state.terminated.is_some())
    };
    world.pod_is("p1", "half done", swapped).await;
}

#[tokio::test]
async fn t1_three_pods_of_one_tenant_do_not_stop_the_loop_for_another() {
    let world = World::new("tenant").await;
    let other = World::new("tenant-other").await;
    let (here, there) = (&world.namespace, &other.namespace);
    let account = format!("--serviceaccount={here}:swaplet");
    let role = "--clusterrole=cluster-admin";
    kubectl(&[
        "create",
        "rolebinding",
        "tenant",
        "-n",
        there,
        role,
        &account,
    ])
    .await;
    three_pods_are_there(&world).await;
    let flags = ["--namespace", there];
    let controller = Controller::process(&world, &flags, Why::NotByTheChart).await;
    for nth in 0..3 {
        sleep(QUIET).await;
        let name = format!("victim-{nth}");
        let begun = Instant::now();
        let containers = vec![main_ok(&other), sidecar(&other, "log", EXITS_0)];
        other
            .create_job(job(&name, spec("OnFailure", containers)))
            .await;
        other.job_ends(&name, "Complete").await;
        println!("{name} took {:?}", begun.elapsed());
        assert!(begun.elapsed() < SECONDS, "{name}: {:?}", begun.elapsed());
    }
    for name in ["p0", "p1"] {
        world.pod_ends(name, "Succeeded").await;
    }
    timeout(TO_STOP, controller.stop())
        .await
        .expect("it obeys SIGTERM");
    other.done().await;
    world.done().await;
}
