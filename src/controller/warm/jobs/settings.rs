//! What the loop needs to know of the installation.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::image_cache::CacheOptions;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;
use swaplet_core::warm::warming::shape::ShapeChoice;

use crate::warm::resolve::Resolve;

/// What jobs that pull images need of the installation.
#[derive(Clone)]
pub struct WarmSettings {
    /// The namespace of the pods of jobs without pull secrets.
    pub namespace: Box<str>,
    /// The image whose program the pods run.
    pub park_image: Box<str>,
    /// In which shape the pods are made.
    pub shape: ShapeChoice,
    /// The exit image that every node is to have that keeps images, and with it those that are
    /// derived; `None`: jobs alone say what is pulled.
    pub exit_image: Option<Box<str>>,
    /// How long a node with the startup taint is kept from pods until its images are there; `None`:
    /// the taint is left alone.
    pub startup_taint_timeout: Option<Duration>,
    /// Nodes with the startup taint wait for jobs of these namespaces, besides the exit images: who
    /// may make such jobs can slow down each new node.
    pub startup_taint_namespaces: BTreeSet<Box<str>>,
    /// What one try of an image may take at most, whatever its job says.
    pub longest_try: Duration,
    /// Who does jobs where OpenKruise's CRDs are served.
    pub coexist: Coexist,
    /// What is wanted of image caches for nodes whose provider has them, which are billed; `None`:
    /// none is made.
    pub image_caches: Option<CacheOptions>,
    /// Which labels and annotations jobs may give to their pods.
    pub sandbox_keys: SandboxKeys,
    /// How it is asked which digest a tag stands for.
    pub resolve: Resolve,
    /// Tells the time of day: deadlines of jobs are times of day. Asked once, whenever the loop
    /// begins, and used as long as the API server has not said which time it is.
    pub time_of_day: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
}

impl fmt::Debug for WarmSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WarmSettings")
            .field("namespace", &self.namespace)
            .field("park_image", &self.park_image)
            .field("shape", &self.shape)
            .field("exit_image", &self.exit_image)
            .field("image_caches", &self.image_caches)
            .field("startup_taint_timeout", &self.startup_taint_timeout)
            .field("startup_taint_namespaces", &self.startup_taint_namespaces)
            .field("longest_try", &self.longest_try)
            .field("coexist", &self.coexist)
            .field("sandbox_keys", &self.sandbox_keys)
            .finish_non_exhaustive()
    }
}
