//! `swaplet warm status` on a real cluster, with the rights of `deploy/warm.yaml` and no others.

use serde_json::Value;
use tokio::process::Command;

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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_is_told_with_its_proof_and_what_is_not_is_not_claimed() {
    let warmer = Warmer::new("warm-status").await;
    let (work, missing) = (
        warmer.world.images.work.as_str(),
        warmer.world.images.missing.as_str(),
    );
    // The one that is there stays in the pod until the missing one gets its next try.
    let child = warmer.start(&[missing, work, "--backoff-limit", "9"]);
    eventually("the container to be taken for a proof", || async {
        let [work, missing] = status(&warmer, [work, missing]).await;
        assert!(
            ["Failed", "Pulling", "NotKnown"].contains(&missing["known"].as_str().unwrap()),
            "{missing}"
        );
        let pod = work["pod"].as_str().unwrap_or_default();
        (work["known"] == "Proved" && pod.starts_with("swaplet-warm-") && work["since"].is_string())
            .then_some(())
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
    warmer.pods_are_gone().await;
    eventually("the kubelet's Event to be what is left", || async {
        let [work, missing] = status(&warmer, [work, missing]).await;
        assert_eq!(missing["known"], "NotKnown", "{missing}");
        (work["known"] == "Announced" && work["since"].is_string()).then_some(())
    })
    .await;
    warmer.done().await;
}
