//! Jobs end when their main containers are done, whatever their sidecars are like; by swaps, and by
//! nothing else, for the phase must not be written.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;
use tokio::time::sleep;

use crate::audit::{assert_swapped_once, written_in};
use crate::controller::Controller;
use crate::pods::{
    EXITS_0, EXITS_143, IGNORES_TERM, MARK, container, job, main_ok, pod, sidecar, spec, status_of,
};
use crate::world::{World, eventually, lets_go_on, phase_of};

/// A Job with one main and one sidecar completes with one patch, and one Event says so. A second one
/// says that the sidecar was killed, if its node has shown that: it does for about a second, and not
/// always where it is busy, so that some Jobs may be tried.
async fn job_completes(case: &str, restart_policy: &str, script: &str) {
    let world = World::new(case).await;
    let _controller = Controller::of_swaps(&world).await;
    let mut spec = spec(
        restart_policy,
        vec![main_ok(&world), sidecar(&world, "log", script)],
    );
    let is_killed = script == IGNORES_TERM;
    if is_killed {
        spec["terminationGracePeriodSeconds"] = 4.into();
    }
    let (mut names, mut kills) = (Vec::new(), 0);
    while names.is_empty() || (is_killed && kills == 0) {
        assert!(
            names.len() < 4,
            "no node has shown that the sidecar was killed"
        );
        let job_name = format!("job-{}", names.len());
        world.create_job(job(&job_name, spec.clone())).await;
        world.job_ends(&job_name, "Complete").await;
        let mut pods = world.pods().await;
        pods.retain(|pod| pod.name_any().starts_with(&job_name));
        assert_eq!(pods.iter().map(phase_of).collect::<Vec<_>>(), ["Succeeded"]);
        names.push(pods[0].name_any());
        eventually("the end to be told", || async {
            let told = world.events(1).await;
            let ends = told.iter().filter(|(_, reason)| reason == "SidecarEnded");
            (ends.count() == names.len()).then_some(())
        })
        .await;
        // The second Event may follow.
        sleep(Duration::from_secs(2)).await;
        let told = world.events(1).await;
        let count = |reason: &str| told.iter().filter(|(_, told)| told == reason).count();
        assert_eq!(count("SidecarEnded"), names.len(), "{told:?}");
        kills = count("SidecarKilled");
        assert_eq!(told.len(), names.len() + kills, "{told:?}");
        assert!(kills == 0 || is_killed, "{told:?}");
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert_swapped_once(&world.namespace, &names);
    world.done().await;
}

#[tokio::test]
async fn never_with_a_sidecar_that_exits_0() {
    job_completes("never-0", "Never", EXITS_0).await;
}

#[tokio::test]
async fn never_with_a_sidecar_that_exits_143() {
    job_completes("never-143", "Never", EXITS_143).await;
}

#[tokio::test]
async fn never_with_a_sidecar_that_ignores_sigterm() {
    job_completes("never-ignores", "Never", IGNORES_TERM).await;
}

#[tokio::test]
async fn on_failure_with_a_sidecar_that_exits_0() {
    job_completes("onfailure-0", "OnFailure", EXITS_0).await;
}

#[tokio::test]
async fn on_failure_with_a_sidecar_that_exits_143() {
    job_completes("onfailure-143", "OnFailure", EXITS_143).await;
}

#[tokio::test]
async fn on_failure_with_a_sidecar_that_ignores_sigterm() {
    job_completes("onfailure-ignores", "OnFailure", IGNORES_TERM).await;
}

#[tokio::test]
async fn two_sidecars_end_by_one_patch() {
    let world = World::new("two").await;
    let _controller = Controller::of_swaps(&world).await;
    let containers = vec![
        sidecar(&world, "log", EXITS_143),
        main_ok(&world),
        sidecar(&world, "proxy", EXITS_0),
    ];
    world
        .create_pod(pod("two", spec("Never", containers)))
        .await;
    world.pod_ends("two", "Succeeded").await;
    world.events(1).await;
    assert_swapped_once(&world.namespace, &["two"]);
    world.done().await;
}

/// Under Never a failed main is done too: its sidecar is ended, and the pod is Failed, as it would
/// be without a sidecar.
#[tokio::test]
async fn a_failed_main_under_never_ends_the_pod_as_failed() {
    let world = World::new("main-fails").await;
    let _controller = Controller::of_swaps(&world).await;
    let containers = vec![
        container(&world, "main", "sleep 1; exit 7"),
        sidecar(&world, "log", EXITS_143),
    ];
    world
        .create_pod(pod("fails", spec("Never", containers)))
        .await;
    world.pod_ends("fails", "Failed").await;
    assert_eq!(
        world.events(1).await,
        [("fails".to_owned(), "SidecarEnded".to_owned())]
    );
    assert_swapped_once(&world.namespace, &["fails"]);
    world.done().await;
}

/// Under OnFailure a failed main runs again; its sidecar has to live until it succeeds.
#[tokio::test]
async fn the_sidecar_lives_through_the_retries_of_its_main() {
    let world = World::new("retries").await;
    let _controller = Controller::of_swaps(&world).await;
    let mut main = container(
        &world,
        "main",
        "test -e /state/2 && exit 0; test -e /state/1 && touch /state/2; touch /state/1; sleep 1; exit 1",
    );
    let mut log = sidecar(&world, "log", EXITS_143);
    // The sidecar tells of its life: a second start would leave a second mark.
    log["args"] = json!([format!(
        "test -e /state/log && touch /state/log-again; touch /state/log; {EXITS_143}"
    )]);
    for container in [&mut main, &mut log] {
        container["volumeMounts"] = json!([{"name": "state", "mountPath": "/state"}]);
    }
    let mut spec = spec("OnFailure", vec![main, log]);
    spec["volumes"] = json!([{"name": "state", "emptyDir": {}}]);
    world.create_pod(pod("retries", spec)).await;
    let twice = world
        .pod_is("retries", "restarted twice", |pod| {
            status_of(pod, "main").is_some_and(|status| status.restart_count == 2)
        })
        .await;
    let sidecar_restarts = status_of(&twice, "log").map(|status| status.restart_count);
    assert!(
        sidecar_restarts.is_some_and(|restarts| restarts <= 1),
        "the sidecar was restarted before its main succeeded"
    );
    world.pod_ends("retries", "Succeeded").await;
    assert_swapped_once(&world.namespace, &["retries"]);
    world.done().await;
}

/// The exit image has a program at the path that the command names.
#[tokio::test]
async fn a_sidecar_whose_command_is_a_shell() {
    let world = World::new("shell").await;
    let _controller = Controller::of_swaps(&world).await;
    let mut log = sidecar(&world, "log", EXITS_143);
    log["command"] = json!(["/bin/sh", "-c", EXITS_143]);
    log["args"] = json!(null);
    world
        .create_pod(pod(
            "shell-never",
            spec("Never", vec![main_ok(&world), log.clone()]),
        ))
        .await;
    world
        .create_pod(pod(
            "shell-onfailure",
            spec("OnFailure", vec![main_ok(&world), log]),
        ))
        .await;
    world.pod_ends("shell-never", "Succeeded").await;
    world.pod_ends("shell-onfailure", "Succeeded").await;
    assert_swapped_once(&world.namespace, &["shell-never", "shell-onfailure"]);
    world.done().await;
}

/// Such a sidecar keeps a finished pod in phase Pending; the swap releases it.
#[tokio::test]
async fn a_sidecar_whose_image_cannot_be_pulled() {
    let world = World::new("no-image").await;
    let _controller = Controller::of_swaps(&world).await;
    let mut log = sidecar(&world, "log", EXITS_143);
    log["image"] = json!(world.images.missing);
    for policy in ["Never", "OnFailure"] {
        world
            .create_pod(pod(
                &policy.to_lowercase(),
                spec(policy, vec![main_ok(&world), log.clone()]),
            ))
            .await;
    }
    world.pod_ends("never", "Succeeded").await;
    world.pod_ends("onfailure", "Succeeded").await;
    assert_swapped_once(&world.namespace, &["never", "onfailure"]);
    world.done().await;
}

/// A native sidecar (an init container that restarts always) is the kubelet's to end.
#[tokio::test]
async fn a_native_sidecar_is_left_to_the_kubelet() {
    let world = World::new("native").await;
    let _controller = Controller::of_swaps(&world).await;
    let mut native = sidecar(&world, "native", EXITS_0);
    native["restartPolicy"] = json!("Always");
    let mut spec = spec(
        "Never",
        vec![main_ok(&world), sidecar(&world, "log", EXITS_143)],
    );
    spec["initContainers"] = json!([native]);
    world.create_pod(pod("native", spec)).await;
    let ended = world.pod_ends("native", "Succeeded").await;
    assert_eq!(
        ended.spec.unwrap().init_containers.unwrap()[0]
            .image
            .as_ref(),
        Some(&world.images.work)
    );
    assert_swapped_once(&world.namespace, &["native"]);
    world.done().await;
}

/// The exit image must run where everything is forbidden that Kubernetes can forbid.
#[tokio::test]
async fn restricted_pod_security() {
    let world = World::with_labels(
        "restricted",
        &[("pod-security.kubernetes.io/enforce", "restricted")],
    )
    .await;
    let _controller = Controller::of_swaps(&world).await;
    let containers = [main_ok(&world), sidecar(&world, "log", EXITS_143)].map(|mut container| {
        container["securityContext"] = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        });
        container["resources"] = json!({"limits": {"memory": "12Mi"}});
        container
    });
    world
        .create_pod(pod("restricted", spec("Never", containers.to_vec())))
        .await;
    world.pod_ends("restricted", "Succeeded").await;
    assert_swapped_once(&world.namespace, &["restricted"]);
    world.done().await;
}

/// If every container is a sidecar, none says when the work is done: nothing is ended, and one
/// Event says why.
#[tokio::test]
async fn a_pod_of_sidecars_only_is_refused() {
    let world = World::new("only-sidecars").await;
    let _controller = Controller::of_swaps(&world).await;
    // It may be seen late, but not after its end, for which it waits.
    let waits = "until test -e /shared/go; do sleep 1; done; sleep";
    let mut containers = vec![
        sidecar(&world, "a", &format!("{waits} 5")),
        sidecar(&world, "b", &format!("{waits} 10")),
    ];
    for container in &mut containers {
        container["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
    }
    let mut spec = spec("Never", containers);
    spec["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    world.create_pod(pod("only", spec)).await;
    world.events(1).await;
    let runs = |pod: &Pod| status_of(pod, "b").is_some_and(|status| status.started == Some(true));
    world.pod_is("only", "running", runs).await;
    lets_go_on(&world, "only", "b").await;
    world.pod_ends("only", "Succeeded").await;
    assert_eq!(
        world.events(1).await,
        [("only".to_owned(), "OnlySidecars".to_owned())]
    );
    assert_swapped_once(&world.namespace, &[]);
    world.done().await;
}

/// An image that the administrator has not listed is not written, whoever asks for it.
#[tokio::test]
async fn an_exit_image_that_is_not_listed_gives_way_to_the_default() {
    let world = World::new("not-listed").await;
    let _controller = Controller::of_swaps(&world).await;
    let mut log = sidecar(&world, "log", EXITS_143);
    log["env"] = json!([{"name": format!("{MARK}_WITH_IMAGE"), "value": world.images.work}]);
    world
        .create_pod(pod("asks", spec("Never", vec![main_ok(&world), log])))
        .await;
    let ended = world.pod_ends("asks", "Succeeded").await;
    assert_eq!(
        ended.spec.unwrap().containers[1].image.as_ref(),
        Some(&world.images.exit)
    );
    assert_swapped_once(&world.namespace, &["asks"]);
    world.done().await;
}

#[tokio::test]
async fn twelve_pods_at_once_take_twelve_patches() {
    let world = World::new("twelve").await;
    let _controller = Controller::of_swaps(&world).await;
    let names: Vec<_> = (0..12).map(|number| format!("pod-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let policy = if number % 2 == 0 {
            "Never"
        } else {
            "OnFailure"
        };
        let containers = vec![
            container(&world, "main", "sleep 4"),
            sidecar(&world, "log", EXITS_143),
        ];
        world.create_pod(pod(name, spec(policy, containers))).await;
    }
    for name in &names {
        world.pod_ends(name, "Succeeded").await;
    }
    // The audit log follows, for which this waits.
    assert_swapped_once(
        &world.namespace,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let patches = written_in(&world.namespace)
        .iter()
        .filter(|write| write.resource == "pods" && write.code < 400)
        .count();
    assert_eq!(patches, 12);
    world.done().await;
}
