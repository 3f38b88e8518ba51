//! `swaplet warm` while its node has a bad day. For this the node is cordoned and its kubelet
//! killed, so no other case runs meanwhile: `./test` runs it alone.

use std::process::Command;

use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::kubelet::{Killed, run};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::warm::{Ran, Warmer};
use crate::warm_registry::image_behind;
use crate::world::{eventually, variable};

/// The node takes no pods but those that tolerate it, until this is dropped.
struct Cordon(String);

impl Cordon {
    fn new(node: String) -> Self {
        run(Command::new("kubectl").args(["cordon", &node]));
        Self(node)
    }
}

impl Drop for Cordon {
    fn drop(&mut self) {
        run(Command::new("kubectl").args(["uncordon", &self.0]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordoned_node_whose_kubelet_is_killed_in_a_pull_becomes_warm() {
    let warmer = Warmer::new("warm-node").await;
    let mut slow = RegistryProxy::start(Manner::Hang).await;
    let image = image_behind(&slow, "node").await;
    let work = warmer.world.images.work.as_str();
    let node = variable("SWAPLET_E2E_NODE");
    let cordon = Cordon::new(node.clone());
    let child = warmer.start(&[work, &image]);
    eventually("the pull to begin", || async {
        (slow.asked() > 0).then_some(())
    })
    .await;
    let kubelet = Killed::new();
    slow.now(Manner::Serve);
    slow.stop().await;
    slow.start_again();
    drop(kubelet);

    let ran = Ran::of(child).await;
    [work, &image]
        .iter()
        .for_each(|image| ran.assert_warm(image));
    assert_eq!(ran.code, 0, "{}", ran.told);
    let seen = Api::<Node>::all(warmer.world.client.clone())
        .get(&node)
        .await
        .unwrap();
    assert_eq!(
        seen.spec.unwrap().unschedulable,
        Some(true),
        "warming is no reason to uncordon"
    );
    warmer.pods_are_gone().await;
    drop(cordon);
    warmer.done().await;
}
