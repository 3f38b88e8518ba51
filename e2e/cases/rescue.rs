//! Jobs that got stuck while no controller ran: explained, listed and ended with the rights of one
//! account, nothing installed.

use std::path::Path;
use std::process::Output;

use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::audit::{assert_swapped_once, written_in};
use crate::pods::{EXITS_143, job, main_has_ended, main_ok, sidecar, spec};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::world::{OF_SLOW_NODES, World, eventually, variable};

/// With the account of the namespace; OpenKruise may be on the cluster for others.
async fn swaplet(
    world: &World,
    kubeconfig: &Path,
    subcommand: &str,
    arguments: &[&str],
) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swaplet"));
    command
        .args([
            subcommand,
            "--namespace",
            &world.namespace,
            "--coexist=own",
            "--kubeconfig",
        ])
        .arg(kubeconfig)
        .args(arguments);
    if subcommand == "rescue" {
        // On a busy node the ends of pods take longer.
        command.args(["--timeout", "10m"]);
    }
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().await.unwrap();
    let (out, err) = (
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    );
    println!("swaplet {subcommand} {arguments:?}: {status}\n{out}{err}");
    (status.code(), out, err)
}

/// The names of the pods of these Jobs, once their main containers have ended.
async fn stuck(world: &World, jobs: &[(&str, &str)]) -> Vec<String> {
    for (name, policy) in jobs {
        world
            .create_job(job(
                name,
                spec(
                    policy,
                    vec![main_ok(world), sidecar(world, "log", EXITS_143)],
                ),
            ))
            .await;
    }
    ended_mains(world, jobs.len()).await
}

/// The names of all pods, once there are so many whose main containers have ended.
async fn ended_mains(world: &World, count: usize) -> Vec<String> {
    eventually("the Jobs to be stuck", || async {
        let pods = world.pods().await;
        (pods.len() == count && pods.iter().all(main_has_ended))
            .then(|| pods.iter().map(|pod| pod.name_any()).collect())
    })
    .await
}

#[tokio::test]
async fn stuck_jobs_are_explained_listed_and_ended_without_a_controller() {
    let world = World::new("rescue").await;
    let exit_image = ["--exit-image", &world.images.exit];
    let pods = stuck(&world, &[("nightly", "Never"), ("report", "OnFailure")]).await;
    for pod in &pods {
        let (code, out, err) = swaplet(
            &world,
            &world.kubeconfig,
            "explain",
            &[&[&**pod], &exit_image[..]].concat(),
        )
        .await;
        assert_eq!(code, Some(0), "{err}");
        assert!(
            out.contains("SidecarSwapped: swaplet changes the image of log")
                && out.contains("counts as Kubelet"),
            "{out}"
        );
    }
    let (code, out, _) = swaplet(
        &world,
        &world.kubeconfig,
        "rescue",
        &[&["--dry-run"], &exit_image[..]].concat(),
    )
    .await;
    assert_eq!((code, out.lines().count()), (Some(0), 3), "{out}");
    assert!(
        pods.iter().all(|pod| out
            .lines()
            .any(|line| line.contains(pod) && line.contains("SidecarSwapped"))),
        "{out}"
    );
    let written = written_in(&world.namespace);
    assert!(
        written.is_empty(),
        "nothing is written by who only asks: {written:#?}"
    );

    let (code, out, err) = swaplet(&world, &world.kubeconfig, "rescue", &exit_image).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        pods.iter().all(|pod| out
            .lines()
            .any(|line| line.contains(pod) && line.contains("Succeeded"))),
        "{out}"
    );
    for name in ["nightly", "report"] {
        world.job_ends(name, "Complete").await;
    }
    assert_swapped_once(
        &world.namespace,
        &pods.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    is_explained_by_events(&world, &pods[0]).await;
    world.done().await;
}

/// Somebody who may read Events sees why the sidecar was stopped.
async fn is_explained_by_events(world: &World, pod: &str) {
    let (code, out, err) = swaplet(
        world,
        Path::new(&variable("KUBECONFIG")),
        "explain",
        &[pod, "-o", "json"],
    )
    .await;
    assert_eq!(code, Some(0), "{err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let reasons = json["events"].as_array().unwrap().iter();
    // A busy node may show the end late.
    let reasons: Vec<_> = reasons
        .filter_map(|event| event["reason"].as_str())
        .filter(|reason| !OF_SLOW_NODES.contains(reason))
        .collect();
    assert_eq!(
        (&json["decision"]["reason"], reasons),
        (
            &"PodFinished".into(),
            vec!["SidecarSwapped", "SidecarEnded"]
        )
    );
}

#[tokio::test]
async fn stuck_jobs_are_ended_without_any_exit_image() {
    let world = World::new("rescue-finish").await;
    let pods = stuck(&world, &[("nightly", "Never"), ("report", "OnFailure")]).await;
    let (code, out, err) = swaplet(&world, &world.kubeconfig, "rescue", &["--prefer=finish"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    for name in ["nightly", "report"] {
        world.job_ends(name, "Complete").await;
    }
    let written = written_in(&world.namespace);
    assert!(
        pods.iter().all(|pod| written
            .iter()
            .any(|write| write.pod == *pod && write.is_applied_finish())),
        "{written:#?}"
    );
    assert!(
        !written.iter().any(|write| write.is_applied_swap()),
        "{written:#?}"
    );
    world.done().await;
}

#[tokio::test]
async fn an_exit_image_that_ran_as_an_init_container_is_there_when_the_registry_is_not() {
    let world = World::new("rescue-first").await;
    let mut registry = RegistryProxy::start(Manner::Serve).await;
    let exit_image = format!("{}/swaplet/exit:e2e", registry.host());
    let jobs = [("nightly", "Never"), ("report", "OnFailure")];
    for (name, policy) in jobs {
        let mut spec = spec(
            policy,
            vec![main_ok(&world), sidecar(&world, "log", EXITS_143)],
        );
        spec["initContainers"] = json!([{"name": "exit-image", "image": exit_image}]);
        world.create_job(job(name, spec)).await;
    }
    ended_mains(&world, jobs.len()).await;
    registry.stop().await;
    let (code, out, err) = swaplet(
        &world,
        &world.kubeconfig,
        "rescue",
        &["--exit-image", &exit_image],
    )
    .await;
    assert_eq!(code, Some(0), "{out}{err}");
    for (name, _) in jobs {
        world.job_ends(name, "Complete").await;
    }
    let swaps = written_in(&world.namespace)
        .into_iter()
        .filter(|write| write.is_applied_swap())
        .count();
    // Whether it may be pulled without credentials cannot be asked now: under Never the phase ends it.
    assert_eq!(swaps, 1, "under OnFailure by the image");
    world.done().await;
}
