//! A node that runs nothing: it simulates how kubelets and virtual nodes treat pods, above all how
//! they react to a changed image.
//!
//! A pod on the node is a state machine without I/O ([`kubelet`], [`provider`]); [`behaviour`] is
//! what its containers do, [`images`] what the node can pull. [`VirtualNode`] is the node at an API
//! server: the embedded one or a real one, in virtual or in real time. [`trace`] reduces the states
//! of a pod to what can be compared between nodes.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
//! use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
//! use swaplet_testbed::{ApiServer, Clock};
//!
//! let server = ApiServer::new(Clock::default());
//! let node = VirtualNode::new(server.client(), server.clock(), NodeOptions::new("mock", Profile::updates()));
//! tokio::spawn(node.clone().run());
//! tokio::time::sleep(std::time::Duration::from_secs(3)).await;
//! let object = server.peek("nodes", "", "mock").unwrap();
//! assert_eq!(object["metadata"]["labels"]["type"], "virtual-kubelet");
//! # Ok::<(), kube::Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod action;
pub mod behaviour;
pub mod images;
pub mod kubelet;
pub mod life;
mod node;
pub mod pod;
pub mod provider;
pub mod times;
pub mod trace;

pub use behaviour::Behaviour;
pub use images::{ImageOptions, Images};
pub use kubelet::{Kubelet, KubeletOptions, KubeletVersion};
pub use node::{
    Disturbance, MOCK_NODE, Machine, NodeOptions, Profile, Refused, Taint, VirtualNode,
};
pub use provider::{Gap, OnUpdate, ProviderOptions, StatusMode, VirtualKubelet};
pub use trace::{Seen, Trace};
