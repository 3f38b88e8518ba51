//! `swaplet warm` on a real kubelet, in a namespace under pod security `restricted`, with the
//! rights of `deploy/warm.yaml` and no others.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use serde_json::{Value, json};
use swaplet_controller::frame::clock::time_of_day;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::pods::{pod, spec};
use crate::warm_images::{Awkward, LARGE, push};
use crate::world::{World, eventually, kubectl, variable, write_kubeconfig};

/// A namespace, and the account of one who may warm there.
pub struct Warmer {
    pub world: World,
    pub kubeconfig: PathBuf,
    park: String,
    folder: tempfile::TempDir,
}

impl Warmer {
    pub async fn new(case: &str) -> Self {
        let world = World::new(case).await;
        let folder = tempfile::tempdir().unwrap();
        // The manifest as it is shipped, but for the names.
        let manifest =
            include_str!("../../deploy/warm.yaml").replace("swaplet-warm", &world.namespace);
        let file = folder.path().join("warm.yaml");
        std::fs::write(&file, manifest).unwrap();
        let (namespace, nodes) = (&world.namespace, format!("{}-nodes", world.namespace));
        let account = format!("--serviceaccount={namespace}:warmer");
        kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
        kubectl(&["create", "serviceaccount", "warmer", "-n", namespace]).await;
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
        Command::new(env!("CARGO_BIN_EXE_swaplet"))
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

/// Looks for a mark among all processes of the machine until it is dropped.
struct Lookout {
    seen: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Lookout {
    fn start(mark: &str) -> Self {
        let seen = Arc::new(AtomicBool::new(false));
        let (noted, mark) = (seen.clone(), mark.to_owned());
        let task = tokio::spawn(async move {
            loop {
                if processes().any(|command| command.contains(&mark)) {
                    noted.store(true, Ordering::SeqCst);
                }
                sleep(Duration::from_millis(20)).await;
            }
        });
        Self { seen, task }
    }

    fn has_seen(&self) -> bool {
        self.seen.load(Ordering::SeqCst)
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn processes() -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| {
        Some(
            String::from_utf8_lossy(&std::fs::read(entry.path().join("cmdline")).ok()?)
                .into_owned(),
        )
    })
}

/// The container of every state that a kubelet has reported for a pod: what it has printed.
async fn logs(warmer: &Warmer) -> String {
    let mut all = String::new();
    for pod in warmer.world.pods().await {
        let name = pod.metadata.name.unwrap_or_default();
        all += &warmer
            .world
            .api::<Pod>()
            .logs(&name, &kube::api::LogParams::default())
            .await
            .unwrap_or_default();
    }
    all
}

async fn pulls(warmer: &Warmer, image: &str) -> Vec<String> {
    let events = warmer
        .world
        .api::<Event>()
        .list(&ListParams::default().fields("reason=Pulled"))
        .await
        .unwrap();
    events
        .items
        .into_iter()
        .filter_map(|event| event.message)
        .filter(|message| message.contains(&format!("\"{image}\"")))
        .collect()
}

/// An Event that is stored is heard within this time; the times of Events are whole seconds.
const HEARD_WITHIN: Duration = Duration::from_secs(4);

/// The images of which the kubelet has said before this time that it has pulled them.
async fn pulled_before(warmer: &Warmer, time: jiff::Timestamp) -> Vec<String> {
    let events = warmer
        .world
        .api::<Event>()
        .list(&ListParams::default().fields("reason=Pulled"))
        .await
        .unwrap();
    let in_time = events.items.into_iter().filter(|event| {
        event
            .metadata
            .creation_timestamp
            .as_ref()
            .is_some_and(|at| at.0 < time)
    });
    let image = |message: String| {
        Some(
            message
                .strip_prefix("Successfully pulled image \"")?
                .split('"')
                .next()?
                .to_owned(),
        )
    };
    in_time.filter_map(|event| image(event.message?)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dozen_awkward_images_become_warm_and_nothing_of_them_runs() {
    a_dozen("warm", LARGE, &[]).await;
}

/// Kubelets before 1.36 take image volumes where their feature gate is on, as in our cluster.
#[tokio::test(flavor = "multi_thread")]
async fn and_so_they_do_as_volumes() {
    a_dozen("warm-volumes", 1000, &["--shape", "image-volumes"]).await;
}

/// One of the images has so many bytes.
async fn a_dozen(case: &str, large_bytes: usize, how: &[&str]) {
    let warmer = Warmer::new(case).await;
    let images = Awkward::push(&variable("SWAPLET_E2E_REGISTRY"), case, large_bytes).await;
    let lookout = Lookout::start(&images.mark);
    let mut arguments: Vec<&str> = images.all.iter().map(String::as_str).collect();
    arguments.extend([images.missing.as_str(), "--backoff-limit", "1"]);
    arguments.extend(how);
    let child = warmer.start(&arguments);
    let run = tokio::spawn(Ran::of(child));
    let mut printed = String::new();
    while !run.is_finished() {
        printed += &logs(&warmer).await;
        sleep(Duration::from_millis(300)).await;
    }
    let ran = run.await.unwrap();
    println!("{}", ran.told);
    assert!(
        !printed.contains(&images.mark),
        "an entrypoint has printed: {printed}"
    );
    images.all.iter().for_each(|image| ran.assert_warm(image));
    let missing = &ran.results[&images.missing];
    assert!(
        missing["result"] == "Failed" && missing["why"].as_str().unwrap().contains("not found"),
        "{missing}"
    );
    assert_eq!(ran.code, 1, "{}", ran.told);
    // A busy kubelet sends its Events late, and of one pod no more than 25: what has come is told.
    for image in pulled_before(&warmer, time_of_day() - HEARD_WITHIN).await {
        let row = &ran.results[&image];
        assert!(
            row["pullSeconds"].is_number() && row["bytes"].is_number(),
            "{image}: {row} {}",
            ran.told
        );
    }
    let large = &ran.results[&images.large];
    assert!(
        large["bytes"].as_u64() > Some(large_bytes as u64),
        "{large}"
    );
    warmer.pods_are_gone().await;
    assert!(!lookout.has_seen(), "an entrypoint has run");
    assert_found_when_it_runs(&warmer, &images, &lookout).await;
    warmer.done().await;
}

/// The other half of the proof: the entrypoint is seen where it does run; and its image is there
/// already.
async fn assert_found_when_it_runs(warmer: &Warmer, images: &Awkward, lookout: &Lookout) {
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let mut spec = spec(
        "Never",
        vec![json!({"name": "main", "image": images.trace, "securityContext": security})],
    );
    spec["securityContext"] = json!({"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}});
    warmer.world.create_pod(pod("user", spec)).await;
    eventually("the entrypoint to be seen", || async {
        lookout.has_seen().then_some(())
    })
    .await;
    let pulls = pulls(warmer, &images.trace).await;
    assert!(
        pulls
            .iter()
            .any(|message| message.contains("already present on machine")),
        "{pulls:?}"
    );
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
async fn a_pinned_tag_is_pulled_by_the_digest_that_the_registry_has_for_it() {
    let warmer = Warmer::new("warm-pin").await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let name = |image: &str| format!("{registry}/e2e/warm-pin-{image}:{}", std::process::id());
    let (tagged, missing, work) = (
        name("tagged"),
        name("missing"),
        warmer.world.images.work.as_str(),
    );
    push(&registry, &tagged, json!({"Labels": {"push": "first"}}), 64).await;
    let digest = push(
        &registry,
        &tagged,
        json!({"Labels": {"push": "second"}}),
        64,
    )
    .await;
    let pinned = format!("{tagged}@{digest}");
    let ran = Ran::of(warmer.start(&[&tagged, &pinned, "--pin"])).await;
    assert_eq!(
        (ran.code, ran.results.keys().collect::<Vec<_>>()),
        (0, vec![&pinned]),
        "{}",
        ran.told
    );
    ran.assert_warm(&pinned);
    let pulls = pulls(&warmer, &pinned).await;
    assert!(
        pulls
            .iter()
            .any(|message| message.contains("Successfully pulled")),
        "{pulls:?}"
    );
    warmer.pods_are_gone().await;

    let output = warmer
        .start(&[work, &missing, "--pin"])
        .wait_with_output()
        .await
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("nothing is pulled") && told.contains(&missing) && !told.contains(work),
        "{told}"
    );
    assert_eq!(
        (output.status.code(), warmer.world.pods().await.len()),
        (Some(2), 0),
        "{told}"
    );
    warmer.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_leaves_no_pod_behind_and_claims_nothing() {
    let warmer = Warmer::new("warm-stop").await;
    let missing = warmer.world.images.missing.as_str();
    let child = warmer.start(&[missing, "--backoff-limit", "9"]);
    eventually("a warmer pod", || async {
        (!warmer.world.pods().await.is_empty()).then_some(())
    })
    .await;
    let id = child.id().unwrap().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .await
            .unwrap()
            .success()
    );
    let start = Instant::now();
    let ran = Ran::of(child).await;
    assert!(start.elapsed() < Duration::from_secs(20), "{}", ran.told);
    assert_eq!(
        (ran.code, &ran.results[missing]["result"]),
        (130, &json!("NotKnown")),
        "{}",
        ran.told
    );
    warmer.pods_are_gone().await;
    warmer.done().await;
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
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_image_of_200_megabytes_becomes_warm_beside_the_others() {
        a_dozen("warm-large", 10 * LARGE, &[]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn and_so_they_do_by_containers_that_nothing_can_start() {
        a_dozen("warm-impossible", 1000, &["--shape", "impossible-command"]).await;
    }
}
