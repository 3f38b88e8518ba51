//! The settings of a controller.

use std::time::Duration;

use crate::cluster::rules::{Common, Rules};
use crate::frame::clock::TimeOfDay;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::lease::Leadership;
use crate::restart::driver::RestartSettings;
use crate::restart::hot_upgrade::HotUpgradeSettings;
use crate::terminate::derive::Push;
use crate::terminate::public::AskPublic;
use crate::terminate::selection::Selection;
use crate::warm::jobs::WarmSettings;

/// The most writes in flight of each loop beside that of pods.
const BESIDE: usize = 16;

/// The settings of the controller: where it works, what it does and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespaces that it works in.
    pub namespaces: Namespaces,
    /// The rules of the installation.
    pub rules: Rules,
    /// The most writes of pods in flight at once.
    pub concurrency: usize,
    /// The deadline of one write.
    pub write_deadline: Duration,
    /// The name of this process in Events.
    pub instance: String,
    /// The way to push derived exit images; `None` if none are derived.
    pub push: Option<Push>,
    /// The way to ask whether exit images can be pulled without credentials; `None` if nobody is
    /// asked.
    pub ask_public: Option<AskPublic>,
    /// Set if containers are restarted as `ContainerRecreateRequest`s require.
    pub restart: Option<RestartSettings>,
    /// Set if images are pulled for `ImagePullJob`s and `ImageListPullJob`s.
    pub warm: Option<WarmSettings>,
    /// True if images of workloads that ask for it are pre-downloaded.
    pub predownload: bool,
    /// Set if sidecars are hot-upgraded as SidecarSets require, and with which images.
    pub hot_upgrade: Option<HotUpgradeSettings>,
    /// True if the objects in protected Namespaces and CRDs are counted.
    pub protect: bool,
    /// True if SidecarPolicies decide which containers are sidecars.
    pub sidecar_policies: bool,
    /// The time of day until the API server has reported its own.
    pub time_of_day: TimeOfDay,
    /// The leadership without which this process does not write.
    pub leadership: Leadership,
    /// The namespace of the ConfigMap that keeps node verdicts; `None` if they are not kept.
    pub state_namespace: Option<String>,
    /// The pods to handle; every pod if `None`.
    pub selection: Option<Selection>,
}

impl Settings {
    /// Returns the settings that every loop is started with.
    pub(crate) fn common(&self) -> Common {
        Common {
            namespaces: self.namespaces.clone(),
            rules: self.rules.clone(),
            concurrency: self.concurrency.clamp(1, BESIDE),
        }
    }

    /// Returns the name of the admission policy without which nothing is restarted, if any is.
    pub(crate) fn leash(&self) -> Option<&str> {
        self.restart.as_ref()?.leash.as_deref()
    }
}
