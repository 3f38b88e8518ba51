//! The mock node at an embedded API server of its own, in virtual time.

use swaplet_testbed::virtual_node::{NodeOptions, Profile, ProviderOptions, VirtualNode};
use swaplet_testbed::{ApiServer, Clock};

use super::play::{self, Outcome};
use super::profile::PROFILES;
use super::sequence::Sequence;

const NAMESPACE: &str = "default";
const NODE: &str = "node";

/// Plays it to its end, which takes some milliseconds. The thread must not be one of a runtime.
pub fn play(sequence: &Sequence) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = ApiServer::new(Clock::default());
        let options = (PROFILES[sequence.profile].options)(ProviderOptions::default());
        let options = NodeOptions::new(NODE, Profile::Virtual(options));
        let node = VirtualNode::new(server.client_as("node"), server.clock(), options);
        tokio::spawn(node.run());
        // The node is there before the pod.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        play::play(server.client(), NAMESPACE, "pod", NODE, sequence).await
    })
}
