//! Clusters on one machine leave each other alone (`e2e/cluster`).

use std::fs::create_dir;
use std::path::{Path, PathBuf};

use kube::Client;
use tokio::process::Command;

use crate::world::variable;

/// The folder of this cluster, which is not one of `e2e/kind`.
fn folder() -> Option<PathBuf> {
    let kubeconfig = PathBuf::from(variable("KUBECONFIG"));
    let folder = kubeconfig.parent()?.to_owned();
    folder.join("pod-cidr").exists().then_some(folder)
}

async fn cluster(command: &str, folder: &Path) -> (bool, String) {
    run("cluster", command, "SWAPLET_CLUSTER_DIR", folder).await
}

async fn run(program: &str, command: &str, variable: &str, folder: &Path) -> (bool, String) {
    let output = Command::new(format!("{}/e2e/{program}", env!("CARGO_MANIFEST_DIR")))
        .arg(command)
        .env(variable, folder)
        .output()
        .await
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), words)
}

#[tokio::test]
async fn t12_a_folder_of_the_same_name_or_around_it_harms_no_cluster_that_is_up() {
    let Some(ours) = folder() else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let elsewhere = tempfile::tempdir().unwrap();
    let same_name = elsewhere.path().join(ours.file_name().unwrap());
    create_dir(&same_name).unwrap();
    // Some folder has this range by its name.
    std::fs::copy(ours.join("pod-cidr"), same_name.join("pod-cidr")).unwrap();
    std::fs::write(same_name.join("absent"), "").unwrap();
    let (is_down, words) = cluster("down", &same_name).await;
    assert!(is_down, "{words}");
    for (command, folder) in [
        ("up", ours.join("log")),
        ("up", ours.parent().unwrap().to_owned()),
        ("down", ours.parent().unwrap().to_owned()),
    ] {
        let (is_done, words) = cluster(command, &folder).await;
        // Around ours there may be others.
        let is_refused = words.contains("the cluster in ") && words.contains(" is up, and what");
        assert!(!is_done && is_refused, "{words}");
    }
    let client = Client::try_default().await.unwrap();
    client.apiserver_version().await.unwrap();
    let (is_up, words) = cluster("status", &ours).await;
    assert!(is_up, "{words}");
}

#[tokio::test]
async fn a_cluster_of_kind_is_not_taken_for_that_of_another_folder() {
    let clusters = Path::new("/run/swaplet-clusters");
    let link = clusters.join("kind-swaplet-e2e");
    // Beside one of kind that is up this would be about that one.
    if folder().is_none() || link.exists() {
        return;
    }
    let (other, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(other.path(), &link).unwrap();
    let mut refused = Vec::new();
    for command in ["up", "down", "clean"] {
        refused.push(run("kind", command, "SWAPLET_KIND_DIR", own.path()).await);
    }
    std::fs::remove_file(&link).unwrap();
    let words = format!("the cluster of kind in {} is up", other.path().display());
    for (is_done, said) in refused {
        assert!(!is_done && said.contains(&words), "{said}");
    }
}
