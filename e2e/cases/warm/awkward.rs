//! A dozen awkward images become warm, and nothing of them runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use serde_json::json;
use swaplet_controller::frame::clock::time_of_day;
use tokio::time::sleep;

use super::{Ran, Warmer, kubelet_says};
use crate::pods::{pod, spec};
use crate::refusals::{MISSING, is_said};
use crate::warm_images::{Awkward, LARGE};
use crate::world::{eventually, variable};

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

/// An Event that is stored is heard within this time, on a busy machine as well. The last image, which
/// is missing, is tried for longer when the others are there.
const HEARD_WITHIN: Duration = Duration::from_secs(30);

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
    a_dozen("warm", LARGE).await;
}

/// One of the images has so many bytes.
pub(super) async fn a_dozen(case: &str, large_bytes: usize) {
    let warmer = Warmer::new(case).await;
    let images = Awkward::push(&variable("SWAPLET_E2E_REGISTRY"), case, large_bytes).await;
    let lookout = Lookout::start(&images.mark);
    let mut arguments: Vec<&str> = images.all.iter().map(String::as_str).collect();
    // The pauses between the tries are of 12 s and of 24 s.
    arguments.extend([images.missing.as_str(), "--backoff-limit", "2"]);
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
        missing["result"] == "Failed" && is_said(MISSING, missing["why"].as_str().unwrap()),
        "{missing}"
    );
    assert_eq!(ran.code, 1, "{}", ran.told);
    // A busy kubelet sends its Events late, and of one pod no more than 25: what has come is told.
    let heard = pulled_before(&warmer, time_of_day() - HEARD_WITHIN).await;
    println!("of {} pulls the kubelet has told in time", heard.len());
    for image in heard {
        let row = &ran.results[&image];
        let least = if image == images.large {
            large_bytes
        } else {
            0
        };
        assert!(
            row["pullSeconds"].is_number() && row["bytes"].as_u64() > Some(least as u64),
            "{image}: {row} {}",
            ran.told
        );
    }
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
    kubelet_says(warmer, &images.trace, "already present on machine").await;
}
