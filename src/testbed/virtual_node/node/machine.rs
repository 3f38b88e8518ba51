//! A pod on a node of either kind.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::options::Profile;
use crate::virtual_node::action::Action;
use crate::virtual_node::images::Images;
use crate::virtual_node::kubelet::Kubelet;
use crate::virtual_node::provider::VirtualKubelet;

/// Something that goes wrong on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The kubelet dies and is back after a while; containers go on, and one that was told to stop
    /// does. Nothing on virtual nodes.
    KubeletRestart(Duration),
    /// The provider loses what it runs for all pods. Nothing on a kubelet.
    LostInstances,
}

/// A pod on a node of either kind.
#[derive(Clone, Debug)]
pub enum Machine {
    /// On an ordinary node.
    Kubelet(Box<Kubelet>),
    /// On a virtual node.
    Virtual(Box<VirtualKubelet>),
}

impl Machine {
    /// A pod that was just bound to the node.
    #[must_use]
    pub fn new(profile: Profile, pod: &Value, now: Timestamp) -> Self {
        match profile {
            Profile::Kubelet(options) => Self::Kubelet(Box::new(Kubelet::new(options, pod, now))),
            Profile::Virtual(options) => {
                Self::Virtual(Box::new(VirtualKubelet::new(options, pod, now)))
            }
        }
    }

    /// The API server shows the pod. What was due before is to be let happen first.
    pub fn see(&mut self, pod: &Value, now: Timestamp) {
        match self {
            Self::Kubelet(machine) => machine.see(pod, now),
            Self::Virtual(machine) => machine.see(pod, now),
        }
    }

    /// When something happens next if nothing more is seen.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        match self {
            Self::Kubelet(machine) => machine.wake(),
            Self::Virtual(machine) => machine.wake(),
        }
    }

    /// Lets everything happen that is due, and tells what is to be done for it.
    pub fn advance(&mut self, images: &mut Images, now: Timestamp) -> Vec<Action> {
        match self {
            Self::Kubelet(machine) => machine.advance(images, now),
            Self::Virtual(machine) => machine.advance(images, now),
        }
    }

    /// Something goes wrong. What was due before is to be let happen first.
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

    /// A status could not be written.
    pub fn not_written(&mut self, now: Timestamp) {
        match self {
            Self::Kubelet(machine) => machine.not_written(now),
            Self::Virtual(machine) => machine.not_written(now),
        }
    }
}
