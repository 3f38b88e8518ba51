//! Commands that the exit image does not have, on real nodes: said by `swaplet check` before, ended
//! by an image that the controller derives.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use swaplet::image::Kind;
use swaplet::image::build::build;
use tokio::process::Command;

use crate::audit::{assert_swapped_once, written_in};
use crate::commands::send;
use crate::controller::{Controller, SWAPS_ONLY, Why};
use crate::pods::{container, main_has_ended, main_ok, pod, sidecar, spec, status_of};
use crate::process::Process;
use crate::world::{World, phase_of};

/// A path that no exit image has unless somebody asks for it.
const OWN: &str = "/opt/own/server";

/// A sidecar whose image has a program there, and whose command names it.
async fn own_sidecar(world: &World) -> Value {
    let image = format!("{}/e2e/own:v1", registry(world));
    send(&image, &build(Kind::Park, [OWN]).unwrap()).await;
    let mut own = sidecar(world, "own", "");
    own["image"] = image.into();
    own["command"] = json!([OWN]);
    own["args"] = Value::Null;
    own
}

fn registry(world: &World) -> &str {
    world.images.exit.split('/').next().unwrap()
}

fn repository(world: &World, case: &str) -> String {
    format!("{}/e2e/derived-{case}", registry(world))
}

/// Where an image cannot be pushed at once, that is tried again, for nothing is left but swaps.
async fn start(world: &World, repository: &str) -> Process {
    let arguments = [&["--derived-repository", repository][..], &SWAPS_ONLY].concat();
    Controller::process(world, &arguments, Why::Registry).await
}

fn image_of(pod: &Pod, name: &str) -> String {
    pod.spec
        .as_ref()
        .unwrap()
        .containers
        .iter()
        .find(|container| container.name == name)
        .unwrap()
        .image
        .clone()
        .unwrap()
}

/// Whether a container waits, and why.
fn waits(pod: &Pod, name: &str) -> Option<String> {
    status_of(pod, name)?
        .state
        .as_ref()?
        .waiting
        .as_ref()?
        .reason
        .clone()
}

async fn check(manifest: &Value) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pod.json");
    std::fs::write(&file, manifest.to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["check", "-f"])
        .arg(&file)
        .output()
        .await
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[tokio::test]
async fn an_unknown_command_is_reported_and_then_ended_by_a_derived_image() {
    let world = World::new("derived").await;
    let repository = repository(&world, &world.namespace);
    let own = own_sidecar(&world).await;
    let pods = ["Never", "OnFailure"].map(|policy| {
        pod(
            &policy.to_lowercase(),
            spec(policy, vec![main_ok(&world), own.clone()]),
        )
    });
    for manifest in &pods {
        let (code, table) = check(manifest).await;
        assert!(
            code == Some(1) && table.contains("NeedsImage") && table.contains(OWN),
            "{code:?} {table}"
        );
    }
    let _controller = start(&world, &repository).await;
    for manifest in pods {
        world.create_pod(manifest).await;
    }
    for name in ["never", "onfailure"] {
        let ended = world.pod_ends(name, "Succeeded").await;
        assert!(
            image_of(&ended, "own").starts_with(&format!("{repository}@sha256:")),
            "{}",
            image_of(&ended, "own")
        );
    }
    assert_eq!(
        world
            .events(2)
            .await
            .iter()
            .filter(|(_, reason)| reason != "SidecarEnded")
            .count(),
        0
    );
    assert_swapped_once(&world.namespace, &["never", "onfailure"]);
    world.done().await;
}

/// Without a repository to derive into: one Warning, and the pod stays as it is.
#[tokio::test]
async fn an_unknown_command_is_only_reported_without_a_repository() {
    let world = World::new("needs-image").await;
    let _controller = Controller::of_swaps(&world).await;
    let own = own_sidecar(&world).await;
    world
        .create_pod(pod(
            "needs",
            spec("OnFailure", vec![main_ok(&world), own.clone()]),
        ))
        .await;
    assert_eq!(
        world.events(1).await,
        [("needs".to_owned(), "NeedsImage".to_owned())]
    );
    // A busy node starts the sidecar after the end of the main container.
    let runs = |pod: &Pod| phase_of(pod) == "Running";
    let pod = world.pod_is("needs", "running", runs).await;
    assert_eq!(image_of(&pod, "own"), own["image"].as_str().unwrap());
    assert_swapped_once(&world.namespace, &[]);
    world.done().await;
}

/// The program would run again in the exit image.
#[tokio::test]
async fn a_command_on_a_volume_is_refused_and_the_pod_is_left_alone() {
    let world = World::new("on-volume").await;
    let repository = repository(&world, "volume");
    let _controller = start(&world, &repository).await;
    let mounts = json!([{"name": "work", "mountPath": "/work"}]);
    let mut copies = container(&world, "copies", "/bin/busybox cp /bin/busybox /work/sleep");
    let mut tool = sidecar(&world, "tool", "600");
    tool["command"] = json!(["/work/sleep"]);
    for container in [&mut copies, &mut tool] {
        container["volumeMounts"] = mounts.clone();
    }
    for policy in ["Never", "OnFailure"] {
        let mut spec = spec(policy, vec![main_ok(&world), tool.clone()]);
        spec["initContainers"] = json!([copies]);
        spec["volumes"] = json!([{"name": "work", "emptyDir": {}}]);
        world.create_pod(pod(&policy.to_lowercase(), spec)).await;
    }
    let expected = ["never", "onfailure"].map(|name| (name.to_owned(), "NotSwappable".to_owned()));
    assert_eq!(world.events(2).await, expected);
    for name in ["never", "onfailure"] {
        let runs = |pod: &Pod| phase_of(pod) == "Running";
        let pod = world.pod_is(name, "running", runs).await;
        assert_eq!(image_of(&pod, "tool"), world.images.work);
    }
    let pods = written_in(&world.namespace)
        .into_iter()
        .filter(|write| write.resource == "pods")
        .count();
    assert_eq!(pods, 0);
    world.done().await;
}

/// Somebody has written an exit image that does not have the command: the node starts it again and
/// again.
#[tokio::test]
async fn a_pod_that_is_stuck_on_a_wrong_exit_image_is_swapped_once() {
    let world = World::new("stuck").await;
    let repository = repository(&world, &world.namespace);
    let own = own_sidecar(&world).await;
    world
        .create_pod(pod("stuck", spec("OnFailure", vec![main_ok(&world), own])))
        .await;
    world
        .pod_is("stuck", "done but for its sidecar", main_has_ended)
        .await;
    let patch =
        json!([{"op": "replace", "path": "/spec/containers/1/image", "value": world.images.exit}]);
    let patch: Patch<Pod> = Patch::Json(serde_json::from_value(patch).unwrap());
    world
        .api::<Pod>()
        .patch("stuck", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let stuck = world
        .pod_is("stuck", "stuck", |pod| {
            waits(pod, "own").is_some_and(|reason| reason != "ContainerCreating")
        })
        .await;
    println!("stuck: {:?}", waits(&stuck, "own"));
    let _controller = start(&world, &repository).await;
    let ended = world.pod_ends("stuck", "Succeeded").await;
    assert!(image_of(&ended, "own").starts_with(&repository));
    assert_swapped_once(&world.namespace, &["stuck"]);
    world.done().await;
}
