//! The flags that select the work of the controller, and the resulting settings.

mod image_caches;
mod restart;
mod warm;

use std::collections::BTreeSet;
use std::time::Duration;

use self::restart::RestartArgs;
use self::warm::{Beside, WarmArgs};
use crate::cli::duration::seconds;
use crate::cli::image::RegistryArgs;
use crate::cli::program::process::instance;
use crate::cli::rules::{ASSUMED_EXIT_IMAGE, RulesArgs};
use crate::image::build::derived_paths;
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;
use anyhow::{Context, ensure};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, ValueEnum};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::lease::Leadership;
use swaplet_controller::run::{CONCURRENCY, Settings, TimeOfDay, WRITE_SECONDS};
use swaplet_controller::terminate::selection::Selection;
use swaplet_core::restart::hot_upgrade::sidecar_set::UpgradeImages;
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::terminate::openkruise::Coexist;

/// What the controller is to do.
#[derive(Debug, Args)]
pub(super) struct ControllerArgs {
    /// Only pods of this namespace (repeatable) [default: all namespaces]
    #[arg(short, long, env = "SWAPLET_NAMESPACE", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    namespace: Vec<String>,
    /// The namespace of swaplet's own objects: the Lease of --leader-elect, and the ConfigMaps
    /// swaplet-node-verdicts, which keeps what was proved on nodes for the next start, and
    /// swaplet-restart-on of --restart-on-config [default: none, and proofs are not kept]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// The most writes of pods under way at once; half as many for 30 s after the API server has
    /// refused one. More help where it is far away
    #[arg(hide_short_help = true, long, env = "SWAPLET_CONCURRENCY", default_value_t = CONCURRENCY, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// How long one write may take; then its result is unknown and the pod is reconciled again
    #[arg(hide_short_help = true, long, value_name = "DURATION", env = "SWAPLET_WRITE_TIMEOUT", default_value_t = WRITE_SECONDS.into())]
    #[arg(value_parser = seconds(1..=120))]
    write_timeout: u32,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    pub(super) rules: RulesArgs,
    /// Whether to end sidecars; false: only what --restart, --hot-upgrade, --warm, --predownload
    /// and --protect ask for
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, env = "SWAPLET_TERMINATE")]
    terminate: bool,
    /// End also what SidecarPolicies and NamespacedSidecarPolicies name; needs
    /// deploy/sidecar-policies.yaml and their CRDs. Annotations of pods are read without it
    #[arg(long, env = "SWAPLET_SIDECAR_POLICIES")]
    sidecar_policies: bool,
    #[command(flatten)]
    restart: RestartArgs,
    #[command(flatten)]
    hot_upgrade: HotUpgradeArgs,
    #[command(flatten)]
    warm: WarmArgs,
    /// The park image; a static program that stays until SIGTERM (`swaplet park-image push`). With
    /// --restart a container waits in it whose image has no other spelling; without it such
    /// containers are not restarted. The pods of --warm run its program, and the empty containers
    /// of --hot-upgrade have it
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_PARK_IMAGE", value_parser = ImageReference::parse, requires = "park_users")]
    park_image: Option<ImageReference>,
    /// Paths that --park-image has besides the standard ones, as named to `swaplet park-image push
    /// --path`
    #[arg(
        hide_short_help = true,
        long,
        value_name = "PATH,...",
        env = "SWAPLET_PARK_IMAGE_PATHS",
        value_delimiter = ',',
        requires = "park_image"
    )]
    park_image_paths: Vec<String>,
    /// Pull images before an update needs them: when those of a Deployment, StatefulSet or CloneSet
    /// with the annotation swaplet.io/predownload=true change, create ImagePullJobs for the nodes
    /// of its old pods; needs deploy/predownload.yaml, and the CRD where OpenKruise is not
    /// installed
    #[arg(long, env = "SWAPLET_PREDOWNLOAD")]
    predownload: bool,
    /// Count what is in Namespaces and CRDs with the label
    /// policy.kruise.io/delete-protection=Cascading, so that they can be deleted when there is
    /// nothing in them; needs deploy/protect.yaml and deploy/protection.yaml
    #[arg(hide_short_help = true, long, env = "SWAPLET_PROTECT")]
    protect: bool,
}

impl ControllerArgs {
    /// Returns the settings of the controller.
    ///
    /// # Errors
    /// Contradictory flags, and files that cannot be used.
    pub(super) fn settings(self) -> anyhow::Result<Settings> {
        let Self { mut rules, .. } = self;
        ensure!(
            self.terminate
                || self.restart.is_on()
                || self.hot_upgrade.is_on()
                || self.warm.is_on()
                || self.predownload
                || self.protect,
            "nothing to do: --terminate=false needs --restart, --hot-upgrade, --warm, --predownload or --protect"
        );
        if !self.terminate && rules.needs_exit_image() {
            rules.assume_exit_image(ImageReference::parse(ASSUMED_EXIT_IMAGE)?);
        }
        let state_namespace = self.state_namespace;
        let warm = self.warm.settings(&Beside {
            namespaces: &self.namespace,
            state_namespace: state_namespace.as_deref(),
            exit_image: rules.exit_image(),
            terminate: self.terminate,
            park_image: self.park_image.as_ref(),
        });
        let rules = rules.rules()?;
        let park = self
            .park_image
            .map(|image| park(image, self.park_image_paths, &rules))
            .transpose()?;
        let hot_upgrade = self.hot_upgrade.settings(park.as_ref(), &rules)?;
        Ok(Settings {
            hot_upgrade,
            restart: self.restart.settings(state_namespace.as_deref(), park),
            ask_public: self.terminate.then(|| self.registry.hosts.ask_public()),
            push: self.registry.push(&rules),
            namespaces: self.namespace.into_iter().collect(),
            rules,
            concurrency: self.concurrency.into(),
            write_deadline: Duration::from_secs(self.write_timeout.into()),
            instance: instance(),
            warm,
            state_namespace,
            predownload: self.predownload,
            protect: self.protect,
            sidecar_policies: self.sidecar_policies && self.terminate,
            time_of_day: TimeOfDay::default(),
            leadership: Leadership::undisputed(),
            selection: (!self.terminate).then(Selection::nothing),
        })
    }
}

/// Checks that the park image is not an exit image: a parked container would end.
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

// The admission policies that `swaplet run --restart` requires before it restarts anything.

#[derive(Debug, Args)]
struct LeashArgs {
    /// The leash without which --restart restarts nothing: the ValidatingAdmissionPolicyBindings
    /// NAME-pods (deploy/leash.yaml) and NAME-parked (deploy/leash-parked.yaml). Reading them needs
    /// the role swaplet-restart-leash of deploy/restart.yaml
    #[arg(hide_short_help = true, long, value_name = "NAME", default_value = "swaplet-leash", env = "SWAPLET_LEASH", value_parser = NonEmptyStringValueParser::new())]
    leash: String,
    /// Restart containers even without the leash. Then anyone who may write
    /// ContainerRecreateRequests, or statuses of pods, may restart containers, and anyone who may
    /// write statuses of pods chooses the image of a container that is in the park image, without
    /// any request
    #[arg(
        hide_short_help = true,
        long,
        env = "SWAPLET_RESTART_WITHOUT_LEASH",
        requires = "restart"
    )]
    restart_without_leash: bool,
}

impl LeashArgs {
    /// Returns the name of the required admission policies; `None` if none are required.
    fn needed(self) -> Option<String> {
        (!self.restart_without_leash).then_some(self.leash)
    }
}

// The flags of `swaplet run` that bound the jobs of tenants.

/// The default deadline of one pull of an image, in seconds.
const TRY_SECONDS: u32 = 1800;

#[derive(Debug, Args)]
struct WarmBoundsArgs {
    /// How long one try of an image may take at most, whatever pullPolicy.timeoutSeconds of its job
    /// says
    #[arg(hide_short_help = true, long, value_name = "DURATION", env = "SWAPLET_WARM_TRY_SECONDS_MAX", default_value_t = TRY_SECONDS)]
    #[arg(value_parser = seconds(60..=86_400))]
    warm_try_seconds_max: u32,
    /// Who does ImagePullJobs and ImageListPullJobs where OpenKruise's CRDs are there
    #[arg(hide_short_help = true, long, value_enum, default_value_t = WarmCoexistArg::Auto, env = "SWAPLET_WARM_COEXIST")]
    warm_coexist: WarmCoexistArg,
    /// Let nodes with the startup taint wait for the jobs of this namespace, too (repeatable):
    /// anyone who may create jobs there can delay each new node. They always wait for
    /// --warm-exit-images, and for jobs of --state-namespace
    #[arg(
        hide_short_help = true,
        long,
        value_name = "NAMESPACE",
        env = "SWAPLET_WARM_STARTUP_TAINT_NAMESPACE",
        value_delimiter = ','
    )]
    #[arg(requires = "warm_startup_taint", value_parser = NonEmptyStringValueParser::new())]
    warm_startup_taint_namespace: Vec<String>,
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

impl WarmBoundsArgs {
    /// Returns who handles jobs beside OpenKruise.
    const fn coexist(&self) -> Coexist {
        match self.warm_coexist {
            WarmCoexistArg::Auto => Coexist::Auto,
            WarmCoexistArg::Defer => Coexist::Defer,
            WarmCoexistArg::Own => Coexist::Own,
        }
    }

    /// Returns the maximum deadline of one pull of an image.
    fn longest_try(&self) -> Duration {
        Duration::from_secs(self.warm_try_seconds_max.into())
    }

    /// Returns the namespaces for whose jobs nodes wait.
    fn startup_taint_namespaces(&self, state_namespace: Option<&str>) -> BTreeSet<Box<str>> {
        self.warm_startup_taint_namespace
            .iter()
            .map(String::as_str)
            .chain(state_namespace)
            .map(Box::from)
            .collect()
    }
}

// The flags of `swaplet run` for hot upgrades of sidecars, and their images.

#[derive(Debug, Args)]
#[command(next_help_heading = "Hot upgrades")]
struct HotUpgradeArgs {
    /// Upgrade sidecars that a pod has twice, as NAME-1 and NAME-2, without a gap, as SidecarSets
    /// with the upgradeType HotUpgrade say; needs --hot-upgrade-images, --park-image or
    /// --hot-upgrade-empty-images, deploy/hot-upgrade.yaml and the CRD. Where OpenKruise is
    /// installed its manager does it, except with --coexist=own
    #[arg(
        hide_short_help = true,
        long,
        env = "SWAPLET_HOT_UPGRADE",
        requires = "hot_upgrade_images"
    )]
    hot_upgrade: bool,
    /// The images that SidecarSets may name for hot upgrades, whoever writes them; * stands for any
    /// characters except / and @
    #[arg(hide_short_help = true, long, value_name = "IMAGE,...", env = "SWAPLET_HOT_UPGRADE_IMAGES", value_delimiter = ',', value_parser = ImagePattern::parse, requires = "hot_upgrade")]
    hot_upgrade_images: Vec<ImagePattern>,
    /// Empty images that SidecarSets may name besides --park-image, for sidecars with hooks or probes
    /// that the park image does not answer
    #[arg(hide_short_help = true, long, value_name = "IMAGE,...", env = "SWAPLET_HOT_UPGRADE_EMPTY_IMAGES", value_delimiter = ',', value_parser = ImagePattern::parse, requires = "hot_upgrade")]
    hot_upgrade_empty_images: Vec<ImagePattern>,
}

impl HotUpgradeArgs {
    /// Returns true if sidecars are hot-upgraded.
    pub const fn is_on(&self) -> bool {
        self.hot_upgrade
    }

    /// Returns the images of hot upgrades, if they are on.
    ///
    /// # Errors
    /// Contradictory flags.
    pub fn settings(
        self,
        park: Option<&ParkImage>,
        rules: &Rules,
    ) -> anyhow::Result<Option<UpgradeImages>> {
        if !self.hot_upgrade {
            return Ok(None);
        }
        let park = park.map(|park| park.image().clone());
        let empty = self.hot_upgrade_empty_images;
        ensure!(
            park.is_some() || !empty.is_empty(),
            "--hot-upgrade needs --park-image, which is the image of containers that do not work: push it with `swaplet park-image push`"
        );
        let exit = rules.exit_images.default_image();
        for listed in &self.hot_upgrade_images {
            let mut others = park.iter().chain(exit);
            ensure!(
                !others.any(|other| listed.matches(other)),
                "--hot-upgrade-images {listed} is the park image or the exit image: name images of sidecars"
            );
        }
        let listed = self.hot_upgrade_images;
        Ok(Some(UpgradeImages {
            listed,
            park,
            empty,
        }))
    }
}
