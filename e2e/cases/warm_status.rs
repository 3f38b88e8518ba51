//! `swaplet warm status` on a real cluster, with the rights of `deploy/warm.yaml` and no others.

use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::warm::Warmer;
use crate::world::{eventually, variable};

/// What is said of each of two images.
async fn status(warmer: &Warmer, images: [&str; 2]) -> [Value; 2] {
    let output = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args([
            "warm",
            "status",
            "--namespace",
            &warmer.world.namespace,
            "--kubeconfig",
        ])
        .arg(&warmer.kubeconfig)
        .args(["--node", &variable("SWAPLET_E2E_NODE"), "-o", "json"])
        .args(images)
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    [0, 1].map(|index| printed["images"][index].clone())
}

/// The runs of which one has to show it: an image that is there stays in the pod for 12 s, in which a
/// busy machine may not come to ask.
const TRIES: usize = 5;
/// How long it is asked for: until the next tries of the missing image, and longer.
const ASKED: Duration = Duration::from_secs(60);

/// Whether the container of a run was taken for a proof while it was there. The one that is there stays
/// in the pod until the missing one gets its next try.
async fn is_proved_by_a_run(warmer: &Warmer, work: &str, missing: &str) -> bool {
    let child = warmer.start(&[missing, work, "--backoff-limit", "9"]);
    let start = Instant::now();
    let mut is_proved = false;
    while !is_proved && start.elapsed() < ASKED {
        let [work, missing] = status(warmer, [work, missing]).await;
        assert!(
            ["Failed", "Pulling", "NotKnown"].contains(&missing["known"].as_str().unwrap()),
            "{missing}"
        );
        let pod = work["pod"].as_str().unwrap_or_default();
        is_proved = work["known"] == "Proved"
            && pod.starts_with("swaplet-warm-")
            && work["since"].is_string();
        sleep(Duration::from_millis(200)).await;
    }
    let id = child.id().unwrap().to_string();
    let stopped = Command::new("kill").args(["-INT", &id]).status().await;
    assert!(stopped.unwrap().success());
    warmer.pods_are_gone().await;
    is_proved
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_is_told_with_its_proof_and_what_is_not_is_not_claimed() {
    let warmer = Warmer::new("warm-status").await;
    let (work, missing) = (
        warmer.world.images.work.as_str(),
        warmer.world.images.missing.as_str(),
    );
    let mut is_proved = false;
    for _ in 0..TRIES {
        is_proved = is_proved_by_a_run(&warmer, work, missing).await;
        if is_proved {
            break;
        }
    }
    assert!(is_proved, "no container was taken for a proof");
    eventually("the list of the node to be what is left", || async {
        let [work, missing] = status(&warmer, [work, missing]).await;
        assert_eq!(missing["known"], "NotKnown", "{missing}");
        (work["known"] == "Claimed" && work["since"].is_null()).then_some(())
    })
    .await;
    warmer.done().await;
}
