//! The settings of the loop of pull jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::image_cache::CacheOptions;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;

use crate::frame::clock::TimeOfDay;

/// The settings of the installation that pull jobs need.
#[derive(Clone, Debug)]
pub struct WarmSettings {
    /// The namespace of the pods of jobs without pull secrets.
    pub namespace: Box<str>,
    /// The image whose program the pods run.
    pub park_image: Box<str>,
    /// The exit image that every node that keeps images is to have, together with derived ones;
    /// `None`: only jobs decide what is pulled.
    pub exit_image: Option<Box<str>>,
    /// How long a node with the startup taint may wait for its images; `None`: the taint is left
    /// alone.
    pub startup_taint_timeout: Option<Duration>,
    /// The namespaces for whose jobs nodes with the startup taint wait, besides the exit images.
    /// Anyone who may create such jobs can slow down each new node.
    pub startup_taint_namespaces: BTreeSet<Box<str>>,
    /// The most time for one try of an image, whatever its job requests.
    pub longest_try: Duration,
    /// Decides who processes jobs where OpenKruise's CRDs are served: swaplet or OpenKruise.
    pub coexist: Coexist,
    /// The settings for image caches, which are billed, on nodes whose provider has them; `None`:
    /// none is created.
    pub image_caches: Option<CacheOptions>,
    /// The labels and annotations that jobs may give to their pods.
    pub sandbox_keys: SandboxKeys,
    /// Returns the wall-clock time, in which deadlines of jobs are stored. It is called once,
    /// whenever the loop begins, and used until the API server's time is known.
    pub time_of_day: TimeOfDay,
}
