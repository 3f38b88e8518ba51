//! A node that runs nothing: it plays how kubelets and virtual nodes treat pods, above all how they react to a changed image.
//!
//! A pod on the node is a state machine without I/O ([`kubelet`], [`provider`]); [`behaviour`] is what its containers do, [`images`]
//! what the node can get.

pub mod action;
pub mod behaviour;
pub mod images;
pub mod kubelet;
pub mod life;
pub mod machine;
mod node_object;
pub mod options;
pub mod pod;
pub mod provider;
mod reporter;
mod run;
pub mod trace;

pub use behaviour::Behaviour;
pub use images::{ImageOptions, Images};
pub use kubelet::{Kubelet, KubeletOptions, KubeletVersion};
pub use machine::Machine;
pub use options::{NodeOptions, Profile, Taint};
pub use provider::{Gap, OnUpdate, ProviderOptions, StatusMode, VirtualKubelet};
pub use run::VirtualNode;
pub use trace::{Seen, Trace};
