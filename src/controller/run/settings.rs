//! What a controller is told when it starts.

use std::time::Duration;

use crate::cluster::rules::{Common, Rules};
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::lease::Leadership;
use crate::restart::reconcile::RestartSettings;
use crate::terminate::derive::Push;
use crate::terminate::selection::Selection;
use crate::warm::jobs::WarmSettings;

/// What the controller is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it works.
    pub namespaces: Namespaces,
    /// The rules of the installation.
    pub rules: Rules,
    /// Writes of pods under way at once.
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
            concurrency: self.concurrency.max(1),
        }
    }
}
