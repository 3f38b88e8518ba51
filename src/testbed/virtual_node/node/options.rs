//! Which node is played.

use std::collections::BTreeMap;

use crate::virtual_node::images::ImageOptions;
use crate::virtual_node::kubelet::KubeletOptions;
use crate::virtual_node::provider::{OnUpdate, ProviderOptions};

/// How the node treats its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// An ordinary node.
    Kubelet(KubeletOptions),
    /// A virtual-kubelet with a provider.
    Virtual(ProviderOptions),
}

impl Profile {
    /// An ordinary node of a current version.
    #[must_use]
    pub fn kubelet() -> Self {
        Self::Kubelet(KubeletOptions::default())
    }

    /// A virtual node whose provider replaces containers, such as Alibaba ECI.
    #[must_use]
    pub fn updates() -> Self {
        Self::Virtual(ProviderOptions::default())
    }

    /// A virtual node whose provider takes an update and does nothing, such as classic ACI, Liqo
    /// and interLink.
    #[must_use]
    pub fn inert() -> Self {
        Self::Virtual(ProviderOptions {
            on_update: OnUpdate::Nothing,
            ..ProviderOptions::default()
        })
    }

    /// A virtual node whose provider fails every update.
    #[must_use]
    pub fn rejects() -> Self {
        Self::Virtual(ProviderOptions {
            on_update: OnUpdate::Fails,
            ..ProviderOptions::default()
        })
    }

    /// Whether it is a virtual-kubelet.
    #[must_use]
    pub const fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// `key`
    pub key: String,
    /// `value`
    pub value: String,
    /// `effect`
    pub effect: String,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name.
    pub name: String,
    /// How it treats its pods.
    pub profile: Profile,
    /// Its images.
    pub images: ImageOptions,
    /// Its labels besides the usual ones; an empty value takes a usual one away.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
}

impl NodeOptions {
    /// A node with the labels and taints that are usual for its profile.
    #[must_use]
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

    /// All labels.
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
