//! The flags of `swaplet run` for pulling images, and for the pods that do it.

use std::time::Duration;

use clap::Args;
use swaplet_controller::frame::clock::TimeOfDay;
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;

use super::WarmBoundsArgs;
use super::image_caches::ImageCacheArgs;
use crate::cli::duration::seconds;
use crate::image::reference::ImageReference;

/// The namespace of `deploy/warm.yaml`.
const WARM_NAMESPACE: &str = "swaplet-warm";
/// How long a node with the startup taint waits for its images, in seconds.
const STARTUP_TAINT_SECONDS: u32 = 300;

#[derive(Debug, Args)]
#[command(next_help_heading = "Warming images")]
pub(super) struct WarmArgs {
    /// Pull images for ImagePullJobs and ImageListPullJobs; needs --park-image, deploy/warm.yaml,
    /// deploy/pull-jobs.yaml and the CRDs, and leaves the jobs alone while OpenKruise does them
    /// (--warm-coexist)
    #[arg(long, env = "SWAPLET_WARM", requires = "park_image")]
    warm: bool,
    /// The namespace of the pods of --warm; those of jobs with pull secrets are in the namespace of
    /// the job [default: the one of --namespace, or else swaplet-warm]
    #[arg(
        hide_short_help = true,
        long,
        value_name = "NAMESPACE",
        env = "SWAPLET_WARM_NAMESPACE"
    )]
    warm_namespace: Option<String>,
    /// Keep the exit image on every node that keeps images: also those that are derived later, so
    /// that no swap waits for a registry; new nodes get them at once. `swaplet warm status` shows
    /// where they are
    #[arg(
        long,
        env = "SWAPLET_WARM_EXIT_IMAGES",
        requires = "warm",
        requires = "exit_image"
    )]
    warm_exit_images: bool,
    /// Take the taint swaplet.io/warming from nodes that are warm: whatever its effect, from nodes
    /// that are Ready as soon as --warm-exit-images, and jobs of type Never of the namespaces of
    /// --warm-startup-taint-namespace, have their images there: pods that do not tolerate it come
    /// to a new node when it is warm. Needs the role swaplet-warm-startup-taint of deploy/warm.yaml
    #[arg(long, env = "SWAPLET_WARM_STARTUP_TAINT", requires = "warm")]
    warm_startup_taint: bool,
    /// When --warm-startup-taint takes the taint from a node that is not warm, counted from when it
    /// is observed Ready
    #[arg(hide_short_help = true, long, value_name = "DURATION", env = "SWAPLET_WARM_STARTUP_TAINT_TIMEOUT", default_value_t = STARTUP_TAINT_SECONDS)]
    #[arg(value_parser = seconds(1..=86_400))]
    warm_startup_taint_timeout: u32,
    /// Labels and annotations that jobs may give to the pods of --warm by sandboxConfig; * stands
    /// for any characters but /. Webhooks, networks and autoscalers act on them, so no other key is
    /// taken over, and the message of the job says so [default: none]
    #[arg(
        hide_short_help = true,
        long,
        value_name = "KEY,...",
        env = "SWAPLET_WARM_SANDBOX_KEYS",
        value_delimiter = ',',
        requires = "warm"
    )]
    warm_sandbox_keys: Vec<String>,
    #[command(flatten)]
    warm_bounds: WarmBoundsArgs,
    #[command(flatten)]
    image_caches: ImageCacheArgs,
}

/// The other flags that jobs depend on.
pub(super) struct Beside<'a> {
    /// The namespaces in which the controller works; empty for all.
    pub namespaces: &'a [String],
    pub state_namespace: Option<&'a str>,
    /// The exit image; `terminate` is true if it ends sidecars.
    pub exit_image: Option<&'a ImageReference>,
    pub terminate: bool,
    pub park_image: Option<&'a ImageReference>,
}

impl WarmArgs {
    /// Returns true if images are pulled.
    pub const fn is_on(&self) -> bool {
        self.warm
    }

    /// Returns the settings of jobs, if they are on; jobs that need the park image have one.
    pub fn settings(self, beside: &Beside) -> Option<WarmSettings> {
        let park_image = beside.park_image.filter(|_| self.warm)?;
        let exit_image = beside.exit_image.filter(|_| self.warm_exit_images);
        Some(WarmSettings {
            namespace: self.namespace(beside.namespaces).into(),
            park_image: park_image.as_str().into(),
            exit_image: exit_image.map(|image| image.as_str().into()),
            startup_taint_timeout: self
                .warm_startup_taint
                .then(|| Duration::from_secs(self.warm_startup_taint_timeout.into())),
            startup_taint_namespaces: self
                .warm_bounds
                .startup_taint_namespaces(beside.state_namespace),
            longest_try: self.warm_bounds.longest_try(),
            coexist: self.warm_bounds.coexist(),
            image_caches: self
                .image_caches
                .options(beside.exit_image.filter(|_| beside.terminate)),
            sandbox_keys: SandboxKeys::new(self.warm_sandbox_keys),
            time_of_day: TimeOfDay::default(),
        })
    }

    fn namespace(&self, namespaces: &[String]) -> String {
        match (&self.warm_namespace, namespaces) {
            (Some(namespace), _) | (None, [namespace]) => namespace.clone(),
            _ => WARM_NAMESPACE.to_owned(),
        }
    }
}
