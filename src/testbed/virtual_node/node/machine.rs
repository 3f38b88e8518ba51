//! A pod on a node of either kind.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::options::Profile;
use crate::virtual_node::action::Action;
use crate::virtual_node::images::Images;
use crate::virtual_node::kubelet::Kubelet;
use crate::virtual_node::provider::VirtualKubelet;

/// A failure of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The kubelet dies and comes back after a while; its containers continue, and stopping ones
    /// stop. No effect on virtual nodes.
    KubeletRestart(Duration),
    /// The provider loses the containers of all pods. No effect on a kubelet.
    LostInstances,
}

/// A pod on a node of either kind.
#[derive(Clone, Debug)]
pub enum Machine {
    /// A pod on an ordinary node.
    Kubelet(Box<Kubelet>),
    /// A pod on a virtual node.
    Virtual(Box<VirtualKubelet>),
}

impl Machine {
    /// Returns the machine of a pod that was just bound to the node.
    pub fn new(profile: Profile, pod: &Value, now: Timestamp) -> Self {
        match profile {
            Profile::Kubelet(options) => Self::Kubelet(Box::new(Kubelet::new(options, pod, now))),
            Profile::Virtual(options) => {
                Self::Virtual(Box::new(VirtualKubelet::new(options, pod, now)))
            }
        }
    }

    /// Handles an update of the pod. Call `advance` first for what was due before.
    pub fn see(&mut self, pod: &Value, now: Timestamp) {
        match self {
            Self::Kubelet(machine) => machine.see(pod, now),
            Self::Virtual(machine) => machine.see(pod, now),
        }
    }

    /// Returns the time of the next step, unless an event comes before.
    pub fn wake(&self) -> Option<Timestamp> {
        match self {
            Self::Kubelet(machine) => machine.wake(),
            Self::Virtual(machine) => machine.wake(),
        }
    }

    /// Performs all steps that are due, and returns the writes that follow.
    pub fn advance(&mut self, images: &mut Images, now: Timestamp) -> Vec<Action> {
        match self {
            Self::Kubelet(machine) => machine.advance(images, now),
            Self::Virtual(machine) => machine.advance(images, now),
        }
    }

    /// Handles a failure. Call `advance` first for what was due before.
    pub fn disturb(&mut self, disturbance: Disturbance, now: Timestamp) {
        match (self, disturbance) {
            (Self::Kubelet(machine), Disturbance::KubeletRestart(down)) => {
                machine.restart(now, down)
            }
            (Self::Virtual(machine), Disturbance::LostInstances) => machine.lose_instance(),
            (Self::Kubelet(_), Disturbance::LostInstances)
            | (Self::Virtual(_), Disturbance::KubeletRestart(_)) => (),
        }
    }

    /// Records that a status could not be written.
    pub fn not_written(&mut self, now: Timestamp) {
        match self {
            Self::Kubelet(machine) => machine.not_written(now),
            Self::Virtual(machine) => machine.not_written(now),
        }
    }
}
