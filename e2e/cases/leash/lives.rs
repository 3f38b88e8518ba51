//! The controller on the leash, on real containers.

use serde_json::{Value, json};
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, WITH_IMAGE};
use swaplet_core::terminate::memory::QUICK_DENIED_RETRIES;

use super::{Leashed, PROBES};
use crate::audit::{Written, swapped_in, written_in};
use crate::controller::{Controller, Why};
use crate::crds::requests_are_served;
use crate::images::push_work;
use crate::pods::{EXITS_143, container, job, main_ok, pod, sidecar, spec};
use crate::restart::restarts;
use crate::world::{World, eventually, kubectl};

/// A Job, a pod that ends by its phase, and one whose container is to be restarted; gives the
/// request.
async fn run_all(world: &World) -> Value {
    world
        .create_job(job(
            "job",
            spec(
                "Never",
                vec![main_ok(world), sidecar(world, "log", EXITS_143)],
            ),
        ))
        .await;
    let mut ignored = sidecar(world, "log", EXITS_143);
    ignored["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": IGNORE_EXIT_CODE, "value": "true"}));
    world
        .create_pod(pod(
            "by-phase",
            spec("OnFailure", vec![main_ok(world), ignored]),
        ))
        .await;
    let mut restarted = spec(
        "Always",
        vec![
            container(world, "app", EXITS_143),
            container(world, "log", EXITS_143),
        ],
    );
    restarted["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
    world.create_pod(pod("restarted", restarted)).await;
    let request = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "r", "namespace": world.namespace}, "spec": {"podName": "restarted", "containers": [{"name": "app"}], "strategy": {"unreadyGracePeriodSeconds": 1}},
    });
    request
}

async fn request_is_completed(namespace: &str) {
    eventually("the request to be completed", || async {
        let phase = kubectl(&[
            "get",
            "-n",
            namespace,
            "containerrecreaterequest",
            "r",
            "-o",
            "jsonpath={.status.phase}",
        ])
        .await;
        (phase == "Completed").then_some(())
    })
    .await;
}

/// A Job is ended by a swap, a pod by its phase, and a container is restarted, with a readiness
/// gate: nothing of it is denied.
#[tokio::test]
async fn all_that_it_does_is_let_through() {
    requests_are_served().await;
    let leashed = Leashed::new("leash-lives").await;
    let world = &leashed.world;
    let controller = Controller::start_with(world, &["--restart", "--restart-without-leash"]).await;
    let request = run_all(world).await;
    let running = |pod: &k8s_openapi::api::core::v1::Pod| {
        let statuses = pod
            .status
            .as_ref()
            .and_then(|status| status.container_statuses.as_ref());
        statuses.is_some_and(|all| all.len() == 2 && all.iter().all(|status| status.ready))
    };
    world.pod_is("restarted", "running", running).await;
    let file = world.kubeconfig.with_file_name("request.json");
    std::fs::write(&file, request.to_string()).unwrap();
    kubectl(&["create", "-f", file.to_str().unwrap()]).await;

    world
        .pod_is("restarted", "restarted", |pod| {
            restarts(pod, "app") == 1 && restarts(pod, "log") == 0
        })
        .await;
    world.job_ends("job", "Complete").await;
    world.pod_ends("by-phase", "Succeeded").await;
    assert!(
        written_in(&world.namespace)
            .iter()
            .any(Written::is_applied_finish),
        "the phase was not written"
    );
    request_is_completed(&world.namespace).await;
    let sets_readiness = |write: &&Written| {
        write.subresource == "status" && write.pod == "restarted" && write.code == 200
    };
    let sets = || {
        let written = written_in(&world.namespace);
        written.iter().filter(sets_readiness).count()
    };
    eventually("it to be not ready, and ready again", || async {
        (sets() >= 2).then_some(())
    })
    .await;
    drop(controller);
    assert_eq!(sets(), 2);
    let denied: Vec<_> = denied_in(&world.namespace);
    assert!(denied.is_empty(), "{denied:?}");
    leashed.done().await;
}

async fn others_are_served(world: &World) {
    for name in ["one", "two", "three"] {
        world
            .create_pod(pod(
                name,
                spec(
                    "Never",
                    vec![main_ok(world), sidecar(world, "log", EXITS_143)],
                ),
            ))
            .await;
    }
    for name in ["one", "two", "three"] {
        world.pod_ends(name, "Succeeded").await;
    }
    assert_eq!(swapped_in(&world.namespace), ["one", "three", "two"]);
}

/// What the leash and the flags of the controller disagree about is told, once, and tried again so
/// rarely that it costs nothing; the pod ends by its phase, and all others are served.
#[tokio::test]
async fn what_is_denied_is_told_once_and_holds_up_nobody() {
    let leashed = Leashed::new("leash-denies").await;
    let world = &leashed.world;
    let unlisted = format!("{}-unlisted", world.images.work);
    push_work(unlisted.split('/').next().unwrap(), &unlisted).await;
    let _controller =
        Controller::process(world, &["--exit-images", &unlisted], Why::NotByTheChart).await;
    let mut asks = sidecar(world, "log", EXITS_143);
    asks["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": WITH_IMAGE, "value": unlisted}));
    world
        .create_pod(pod("denied", spec("Never", vec![main_ok(world), asks])))
        .await;
    eventually("the denial to be told", || async {
        world
            .events_of("denied", 1)
            .await
            .contains(&"WriteDenied".to_owned())
            .then_some(())
    })
    .await;
    let note = kubectl(&[
        "get",
        "-n",
        &world.namespace,
        "events.events.k8s.io",
        "-o",
        "jsonpath={.items[*].note}",
    ])
    .await;
    assert!(
        note.contains(&format!("'{}pods'", leashed.prefix)) && note.contains(&unlisted),
        "{note}"
    );
    others_are_served(world).await;
    world.pod_ends("denied", "Succeeded").await;
    let told = world.events_of("denied", 2).await;
    assert!(told.contains(&"PhaseWritten".to_owned()), "{told:?}");
    assert_eq!(
        told.iter()
            .filter(|reason| *reason == "WriteDenied")
            .count(),
        1,
        "{told:?}"
    );
    let (denied, tries) = (
        denied_in(&world.namespace),
        QUICK_DENIED_RETRIES as usize + 1,
    );
    let after = |pair: &[Written]| pair[1].at.duration_since(pair[0].at).as_secs();
    assert!(
        denied.len() >= tries && denied[tries - 1..].windows(2).all(|pair| after(pair) >= 50),
        "{tries} tries, and another one each minute until the phase has ended the pod: {denied:#?}"
    );
    leashed.done().await;
}

/// The writes of the controller that were denied, but for those of the probes.
fn denied_in(namespace: &str) -> Vec<Written> {
    let written = written_in(namespace).into_iter();
    written
        .filter(|write| write.code == 403 || write.code == 422)
        .filter(|write| !PROBES.contains(&&*write.pod))
        .collect()
}
