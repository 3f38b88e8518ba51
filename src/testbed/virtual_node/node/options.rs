//! The options of a node.

use std::collections::BTreeMap;

use crate::virtual_node::images::ImageOptions;
use crate::virtual_node::kubelet::KubeletOptions;
use crate::virtual_node::provider::{OnUpdate, ProviderOptions};

/// The behaviour of the node towards its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// An ordinary node.
    Kubelet(KubeletOptions),
    /// A virtual-kubelet with a provider.
    Virtual(ProviderOptions),
}

impl Profile {
    /// Returns an ordinary node of a current version.
    pub fn kubelet() -> Self {
        Self::Kubelet(KubeletOptions::default())
    }

    /// Returns a virtual node whose provider replaces containers, such as Alibaba ECI.
    pub fn updates() -> Self {
        Self::Virtual(ProviderOptions::default())
    }

    /// Returns a virtual node whose provider accepts an update and does nothing, such as classic
    /// ACI, Liqo and interLink.
    pub fn inert() -> Self {
        Self::Virtual(ProviderOptions {
            on_update: OnUpdate::Nothing,
            ..ProviderOptions::default()
        })
    }

    /// Returns a virtual node whose provider fails every update.
    pub fn rejects() -> Self {
        Self::Virtual(ProviderOptions {
            on_update: OnUpdate::Fails,
            ..ProviderOptions::default()
        })
    }

    /// Returns true for a virtual-kubelet.
    pub const fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// The `key` of the taint.
    pub key: String,
    /// The `value` of the taint.
    pub value: String,
    /// The `effect` of the taint.
    pub effect: String,
}

/// The options of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The name of the node.
    pub name: String,
    /// Its behaviour towards its pods.
    pub profile: Profile,
    /// The options of its images.
    pub images: ImageOptions,
    /// Its labels besides the default ones; an empty value removes a default one.
    pub labels: BTreeMap<String, String>,
    /// The taints of the node.
    pub taints: Vec<Taint>,
}

impl NodeOptions {
    /// Returns a node with the default labels and taints of its profile.
    pub fn new(name: &str, profile: Profile) -> Self {
        let provider = Taint {
            key: "virtual-kubelet.io/provider".to_owned(),
            value: "mock".to_owned(),
            effect: "NoSchedule".to_owned(),
        };
        let taints = if profile.is_virtual() {
            vec![provider]
        } else {
            Vec::new()
        };
        Self {
            name: name.to_owned(),
            profile,
            images: ImageOptions::default(),
            labels: BTreeMap::new(),
            taints,
        }
    }

    /// Returns all labels.
    pub(super) fn all_labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
        ]);
        if self.profile.is_virtual() {
            labels.extend([("type", "virtual-kubelet"), ("kubernetes.io/role", "agent")]);
        }
        let mut labels: BTreeMap<String, String> = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        labels.extend(self.labels.clone());
        labels.retain(|_, value| !value.is_empty());
        labels
    }
}
