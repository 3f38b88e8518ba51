//! The flags that say what the controller is to do, and what it runs with for them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::lease::Leadership;
use swaplet_controller::restart::on_config::{MOUNT_DELAY_SECONDS, RestartOnSettings};
use swaplet_controller::restart::reconcile::RestartSettings;
use swaplet_controller::run::{CONCURRENCY, Settings, WRITE_SECONDS};
use swaplet_controller::terminate::selection::Selection;
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;

use super::image_cache_args::ImageCacheArgs;
use super::leash_args::LeashArgs;
use super::pin_args::PinArgs;
use super::registry_args::RegistryArgs;
use super::rules::{ASSUMED_EXIT_IMAGE, RulesArgs};
use super::run::instance;
use super::warm::shape::ShapeArg;
use super::warm_bounds_args::WarmBoundsArgs;
use crate::image::build::derived_paths;
use crate::image::reference::ImageReference;

/// The namespace of `deploy/warm.yaml`.
const WARM_NAMESPACE: &str = "swaplet-warm";
/// How long a node with the startup taint waits for its images.
const STARTUP_TAINT_SECONDS: u32 = 300;

/// What the controller is to do.
#[derive(Debug, Args)]
pub(super) struct ControllerArgs {
    #[command(flatten)]
    pub(super) rules: RulesArgs,
    /// Only pods of this namespace (repeatable) [default: all namespaces]
    #[arg(short, long, env = "SWAPLET_NAMESPACE", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    namespace: Vec<String>,
    /// The namespace for the Lease of --leader-elect and for the ConfigMaps swaplet-node-verdicts,
    /// which keeps what was proved on nodes for the next start, and swaplet-restart-on of
    /// --restart-on-config [default: none, and what was proved is not kept]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// Whether to end sidecars; false: only what --restart, --warm and --predownload ask for
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, env = "SWAPLET_TERMINATE")]
    terminate: bool,
    /// Restart containers for those who ask for it by a ContainerRecreateRequest; needs
    /// deploy/restart.yaml, the leash (--leash), and the CRD where OpenKruise is not installed
    #[arg(long, env = "SWAPLET_RESTART")]
    restart: bool,
    #[command(flatten)]
    leash: LeashArgs,
    /// Restart containers also when a ConfigMap or Secret changes that the annotation
    /// swaplet.io/restart-on of their pod names:
    /// `app=configmap/app-settings,secret-metadata/app-tls; log=configmap/log-settings`. Of Secrets
    /// only the metadata is read. Needs --state-namespace, and the role swaplet-restart-on of
    /// deploy/restart.yaml
    #[arg(
        long,
        env = "SWAPLET_RESTART_ON_CONFIG",
        requires = "restart",
        requires = "state_namespace"
    )]
    restart_on_config: bool,
    /// Seconds after a change until containers are restarted that mount the object: so long nodes
    /// may take to bring the files up to date. Others are restarted after 5 s without a further
    /// change
    #[arg(long, value_name = "SECONDS", env = "SWAPLET_RESTART_ON_CONFIG_DELAY", default_value_t = MOUNT_DELAY_SECONDS)]
    #[arg(value_parser = clap::value_parser!(u16).range(5..=3600))]
    restart_on_config_delay: u16,
    /// Pull images for those who ask for it by an ImagePullJob or ImageListPullJob; needs
    /// deploy/warm.yaml, deploy/pull-jobs.yaml and the CRDs, and leaves the jobs alone where
    /// OpenKruise is installed
    #[arg(long, env = "SWAPLET_WARM", requires = "park_image")]
    warm: bool,
    /// The namespace of the pods of --warm; those of jobs with pull secrets are in the namespace of
    /// the job [default: the one of --namespace, or else swaplet-warm]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_WARM_NAMESPACE")]
    warm_namespace: Option<String>,
    /// What the pods of --warm are
    #[arg(long, value_enum, default_value_t = ShapeArg::Auto, env = "SWAPLET_WARM_SHAPE")]
    warm_shape: ShapeArg,
    /// Keep the exit image, and those that are derived meanwhile, on every node that keeps images,
    /// so that no swap waits for a registry; new nodes get them at once. `swaplet warm status`
    /// tells where they are
    #[arg(
        long,
        env = "SWAPLET_WARM_EXIT_IMAGES",
        requires = "warm",
        requires = "exit_image"
    )]
    warm_exit_images: bool,
    /// Take the taint swaplet.io/warming, whatever its effect, from nodes that are Ready as soon as
    /// --warm-exit-images, and jobs of type Never of the namespaces of
    /// --warm-startup-taint-namespace, have their images there: pods that do not tolerate it come
    /// to a new node when it is warm. Needs the role swaplet-warm-startup-taint of deploy/warm.yaml
    #[arg(long, env = "SWAPLET_WARM_STARTUP_TAINT", requires = "warm")]
    warm_startup_taint: bool,
    /// Seconds after which --warm-startup-taint takes the taint from a node that is not warm, from
    /// when it is seen Ready
    #[arg(long, value_name = "SECONDS", env = "SWAPLET_WARM_STARTUP_TAINT_TIMEOUT", default_value_t = STARTUP_TAINT_SECONDS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    warm_startup_taint_timeout: u32,
    /// Labels and annotations that jobs may give to the pods of --warm by sandboxConfig; * stands
    /// for any characters but /. Webhooks, networks and autoscalers act on them, so no other key is
    /// taken over, and the message of the job says so [default: none]
    #[arg(
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
    pins: PinArgs,
    #[command(flatten)]
    image_caches: ImageCacheArgs,
    /// The park image, a static program that stays until SIGTERM (`swaplet park-image push`). With
    /// --restart a container waits in it whose image has no other spelling; without it such
    /// containers are not restarted. The pods of --warm run its program
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_PARK_IMAGE", value_parser = ImageReference::parse, requires = "park_users")]
    park_image: Option<ImageReference>,
    /// Paths that --park-image has besides the standard ones, as named to `swaplet park-image push
    /// --path`
    #[arg(
        long,
        value_name = "PATH,...",
        env = "SWAPLET_PARK_IMAGE_PATHS",
        value_delimiter = ',',
        requires = "park_image"
    )]
    park_image_paths: Vec<String>,
    /// When images of a Deployment, StatefulSet or CloneSet with the annotation
    /// swaplet.io/predownload=true change, make ImagePullJobs for the nodes of its old pods; needs
    /// deploy/predownload.yaml, and the CRD where OpenKruise is not installed
    #[arg(long, env = "SWAPLET_PREDOWNLOAD")]
    predownload: bool,
    /// Writes of pods under way at once
    #[arg(long, env = "SWAPLET_CONCURRENCY", default_value_t = CONCURRENCY, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// Seconds that one write may take; then its result is unknown and the pod is looked at again
    #[arg(long, value_name = "SECONDS", env = "SWAPLET_WRITE_TIMEOUT", default_value_t = WRITE_SECONDS)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=120))]
    write_timeout: u16,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl ControllerArgs {
    /// What it runs with.
    ///
    /// # Errors
    /// What does not go together, and files that cannot be used.
    pub(super) fn settings(self) -> anyhow::Result<Settings> {
        let Self {
            mut rules,
            namespace,
            state_namespace,
            terminate,
            restart,
            leash,
            restart_on_config,
            restart_on_config_delay,
            park_image,
            park_image_paths,
            warm,
            warm_namespace,
            warm_shape,
            warm_exit_images,
            warm_startup_taint,
            warm_startup_taint_timeout,
            warm_bounds,
            pins,
            warm_sandbox_keys,
            image_caches,
            predownload,
            concurrency,
            write_timeout,
            registry,
        } = self;
        ensure!(
            terminate || restart || warm || predownload,
            "nothing to do: --terminate=false needs --restart, --warm or --predownload"
        );
        if !terminate && rules.needs_exit_image() {
            rules.assume_exit_image(ImageReference::parse(ASSUMED_EXIT_IMAGE)?);
        }
        let image_caches = image_caches.options(rules.exit_image().filter(|_| terminate));
        let exit_image = rules
            .exit_image()
            .filter(|_| warm_exit_images)
            .map(|image| image.as_str().into());
        let rules = rules.rules()?;
        let on_config =
            state_namespace
                .clone()
                .filter(|_| restart_on_config)
                .map(|state_namespace| RestartOnSettings {
                    state_namespace,
                    mount_delay: Duration::from_secs(restart_on_config_delay.into()),
                });
        let only = if let [only] = &*namespace {
            only
        } else {
            WARM_NAMESPACE
        };
        let warm_namespace = warm_namespace.unwrap_or_else(|| only.to_owned());
        let warm = park_image
            .as_ref()
            .filter(|_| warm)
            .map(|park_image| WarmSettings {
                namespace: warm_namespace.into(),
                park_image: park_image.as_str().into(),
                shape: warm_shape.into(),
                exit_image,
                startup_taint_timeout: warm_startup_taint
                    .then(|| Duration::from_secs(warm_startup_taint_timeout.into())),
                startup_taint_namespaces: warm_bounds
                    .startup_taint_namespaces(state_namespace.as_deref()),
                longest_try: warm_bounds.longest_try(),
                coexist: warm_bounds.coexist(),
                image_caches,
                sandbox_keys: SandboxKeys::new(warm_sandbox_keys),
                resolve: registry.resolve_for_others(pins),
                time_of_day: Arc::new(time_of_day),
            });
        let park = park_image
            .map(|image| park(image, park_image_paths, &rules))
            .transpose()?;
        let push = registry.push(&rules);
        Ok(Settings {
            namespaces: namespace.into_iter().collect(),
            rules,
            push,
            concurrency: concurrency.into(),
            write_deadline: Duration::from_secs(write_timeout.into()),
            instance: instance(),
            restart: restart.then(|| RestartSettings {
                time_of_day: Arc::new(time_of_day),
                on_config,
                park,
                leash: leash.needed(),
            }),
            warm,
            state_namespace,
            predownload,
            leadership: Leadership::undisputed(),
            selection: (!terminate).then(Selection::nothing),
        })
    }
}

/// A container that was to be parked would end, if both were one image.
fn park(image: ImageReference, paths: Vec<String>, rules: &Rules) -> anyhow::Result<ParkImage> {
    ensure!(
        !rules.exit_images.contains(image.as_str()),
        "--park-image {image} is an exit image: name one pushed by `swaplet park-image push`"
    );
    Ok(ParkImage::new(
        image,
        derived_paths(paths).context("--park-image-paths")?,
    ))
}
