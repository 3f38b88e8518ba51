//! `swaplet warm --wait=false` on a real cluster, by somebody who may make jobs and nothing else.

use std::process::Output;

use swaplet_core::warm::pull_job::object::JobKind;
use tokio::process::Command;

use crate::pull_jobs::Jobs;
use crate::world::{kubectl, variable, write_kubeconfig};

async fn warm(jobs: &Jobs, kubeconfig: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args([
            "warm",
            "--wait=false",
            "--namespace",
            &jobs.world.namespace,
            "--kubeconfig",
        ])
        .arg(kubeconfig)
        .args(arguments)
        .output()
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn swaplet_warm_that_is_not_to_wait_leaves_the_images_to_the_controller() {
    let jobs = Jobs::with_pods("warm-job").await;
    let namespace = &*jobs.world.namespace;
    kubectl(&["create", "serviceaccount", "user", "-n", namespace]).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = write_kubeconfig(
        folder.path(),
        kubectl(&["create", "token", "user", "-n", namespace])
            .await
            .trim()
            .to_owned(),
    );
    let (work, exit) = (
        jobs.world.images.work.as_str(),
        jobs.world.images.exit.as_str(),
    );
    let only_here = format!(
        "kubernetes.io/hostname in ({}),!no-such-label",
        variable("SWAPLET_E2E_NODE")
    );

    let refused = warm(&jobs, &kubeconfig, &[work, "-l", &only_here]).await;
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.status.code() == Some(2)
            && error.contains("cannot create resource \"imagelistpulljobs\""),
        "{error}"
    );
    may_make_jobs(namespace).await;
    let _controller = jobs.controller().await;
    let made = warm(
        &jobs,
        &kubeconfig,
        &[work, exit, "-l", &only_here, "--backoff-limit", "1"],
    )
    .await;
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let name = said
        .strip_prefix("imagelistpulljob.apps.kruise.io/")
        .and_then(|rest| rest.split_once(" created\n"))
        .unwrap()
        .0;
    let status = jobs.completed(JobKind::ImageListPullJob, name).await;
    assert_eq!(
        [&status["desired"], &status["succeeded"]],
        [2, 2],
        "{status}"
    );
    assert_eq!(
        status["imageStatuses"][0]["desired"], 1,
        "only the node of the selector: {status}"
    );
    jobs.done().await;
}

/// Gives the user the right to make jobs.
async fn may_make_jobs(namespace: &str) {
    let account = format!("--serviceaccount={namespace}:user");
    kubectl(&[
        "create",
        "role",
        "user",
        "-n",
        namespace,
        "--verb=create",
        "--resource=imagelistpulljobs.apps.kruise.io",
    ])
    .await;
    kubectl(&[
        "create",
        "rolebinding",
        "user",
        "-n",
        namespace,
        "--role=user",
        &account,
    ])
    .await;
}
