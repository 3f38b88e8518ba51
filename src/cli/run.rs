//! `swaplet run`: the controller.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, ArgGroup, ArgMatches, Args, FromArgMatches as _, ValueEnum};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::client::ClusterArgs;
use super::config::{Called, Read, Reloader, yaml};
use super::image_cache_args::ImageCacheArgs;
use super::leash_args::LeashArgs;
use super::pin_args::PinArgs;
use super::registry_args::RegistryArgs;
use super::rules::{ASSUMED_EXIT_IMAGE, RulesArgs};
use super::warm::shape::ShapeArg;
use super::warm_bounds_args::WarmBoundsArgs;
use crate::controller::clock::time_of_day;
use crate::controller::configured::run_configured;
use crate::controller::index::Rules;
use crate::controller::lead::run_while_leading;
use crate::controller::lease::{Leadership, LeaseKeeper};
use crate::controller::metrics::Metrics;
use crate::controller::pull_jobs::WarmSettings;
use crate::controller::restart::RestartSettings;
use crate::controller::restart_on::{MOUNT_DELAY_SECONDS, RestartOnSettings};
use crate::controller::run::{CONCURRENCY, Settings, WRITE_SECONDS};
use crate::controller::selection::Selection;
use crate::controller::serve::{Health, serve};
use crate::decide::pull_job::sandbox::SandboxKeys;
use crate::decide::restart::ParkImage;
use crate::image::build::derived_paths;
use crate::image::reference::ImageReference;

/// The namespace of `deploy/warm.yaml`.
const WARM_NAMESPACE: &str = "swaplet-warm";
/// How long a node with the startup taint waits for its images.
const STARTUP_TAINT_SECONDS: u32 = 300;

const EXAMPLES: &str = "\
Examples:
  # End the sidecars of all Jobs of the cluster of the current context
  swaplet exit-image push registry.example/swaplet/exit:v1
  swaplet run --exit-image registry.example/swaplet/exit:v1

  # Pods may also name any image under registry.example/exit in KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE
  swaplet run --exit-image registry.example/swaplet/exit:v1 --exit-images 'registry.example/exit/*'

  # Sidecars may execute anything: exit images for their paths are derived, and pushed with the account of this file
  swaplet run --exit-image registry.example/swaplet/exit:v1 \\
    --derived-repository registry.example/swaplet/derived --docker-config /etc/swaplet/config.json

  # In two namespaces only: then a RoleBinding in each of them is enough for most rights
  swaplet run --exit-image registry.example/swaplet/exit:v1 --namespace reports --namespace billing

  # Two of these: one works, the other takes over within 15 s when it dies, and at once when it is stopped
  swaplet run --exit-image registry.example/swaplet/exit:v1 --state-namespace swaplet --leader-elect

  # Restart containers for those who ask for it, and end no sidecars
  swaplet run --terminate=false --restart

  # Restart containers also when a ConfigMap changes that the annotation swaplet.io/restart-on of their pods names, for example
  # app=configmap/app-settings
  swaplet run --terminate=false --restart --restart-on-config --state-namespace swaplet

  # Also pull images for ImagePullJobs and ImageListPullJobs
  swaplet park-image push registry.example/swaplet/park:v1
  swaplet run --exit-image registry.example/swaplet/exit:v1 --warm --park-image registry.example/swaplet/park:v1

  # And keep the exit image on all nodes that keep images; new nodes that register with the taint swaplet.io/warming lose it when they have it
  swaplet run --exit-image registry.example/swaplet/exit:v1 --warm --warm-exit-images --warm-startup-taint \
    --park-image registry.example/swaplet/park:v1

  # From a file with lines such as `exit-image: registry.example/swaplet/exit:v1`; and what that comes to
  swaplet run --config /etc/swaplet/config.yaml
  swaplet run --config /etc/swaplet/config.yaml --print-config

Every flag is also a variable, SWAPLET_ with the flag in capitals, and a key of the file of --config: a flag counts more than its
variable, and that more than the file.

A container is a sidecar if its env has KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT=true. The account that runs this needs to
list, watch and patch pods, to patch pods/status (not with --finish=never), to list and watch jobs.batch, to create
events.events.k8s.io, and to list and watch nodes (without that, every node counts as unknown).";

/// Ends the sidecars of pods whose main containers are done.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("park_users").args(["restart", "warm"]).multiple(true)))]
pub struct RunArgs {
    /// Take from this YAML file what neither a flag nor a variable says; its keys are the flags, without the dashes in front. Lists, and the
    /// rows of --node-classes, are taken over while it runs
    #[arg(long, value_name = "FILE", env = "SWAPLET_CONFIG")]
    config: Option<PathBuf>,
    /// Print what it would run with, and where that comes from, in the form of --config, and exit
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    controller: ControllerArgs,
    /// Work only while this process holds the Lease `swaplet` in --state-namespace; others stand by. Without it, run one process
    #[arg(long, env = "SWAPLET_LEADER_ELECT", requires = "state_namespace")]
    leader_elect: bool,
    /// Serve /healthz, /readyz and /metrics here, for example 127.0.0.1:8080 [default: nowhere]
    #[arg(long, value_name = "ADDRESS", env = "SWAPLET_LISTEN")]
    listen: Option<SocketAddr>,
    /// The form of the log, on standard error; RUST_LOG sets the level
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "SWAPLET_LOG_FORMAT")]
    log_format: LogFormat,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How all this came to be.
    #[arg(skip)]
    origin: Option<(Called, Read)>,
}

/// What the controller is to do.
#[derive(Debug, Args)]
struct ControllerArgs {
    #[command(flatten)]
    rules: RulesArgs,
    /// Only pods of this namespace (repeatable) [default: all namespaces]
    #[arg(short, long, env = "SWAPLET_NAMESPACE", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    namespace: Vec<String>,
    /// The namespace for the Lease of --leader-elect and for the ConfigMaps swaplet-node-verdicts, which keeps what was proved on nodes for
    /// the next start, and swaplet-restart-on of --restart-on-config [default: none, and what was proved is not kept]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// Whether to end sidecars; false: only what --restart, --warm and --predownload ask for
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, env = "SWAPLET_TERMINATE")]
    terminate: bool,
    /// Restart containers for those who ask for it by a ContainerRecreateRequest; needs deploy/restart.yaml, the leash (--leash), and the CRD
    /// where OpenKruise is not installed
    #[arg(long, env = "SWAPLET_RESTART")]
    restart: bool,
    #[command(flatten)]
    leash: LeashArgs,
    /// Restart containers also when a ConfigMap or Secret changes that the annotation swaplet.io/restart-on of their pod names:
    /// `app=configmap/app-settings,secret-metadata/app-tls; log=configmap/log-settings`. Of Secrets only the metadata is read. Needs
    /// --state-namespace, and the role swaplet-restart-on of deploy/restart.yaml
    #[arg(long, env = "SWAPLET_RESTART_ON_CONFIG", requires = "restart", requires = "state_namespace")]
    restart_on_config: bool,
    /// Seconds after a change until containers are restarted that mount the object: so long nodes may take to bring the files up to date.
    /// Others are restarted after 5 s without a further change
    #[arg(long, value_name = "SECONDS", env = "SWAPLET_RESTART_ON_CONFIG_DELAY", default_value_t = MOUNT_DELAY_SECONDS)]
    #[arg(value_parser = clap::value_parser!(u16).range(5..=3600))]
    restart_on_config_delay: u16,
    /// Pull images for those who ask for it by an ImagePullJob or ImageListPullJob; needs deploy/warm.yaml, deploy/pull-jobs.yaml
    /// and the CRDs, and leaves the jobs alone where OpenKruise is installed
    #[arg(long, env = "SWAPLET_WARM", requires = "park_image")]
    warm: bool,
    /// The namespace of the pods of --warm; those of jobs with pull secrets are in the namespace of the job [default: the one
    /// of --namespace, or else swaplet-warm]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_WARM_NAMESPACE")]
    warm_namespace: Option<String>,
    /// What the pods of --warm are
    #[arg(long, value_enum, default_value_t = ShapeArg::Auto, env = "SWAPLET_WARM_SHAPE")]
    warm_shape: ShapeArg,
    /// Keep the exit image, and those that are derived meanwhile, on every node that keeps images, so that no swap waits for a registry; new
    /// nodes get them at once. `swaplet warm status` tells where they are
    #[arg(long, env = "SWAPLET_WARM_EXIT_IMAGES", requires = "warm", requires = "exit_image")]
    warm_exit_images: bool,
    /// Take the taint swaplet.io/warming, whatever its effect, from nodes that are Ready as soon as --warm-exit-images, and jobs of type
    /// Never of the namespaces of --warm-startup-taint-namespace, have their images there: pods that do not tolerate it come to a new node
    /// when it is warm. Needs the role swaplet-warm-startup-taint of deploy/warm.yaml
    #[arg(long, env = "SWAPLET_WARM_STARTUP_TAINT", requires = "warm")]
    warm_startup_taint: bool,
    /// Seconds after which --warm-startup-taint takes the taint from a node that is not warm, from when it is seen Ready
    #[arg(long, value_name = "SECONDS", env = "SWAPLET_WARM_STARTUP_TAINT_TIMEOUT", default_value_t = STARTUP_TAINT_SECONDS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    warm_startup_taint_timeout: u32,
    /// Labels and annotations that jobs may give to the pods of --warm by sandboxConfig; * stands for any characters but /. Webhooks, networks
    /// and autoscalers act on them, so no other key is taken over, and the message of the job says so [default: none]
    #[arg(long, value_name = "KEY,...", env = "SWAPLET_WARM_SANDBOX_KEYS", value_delimiter = ',', requires = "warm")]
    warm_sandbox_keys: Vec<String>,
    #[command(flatten)]
    warm_bounds: WarmBoundsArgs,
    #[command(flatten)]
    pins: PinArgs,
    #[command(flatten)]
    image_caches: ImageCacheArgs,
    /// The park image, a static program that stays until SIGTERM (`swaplet park-image push`). With --restart a container waits in it whose
    /// image has no other spelling; without it such containers are not restarted. The pods of --warm run its program
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_PARK_IMAGE", value_parser = ImageReference::parse, requires = "park_users")]
    park_image: Option<ImageReference>,
    /// Paths that --park-image has besides the standard ones, as named to `swaplet park-image push --path`
    #[arg(long, value_name = "PATH,...", env = "SWAPLET_PARK_IMAGE_PATHS", value_delimiter = ',', requires = "park_image")]
    park_image_paths: Vec<String>,
    /// When images of a Deployment, StatefulSet or CloneSet with the annotation swaplet.io/predownload=true change, make ImagePullJobs for the nodes
    /// of its old pods; needs deploy/predownload.yaml, and the CRD where OpenKruise is not installed
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

/// The form of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogFormat {
    /// One readable line per entry
    Text,
    /// One JSON object per line
    Json,
}

impl RunArgs {
    /// Remembers where its flags came from.
    pub(super) fn configured_by(&mut self, called: Called, read: Read) {
        self.origin = Some((called, read));
    }

    /// Runs until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// Bad flags, no way to reach a cluster, or a background task that died.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let Self { config: _, print_config, controller, leader_elect, listen, log_format, cluster, origin } = self;
        if print_config {
            super::print(&origin.map(|(_, read)| yaml(&read.settings)).unwrap_or_default())?;
            return Ok(ExitCode::SUCCESS);
        }
        // Before all else: the first process of a container is not ended by a signal that it does not handle, and would lead in a pod that is
        // being deleted.
        let stopped = stopped()?;
        let rows = controller.rules.rows().cloned();
        let settings = controller.settings()?;
        start_log(log_format);
        let lease_client = cluster.client().await?;
        let client = cluster.client().await?;
        let (metrics, health) = start_serving(listen).await?;
        let (terminate, restart) = (settings.selection.is_none(), settings.restart.is_some());
        tracing::info!(version = env!("CARGO_PKG_VERSION"), scope = %settings.namespaces, exit_images = %settings.rules.exit_images, terminate, restart, "watching pods");
        let (instance, namespace) = (settings.instance.clone(), settings.state_namespace.clone().filter(|_| leader_elect));
        let (sender, settings) = watch::channel(settings);
        let reloader = origin.and_then(|(called, read)| Reloader::of(called, read, rows, health.clone(), settings_of));
        let work = async {
            let Some(namespace) = namespace else {
                metrics.leads.set(1);
                return run_configured(client, settings, Leadership::undisputed(), metrics, health, stopped).await;
            };
            tracing::info!(namespace, "standing by until this process holds the Lease swaplet");
            let keeper = LeaseKeeper::start(lease_client, &namespace, &instance, health.clone());
            run_while_leading(client, settings, metrics, health, keeper, stopped).await
        };
        tokio::select! {
            ended = work => ended?,
            () = follow(reloader, sender) => {}
        }
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    }
}

/// For as long as the controller runs.
async fn follow(reloader: Option<Reloader>, running: watch::Sender<Settings>) {
    match reloader {
        Some(reloader) => reloader.run(running).await,
        None => std::future::pending().await,
    }
}

/// The settings of a controller that was started with this command line.
fn settings_of(matches: &ArgMatches) -> anyhow::Result<Settings> {
    let run = matches.subcommand_matches("run").context("this is no command line of swaplet run")?;
    ControllerArgs::from_arg_matches(run)?.settings()
}

impl ControllerArgs {
    /// # Errors
    /// What does not go together, and files that cannot be used.
    fn settings(self) -> anyhow::Result<Settings> {
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
        ensure!(terminate || restart || warm || predownload, "nothing to do: --terminate=false needs --restart, --warm or --predownload");
        if !terminate && rules.needs_exit_image() {
            rules.assume_exit_image(ImageReference::parse(ASSUMED_EXIT_IMAGE)?);
        }
        let image_caches = image_caches.options(rules.exit_image().filter(|_| terminate));
        let exit_image = rules.exit_image().filter(|_| warm_exit_images).map(|image| image.as_str().into());
        let rules = rules.rules()?;
        let on_config = state_namespace
            .clone()
            .filter(|_| restart_on_config)
            .map(|state_namespace| RestartOnSettings { state_namespace, mount_delay: Duration::from_secs(restart_on_config_delay.into()) });
        let only = if let [only] = &*namespace { only } else { WARM_NAMESPACE };
        let warm_namespace = warm_namespace.unwrap_or_else(|| only.to_owned());
        let warm = park_image.as_ref().filter(|_| warm).map(|park_image| WarmSettings {
            namespace: warm_namespace.into(),
            park_image: park_image.as_str().into(),
            shape: warm_shape.into(),
            exit_image,
            startup_taint_timeout: warm_startup_taint.then(|| Duration::from_secs(warm_startup_taint_timeout.into())),
            startup_taint_namespaces: warm_bounds.startup_taint_namespaces(state_namespace.as_deref()),
            longest_try: warm_bounds.longest_try(),
            image_caches,
            sandbox_keys: SandboxKeys::new(warm_sandbox_keys),
            resolve: registry.resolve_for_others(pins),
            time_of_day: Arc::new(time_of_day),
        });
        let park = park_image.map(|image| park(image, park_image_paths, &rules)).transpose()?;
        let push = registry.push(&rules);
        Ok(Settings {
            namespaces: namespace.into_iter().collect(),
            rules,
            push,
            concurrency: concurrency.into(),
            write_deadline: Duration::from_secs(write_timeout.into()),
            instance: instance(),
            restart: restart.then(|| RestartSettings { time_of_day: Arc::new(time_of_day), on_config, park, leash: leash.needed() }),
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
    Ok(ParkImage::new(image, derived_paths(paths).context("--park-image-paths")?))
}

async fn start_serving(listen: Option<SocketAddr>) -> anyhow::Result<(Metrics, Health)> {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let health = Health::default();
    if let Some(address) = listen {
        let listener = TcpListener::bind(address).await.with_context(|| format!("--listen {address}"))?;
        tracing::info!(address = %listener.local_addr()?, "serving /healthz, /readyz and /metrics");
        tokio::spawn(serve(listener, Arc::new(registry), health.clone()));
    }
    Ok((metrics, health))
}

/// The pod's name in a cluster, the machine's elsewhere.
pub(super) fn instance() -> String {
    ["POD_NAME", "HOSTNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "swaplet".to_owned())
}

/// Completes on SIGTERM or SIGINT.
pub(super) fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

pub(super) fn start_log(format: LogFormat) {
    // kube logs each request as a span; at info that would be every write twice.
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info,kube=warn".into());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let builder = if std::io::stderr().is_terminal() { builder } else { builder.with_ansi(false) };
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
