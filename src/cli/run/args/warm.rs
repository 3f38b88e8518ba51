//! The flags of `swaplet run` for pulling images, and for the pods that do it.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use swaplet_controller::frame::clock::TimeOfDay;
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::image_cache::CacheOptions;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;

use super::ControllerArgs;
use crate::cli::duration::seconds;
use crate::image::reference::ImageReference;

/// The namespace of `deploy/warm.yaml`.
const WARM_NAMESPACE: &str = "swaplet-warm";
/// How long a node with the startup taint waits for its images, in seconds.
const STARTUP_TAINT_SECONDS: u32 = 300;
/// The default deadline of one pull of an image, in seconds.
const TRY_SECONDS: u32 = 1800;
/// The retention of image caches that the provider's examples use: a job that is still needed is repeated by then.
const IMAGE_CACHE_DAYS: u32 = 7;
/// The provider's own default of their size, in GiB.
const IMAGE_CACHE_SIZE: u32 = 20;

#[derive(Debug, Args)]
#[command(next_help_heading = "Warming images")]
pub(super) struct WarmArgs {
    /// Pull images for ImagePullJobs and ImageListPullJobs; needs --park-image, deploy/warm.yaml,
    /// deploy/pull-jobs.yaml and the CRDs, and leaves the jobs alone while OpenKruise does them
    /// (--warm-coexist)
    #[arg(long, requires = "park_image")]
    pub(super) warm: bool,
    /// The namespace of the pods of --warm; those of jobs with pull secrets are in the namespace of
    /// the job [default: the one of --namespace, or else swaplet-warm]
    #[arg(hide_short_help = true, long, value_name = "NAMESPACE")]
    warm_namespace: Option<String>,
    /// Keep the exit image on every node that keeps images: also those that are derived later, so
    /// that no swap waits for a registry; new nodes get them at once. `swaplet warm status` shows
    /// where they are
    #[arg(long, requires = "warm", requires = "exit_image")]
    warm_exit_images: bool,
    /// Take the taint swaplet.io/warming from nodes that are warm: whatever its effect, from nodes
    /// that are Ready as soon as --warm-exit-images, and jobs of type Never of the namespaces of
    /// --warm-startup-taint-namespace, have their images there: pods that do not tolerate it come
    /// to a new node when it is warm. Needs the role swaplet-warm-startup-taint of deploy/warm.yaml
    #[arg(long, requires = "warm")]
    warm_startup_taint: bool,
    /// When --warm-startup-taint takes the taint from a node that is not warm, counted from when it
    /// is observed Ready
    #[arg(hide_short_help = true, long, value_name = "DURATION", default_value_t = STARTUP_TAINT_SECONDS)]
    #[arg(value_parser = seconds(1..=86_400))]
    warm_startup_taint_timeout: u32,
    /// Labels and annotations that jobs may give to the pods of --warm by sandboxConfig; * stands
    /// for any characters but /. Webhooks, networks and autoscalers act on them, so no other key is
    /// taken over, and the message of the job says so [default: none]
    #[arg(
        hide_short_help = true,
        long,
        value_name = "KEY,...",
        value_delimiter = ',',
        requires = "warm"
    )]
    warm_sandbox_keys: Vec<String>,
    /// How long one try of an image may take at most, whatever pullPolicy.timeoutSeconds of its job
    /// says
    #[arg(hide_short_help = true, long, value_name = "DURATION", default_value_t = TRY_SECONDS)]
    #[arg(value_parser = seconds(60..=86_400))]
    warm_try_seconds_max: u32,
    /// Who does ImagePullJobs and ImageListPullJobs where OpenKruise's CRDs are there
    #[arg(hide_short_help = true, long, value_enum, default_value_t = WarmCoexistArg::Auto)]
    warm_coexist: WarmCoexistArg,
    /// Let nodes with the startup taint wait for the jobs of this namespace, too (repeatable):
    /// anyone who may create jobs there can delay each new node. They always wait for
    /// --warm-exit-images, and for jobs of --state-namespace
    #[arg(
        hide_short_help = true,
        long,
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    #[arg(requires = "warm_startup_taint", value_parser = NonEmptyStringValueParser::new())]
    warm_startup_taint_namespace: Vec<String>,
    /// Create ImageCaches for Alibaba ECI: one for each job whose nodes include its virtual nodes,
    /// with the images of the job and --exit-image; its machines start from it. It is a snapshot of
    /// a disk, which is billed, also when the job is over or gone, until it expires or you delete
    /// it. Needs the CRD imagecaches.eci.alibabacloud.com, and the role swaplet-warm-image-caches
    /// of deploy/warm.yaml
    #[arg(long, requires = "warm")]
    warm_image_caches: bool,
    /// Days after which the provider deletes an ImageCache that --warm-image-caches has created
    #[arg(hide_short_help = true, long, value_name = "DAYS", default_value_t = IMAGE_CACHE_DAYS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    warm_image_cache_days: u32,
    /// The size of the disk of an ImageCache; it has to be twice that of its images, or more
    #[arg(hide_short_help = true, long, value_name = "GIB", default_value_t = IMAGE_CACHE_SIZE)]
    #[arg(value_parser = clap::value_parser!(u32).range(20..=32_768))]
    warm_image_cache_size: u32,
}

/// [`Coexist`] as a flag, for jobs that pull images.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WarmCoexistArg {
    /// OpenKruise while its manager does them; swaplet where that is gone, or runs with
    /// KruiseDaemon or ImagePullJobGate off
    Auto,
    /// OpenKruise
    Defer,
    /// Swaplet: OpenKruise's manager does none
    Own,
}

impl WarmArgs {
    /// Returns the settings of jobs, if they are on; jobs that need the park image have one.
    pub fn settings(&self, all: &ControllerArgs) -> Option<WarmSettings> {
        let park_image = all.park_image.as_ref().filter(|_| self.warm)?;
        let exit_image = all.rules.exit_image.as_ref();
        let name = |image: &ImageReference| image.as_str().into();
        let taint_namespaces = self.warm_startup_taint_namespace.iter();
        Some(WarmSettings {
            namespace: warm_namespace(self.warm_namespace.as_deref(), &all.namespace).into(),
            park_image: name(park_image),
            exit_image: exit_image.filter(|_| self.warm_exit_images).map(name),
            startup_taint_timeout: self
                .warm_startup_taint
                .then(|| Duration::from_secs(self.warm_startup_taint_timeout.into())),
            startup_taint_namespaces: taint_namespaces
                .chain(&all.state_namespace)
                .map(|namespace| namespace.as_str().into())
                .collect(),
            longest_try: Duration::from_secs(self.warm_try_seconds_max.into()),
            coexist: match self.warm_coexist {
                WarmCoexistArg::Auto => Coexist::Auto,
                WarmCoexistArg::Defer => Coexist::Defer,
                WarmCoexistArg::Own => Coexist::Own,
            },
            image_caches: self.warm_image_caches.then(|| CacheOptions {
                exit_image: exit_image.filter(|_| all.terminate).map(name),
                size: self.warm_image_cache_size,
                retention_days: self.warm_image_cache_days,
            }),
            sandbox_keys: SandboxKeys::new(self.warm_sandbox_keys.clone()),
            time_of_day: TimeOfDay::default(),
        })
    }
}

/// Returns the namespace of warmer pods, by the values of `--warm-namespace` and `--namespace`.
pub fn warm_namespace<'a>(named: Option<&'a str>, namespaces: &'a [String]) -> &'a str {
    let only = match namespaces {
        [namespace] => Some(namespace.as_str()),
        _ => None,
    };
    named.or(only).unwrap_or(WARM_NAMESPACE)
}
