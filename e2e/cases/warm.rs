//! `swaplet warm` on a real kubelet, in a namespace under pod security `restricted`, with the
//! rights of `deploy/warm.yaml` and no others.

mod awkward;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::world::{World, eventually, kubectl, variable, write_kubeconfig};

/// A namespace, and the account of one who may warm there.
pub struct Warmer {
    pub world: World,
    pub kubeconfig: PathBuf,
    park: String,
    folder: tempfile::TempDir,
}

/// Applies the manifest as it is shipped, but for the names, and lets an account make its pods.
pub async fn apply_manifest(world: &World, account: &str) {
    let namespace = &*world.namespace;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("warm.yaml");
    let manifest = include_str!("../../deploy/warm.yaml").replace("swaplet-warm", namespace);
    std::fs::write(&file, manifest).unwrap();
    kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    let account = format!("--serviceaccount={namespace}:{account}");
    kubectl(&[
        "create",
        "rolebinding",
        "warmer",
        "-n",
        namespace,
        "--clusterrole",
        namespace,
        &account,
    ])
    .await;
}

impl Warmer {
    pub async fn new(case: &str) -> Self {
        let world = World::new(case).await;
        let folder = tempfile::tempdir().unwrap();
        apply_manifest(&world, "warmer").await;
        let (namespace, nodes) = (&world.namespace, format!("{}-nodes", world.namespace));
        let account = format!("--serviceaccount={namespace}:warmer");
        kubectl(&["create", "serviceaccount", "warmer", "-n", namespace]).await;
        kubectl(&[
            "create",
            "clusterrolebinding",
            &nodes,
            "--clusterrole",
            &nodes,
            &account,
        ])
        .await;
        let token = kubectl(&["create", "token", "warmer", "-n", namespace]).await;
        let kubeconfig = write_kubeconfig(folder.path(), token.trim().to_owned());
        let park = world.images.park.clone();
        Self {
            world,
            kubeconfig,
            park,
            folder,
        }
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        // Who runs the tests may have SIGHUP ignored, and who ignores it wants to go on.
        Command::new("env")
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_swaplet")])
            .args([
                "warm",
                "--namespace",
                &self.world.namespace,
                "--park-image",
                &self.park,
                "--kubeconfig",
            ])
            .arg(&self.kubeconfig)
            .args(["--node", &variable("SWAPLET_E2E_NODE"), "-o", "json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    pub async fn pods_are_gone(&self) {
        eventually("the warmer pods to be gone", || async {
            self.world.pods().await.is_empty().then_some(())
        })
        .await;
    }

    pub async fn done(self) {
        let Self { world, folder, .. } = self;
        let names = [
            world.namespace.clone(),
            format!("{}-nodes", world.namespace),
        ];
        let of_controllers =
            ["startup-taint", "image-caches"].map(|role| format!("{}-{role}", world.namespace));
        kubectl(&[
            "delete",
            "clusterrole",
            "--ignore-not-found",
            &of_controllers[0],
            &of_controllers[1],
        ])
        .await;
        let both = ["--ignore-not-found", &names[0], &names[1]];
        kubectl(&[&["delete", "clusterrole"][..], &both].concat()).await;
        kubectl(&[&["delete", "clusterrolebinding"][..], &both].concat()).await;
        drop(folder);
        world.done().await;
    }
}

/// What a run has printed.
pub struct Ran {
    pub code: i32,
    pub results: BTreeMap<String, Value>,
    pub told: String,
}

impl Ran {
    pub async fn of(child: Child) -> Self {
        let output = child.wait_with_output().await.unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let printed: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {told}"));
        let rows = printed["results"].as_array().unwrap().iter();
        let results = rows
            .map(|row| (row["image"].as_str().unwrap().to_owned(), row.clone()))
            .collect();
        Self {
            code: output.status.code().unwrap(),
            results,
            told,
        }
    }

    pub fn assert_warm(&self, image: &str) {
        assert_eq!(
            self.results[image]["result"], "Succeeded",
            "{image}: {}",
            self.told
        );
    }
}

/// Waits until the kubelet has said this of the image: it sends Events late where many pods start.
async fn kubelet_says(warmer: &Warmer, image: &str, words: &str) {
    let reports = ListParams::default().fields("reason=Pulled");
    eventually(
        &format!("the kubelet to say of {image}: {words}"),
        || async {
            let events = warmer.world.api::<Event>().list(&reports).await.unwrap();
            let mut messages = events.items.into_iter().filter_map(|event| event.message);
            messages
                .any(|message| message.contains(&format!("\"{image}\"")) && message.contains(words))
                .then_some(())
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_at_once_do_not_disturb_each_other() {
    let warmer = Warmer::new("warm-two").await;
    let (work, exit) = (
        warmer.world.images.work.as_str(),
        warmer.world.images.exit.as_str(),
    );
    let (one, other) = (warmer.start(&[work, exit]), warmer.start(&[exit, work]));
    for ran in [Ran::of(one).await, Ran::of(other).await] {
        ran.assert_warm(work);
        ran.assert_warm(exit);
        assert_eq!(ran.code, 0, "{}", ran.told);
    }
    warmer.pods_are_gone().await;
    warmer.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_leaves_no_pod_behind_and_claims_nothing() {
    let warmer = Warmer::new("warm-stop").await;
    is_interrupted(&warmer, "-INT").await;
    warmer.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_run_whose_terminal_is_closed_leaves_no_pod_behind() {
    let warmer = Warmer::new("warm-hangup").await;
    is_interrupted(&warmer, "-HUP").await;
    warmer.done().await;
}

async fn is_interrupted(warmer: &Warmer, signal: &str) {
    let missing = warmer.world.images.missing.as_str();
    let child = warmer.start(&[missing, "--backoff-limit", "9"]);
    eventually("a warmer pod", || async {
        (!warmer.world.pods().await.is_empty()).then_some(())
    })
    .await;
    let id = child.id().unwrap().to_string();
    let sent = Command::new("kill").args([signal, &id]).status().await;
    assert!(sent.unwrap().success());
    let start = Instant::now();
    let ran = Ran::of(child).await;
    // Who goes on makes nine tries, with half an hour of pauses between them.
    assert!(start.elapsed() < Duration::from_secs(600), "{}", ran.told);
    assert_eq!(
        (ran.code, &ran.results[missing]["result"]),
        (130, &json!("NotKnown")),
        "{}",
        ran.told
    );
    warmer.pods_are_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_park_image_that_is_not_there_is_named() {
    let warmer = Warmer::new("warm-park").await;
    let (work, missing) = (
        warmer.world.images.work.as_str(),
        warmer.world.images.missing.as_str(),
    );
    let warmer = Warmer {
        park: missing.to_owned(),
        ..warmer
    };
    let ran = Ran::of(warmer.start(&[work])).await;
    let row = &ran.results[work];
    assert!(
        row["result"] == "Failed" && row["why"].as_str().unwrap().contains("park image waits"),
        "{row}"
    );
    assert_eq!(ran.code, 1);
    warmer.pods_are_gone().await;
    warmer.done().await;
}

mod long {
    use super::awkward::a_dozen;
    use crate::warm_images::LARGE;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_image_of_200_megabytes_becomes_warm_beside_the_others() {
        a_dozen("warm-large", 10 * LARGE).await;
    }
}
