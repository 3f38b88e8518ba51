//! Exit images of which it is not certain that a node starts them: the pod is ended by its phase. What
//! it would have come to shows another pod, which is swapped at the end of the case by somebody who
//! does not ask.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStateTerminated, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::audit::{swapped_in, written_in};
use crate::controller::{Controller, Why};
use crate::pods::{
    EXITS_0, EXITS_143, container, job, main_has_ended, main_ok, pod, sidecar, spec, status_of,
};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::version::minor;
use crate::warm_registry::create_login;
use crate::world::{World, ends_by, eventually};

/// The image of the containers has a shell there, and no exit image has anything.
const OWN_SHELL: &str = "/opt/own/sh";

/// Changes the image of `log`.
async fn swap(world: &World, pod: &str, exit_image: &str) {
    let image = json!({"spec": {"containers": [{"name": "log", "image": exit_image}]}});
    let (params, patch) = (PatchParams::default(), Patch::Strategic(image));
    let pods = world.api::<Pod>();
    pods.patch(pod, &params, &patch).await.unwrap();
}

/// A pod in which nothing is marked as a sidecar, so that swaplet leaves it alone, once its main
/// container has ended.
async fn unmarked(world: &World, mut spec: Value) {
    spec["containers"][1]["env"] = Value::Null;
    spec["restartPolicy"] = json!("Never");
    world.create_pod(pod("unmarked", spec)).await;
    world
        .pod_is("unmarked", "done but for its sidecar", main_has_ended)
        .await;
}

/// That pod is swapped, and is judged by its sidecar.
async fn ends_unasked(world: &World, exit_image: &str, phase: &str) {
    swap(world, "unmarked", exit_image).await;
    let ended = world.pod_ends("unmarked", phase).await;
    assert_eq!(end_of(&ended, "main").exit_code, 0, "its work was done");
}

fn end_of(pod: &Pod, container: &str) -> ContainerStateTerminated {
    let status = status_of(pod, container).unwrap().clone();
    status.state.unwrap().terminated.unwrap()
}

/// The only pod of a Job, which is Complete.
async fn completes(world: &World, job: &str) -> Pod {
    world.job_ends(job, "Complete").await;
    let status = world.api::<Job>().get(job).await.unwrap().status.unwrap();
    let counted = (status.succeeded, status.failed.unwrap_or_default());
    assert_eq!(counted, (Some(1), 0), "{job}");
    let of_job = ListParams::default().labels(&format!("job-name={job}"));
    let pods = world.api::<Pod>().list(&of_job).await.unwrap().items;
    pods.into_iter().next().unwrap()
}

/// A Job whose pod was ended by its phase, for this reason, and whose sidecar was what it was.
async fn completes_by_the_phase(world: &World, job: &str, because: &[&str]) {
    let pod = completes(world, job).await;
    // A busy kubelet may take the phase back, and it is written again.
    let pod = world.pod_ends(&pod.name_any(), "Succeeded").await;
    let log = status_of(&pod, "log").unwrap();
    let is_own = log.image.contains("/e2e/work");
    assert_eq!((log.restart_count, is_own), (0, true), "{job}: {log:?}");
    let note = eventually(&format!("PhaseWritten of {job}"), || {
        told(world, &pod, "PhaseWritten")
    })
    .await;
    assert!(because.iter().all(|words| note.contains(words)), "{note}");
}

/// The sidecar of this Job was swapped, and no other.
async fn is_swapped_alone(world: &World, job: &str) {
    let pod = completes(world, job).await.name_any();
    let swapped = eventually("a swap", || async {
        Some(swapped_in(&world.namespace)).filter(|swapped| !swapped.is_empty())
    })
    .await;
    assert_eq!(swapped, [pod], "{:#?}", written_in(&world.namespace));
}

/// The note of our Event about a pod with this reason.
async fn told(world: &World, pod: &Pod, reason: &str) -> Option<String> {
    let events = world.api::<Event>().list(&ListParams::default()).await;
    let is_it = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|pod| pod.uid.as_ref());
        about == pod.metadata.uid.as_ref() && event.reason.as_deref() == Some(reason)
    };
    events.unwrap().items.into_iter().find(is_it)?.note
}

/// A ConfigMap with a script that lasts, for this shell.
async fn create_script(world: &World, name: &str, shell: &str) {
    let script = format!("#!{shell}\n{EXITS_143}\n");
    let map = json!({"metadata": {"name": name}, "data": {"run.sh": script}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    let maps = world.api::<ConfigMap>();
    maps.create(&PostParams::default(), &map).await.unwrap();
}

/// A pod whose sidecar executes the script of a ConfigMap.
fn runs_script(world: &World, map: &str, main: Value) -> Value {
    let mut log = sidecar(world, "log", "");
    log["command"] = json!(["/scripts/run.sh"]);
    log["args"] = Value::Null;
    log["volumeMounts"] = json!([{"name": "scripts", "mountPath": "/scripts"}]);
    let mut spec = spec("OnFailure", vec![main, log]);
    spec["volumes"] =
        json!([{"name": "scripts", "configMap": {"name": map, "defaultMode": 0o755}}]);
    spec
}

/// The exit image ends the sidecar with the script of this ConfigMap, as everybody can see: while the
/// main container waits, so that swaplet has nothing to do there.
async fn works_with(world: &World, map: &str) {
    let waits = container(world, "main", EXITS_0);
    world
        .create_pod(pod("worked", runs_script(world, map, waits)))
        .await;
    let runs = |pod: &Pod| {
        let is_running = |name| status_of(pod, name).is_some_and(|s| s.started == Some(true));
        is_running("main") && is_running("log")
    };
    world.pod_is("worked", "running", runs).await;
    swap(world, "worked", &world.images.exit).await;
    let is_exit = |pod: &Pod| {
        let log = status_of(pod, "log").unwrap();
        let end = log.state.as_ref().and_then(|s| s.terminated.as_ref());
        log.restart_count == 1 && end.is_some_and(|end| end.exit_code == 0)
    };
    world
        .pod_is("worked", "running without its sidecar", is_exit)
        .await;
    ends_by(world, "worked", "main", &["kill", "1"]).await;
    world.pod_ends("worked", "Succeeded").await;
}

/// All that differs is the first line of a file that swaplet does not read. Before, the Job of the
/// other ConfigMap had failed.
#[tokio::test]
async fn t2_an_exit_image_that_has_worked_with_one_config_map_is_not_tried_with_another() {
    let world = World::new("finish-scripts").await;
    create_script(&world, "usual", "/bin/sh").await;
    create_script(&world, "own", OWN_SHELL).await;
    let _controller = Controller::start(&world).await;
    works_with(&world, "usual").await;
    for map in ["usual", "own"] {
        let spec = runs_script(&world, map, main_ok(&world));
        world.create_job(job(map, spec)).await;
    }
    let certain = vec![main_ok(&world), sidecar(&world, "log", EXITS_143)];
    world
        .create_job(job("certain", spec("OnFailure", certain)))
        .await;
    unmarked(&world, runs_script(&world, "own", main_ok(&world))).await;

    let because = [
        "ExitImageDoubtful",
        "/scripts/run.sh is a file of a ConfigMap",
    ];
    for map in ["usual", "own"] {
        completes_by_the_phase(&world, map, &because).await;
    }
    is_swapped_alone(&world, "certain").await;
    ends_unasked(&world, &world.images.exit, "Failed").await;
    world.done().await;
}

/// A pod with the Secret has brought the exit image to the node, which from 1.35 on gives it to no pod
/// without. Before, it was tried, and the first pod of each such Job failed.
#[tokio::test(flavor = "multi_thread")]
async fn l3_a_private_exit_image_that_the_node_has_is_not_tried_under_never() {
    let world = World::new("finish-private").await;
    let password = "correct-horse";
    let registry = RegistryProxy::start(Manner::Login("reader", password)).await;
    create_login(&world, &registry, password).await;
    let exit_image = format!("{}/swaplet/exit:e2e", registry.host());
    let mut warms = spec("Never", vec![json!({"name": "exit", "image": exit_image})]);
    warms["imagePullSecrets"] = json!([{"name": "login"}]);
    world.create_pod(pod("warms", warms)).await;
    world.pod_ends("warms", "Succeeded").await;

    let asked = registry.asked();
    let own = ["--exit-image", &*exit_image];
    let _controller = Controller::process(&world, &own, Why::Registry).await;
    let containers = || vec![main_ok(&world), sidecar(&world, "log", EXITS_143)];
    world
        .create_job(job("never", spec("Never", containers())))
        .await;
    // With its own Secret, and where a failed pull loses nothing, it is the first method as ever.
    let mut may_pull = spec("OnFailure", containers());
    may_pull["imagePullSecrets"] = json!([{"name": "login"}]);
    world.create_job(job("may-pull", may_pull)).await;
    unmarked(&world, spec("Never", containers())).await;

    let because = ["ExitImageNotPublic", "wants credentials"];
    completes_by_the_phase(&world, "never", &because).await;
    assert!(registry.asked() > asked, "the controller asks the registry");
    is_swapped_alone(&world, "may-pull").await;
    let checks = minor(&world).await >= 35;
    let phase = if checks { "Failed" } else { "Succeeded" };
    ends_unasked(&world, &exit_image, phase).await;
    world.done().await;
}
