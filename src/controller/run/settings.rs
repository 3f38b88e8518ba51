//! What a controller is told when it starts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::cluster::rules::{Common, Rules};
use crate::frame::clock::time_of_day;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::lease::Leadership;
use crate::restart::driver::RestartSettings;
use crate::restart::hot_upgrade::HotUpgradeSettings;
use crate::terminate::derive::Push;
use crate::terminate::selection::Selection;
use crate::warm::jobs::WarmSettings;

/// Says the time of day.
#[derive(Clone)]
pub struct TimeOfDay(pub Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl fmt::Debug for TimeOfDay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TimeOfDay")
    }
}

/// By the clock of this machine.
impl Default for TimeOfDay {
    fn default() -> Self {
        Self(Arc::new(time_of_day))
    }
}

/// The most writes that each loop beside that of pods has under way.
const BESIDE: usize = 16;

/// What the controller is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it works.
    pub namespaces: Namespaces,
    /// The rules of the installation.
    pub rules: Rules,
    /// The most writes of pods under way at once.
    pub concurrency: usize,
    /// What one write may take.
    pub write_deadline: Duration,
    /// The name of this process in Events.
    pub instance: String,
    /// How exit images are pushed that the rules allow to derive.
    pub push: Option<Push>,
    /// Whether containers are restarted for those who ask for it by a `ContainerRecreateRequest`.
    pub restart: Option<RestartSettings>,
    /// Whether images are pulled for those who ask for it by an `ImagePullJob` or
    /// `ImageListPullJob`.
    pub warm: Option<WarmSettings>,
    /// Whether images of workloads that ask for it are pre-downloaded.
    pub predownload: bool,
    /// Whether sidecars are hot-upgraded as SidecarSets say, and with which images.
    pub hot_upgrade: Option<HotUpgradeSettings>,
    /// Whether what is in protected Namespaces and CRDs is counted.
    pub protect: bool,
    /// Whether SidecarPolicies say which containers are sidecars.
    pub sidecar_policies: bool,
    /// The most bytes of the log of a sidecar that the Event about its end has; 0: none is read.
    pub sidecar_log_bytes: u16,
    /// The time of day where the API server has not said it.
    pub time_of_day: TimeOfDay,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// The namespace for the ConfigMap that keeps what was proved on nodes; `None`: it is not kept.
    pub state_namespace: Option<String>,
    /// Only these pods; every pod where it is `None`.
    pub selection: Option<Selection>,
}

impl Settings {
    /// Returns what of them every loop is told.
    pub(crate) fn common(&self) -> Common {
        Common {
            namespaces: self.namespaces.clone(),
            rules: self.rules.clone(),
            concurrency: self.concurrency.clamp(1, BESIDE),
        }
    }
}
