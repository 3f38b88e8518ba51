//! The flags that select the work of the controller, and the resulting settings.

mod restart;
mod warm;

use std::time::Duration;

use self::restart::RestartArgs;
use self::warm::WarmArgs;
pub use self::warm::warm_namespace;
use crate::cli::duration::seconds;
use crate::cli::image::RegistryArgs;
use crate::cli::program::process::instance;
use crate::cli::rules::RulesArgs;
use crate::image::build::derived_paths;
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;
use anyhow::{Context, ensure};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::lease::Leadership;
use swaplet_controller::run::{CONCURRENCY, Settings, TimeOfDay, WRITE_SECONDS};
use swaplet_controller::terminate::selection::Selection;
use swaplet_core::restart::hot_upgrade::sidecar_set::UpgradeImages;
use swaplet_core::restart::reconcile::ParkImage;

/// What the controller is to do.
#[derive(Debug, Args)]
pub(super) struct ControllerArgs {
    /// Only pods of this namespace (repeatable) [default: all namespaces]
    #[arg(short, long, value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    namespace: Vec<String>,
    /// The namespace of swaplet's own objects: the Lease of --leader-elect, and the ConfigMaps
    /// swaplet-node-verdicts, which keeps what was proved on nodes for the next start, and
    /// swaplet-restart-on of --restart-on-config [default: none, and proofs are not kept]
    #[arg(long, value_name = "NAMESPACE")]
    state_namespace: Option<String>,
    /// The most writes of pods under way at once; half as many for 30 s after the API server has
    /// refused one. More help where it is far away
    #[arg(hide_short_help = true, long, default_value_t = CONCURRENCY, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// How long one write may take; then its result is unknown and the pod is reconciled again
    #[arg(hide_short_help = true, long, value_name = "DURATION", default_value_t = WRITE_SECONDS.into())]
    #[arg(value_parser = seconds(1..=120))]
    write_timeout: u32,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    pub(super) rules: RulesArgs,
    /// Whether to end sidecars; false: only what --restart, --hot-upgrade, --warm, --predownload
    /// and --protect ask for
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    terminate: bool,
    /// End also what SidecarPolicies and NamespacedSidecarPolicies name; needs
    /// deploy/sidecar-policies.yaml and their CRDs. Annotations of pods are read without it
    #[arg(long)]
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
    #[arg(long, value_name = "IMAGE", value_parser = ImageReference::parse, requires = "park_users")]
    park_image: Option<ImageReference>,
    /// Paths that --park-image has besides the standard ones, as named to `swaplet park-image push
    /// --path`
    #[arg(
        hide_short_help = true,
        long,
        value_name = "PATH,...",
        value_delimiter = ',',
        requires = "park_image"
    )]
    park_image_paths: Vec<String>,
    /// Pull images before an update needs them: when those of a Deployment, StatefulSet or CloneSet
    /// with the annotation swaplet.io/predownload=true change, create ImagePullJobs for the nodes
    /// of its old pods; needs deploy/predownload.yaml, and the CRD where OpenKruise is not
    /// installed
    #[arg(long)]
    predownload: bool,
    /// Count what is in Namespaces and CRDs with the label
    /// policy.kruise.io/delete-protection=Cascading, so that they can be deleted when there is
    /// nothing in them; needs deploy/protect.yaml and deploy/protection.yaml
    #[arg(hide_short_help = true, long)]
    protect: bool,
}

impl ControllerArgs {
    /// Returns the settings of the controller.
    ///
    /// # Errors
    /// Contradictory flags, and files that cannot be used.
    pub(super) fn settings(mut self) -> anyhow::Result<Settings> {
        ensure!(
            self.terminate
                || self.restart.restart
                || self.hot_upgrade.hot_upgrade
                || self.warm.warm
                || self.predownload
                || self.protect,
            "nothing to do: --terminate=false needs --restart, --hot-upgrade, --warm, --predownload or --protect"
        );
        if !self.terminate {
            self.rules.assume()?;
        }
        let warm = self.warm.settings(&self);
        let rules = self.rules.rules()?;
        let park = self
            .park_image
            .map(|image| park(image, self.park_image_paths, &rules))
            .transpose()?;
        let hot_upgrade = self.hot_upgrade.settings(park.as_ref(), &rules)?;
        Ok(Settings {
            hot_upgrade,
            restart: self.restart.settings(self.state_namespace.as_deref(), park),
            ask_public: self.terminate.then(|| self.registry.hosts.ask_public()),
            push: self.registry.push(&rules),
            namespaces: self.namespace.into_iter().collect(),
            rules,
            concurrency: self.concurrency.into(),
            write_deadline: Duration::from_secs(self.write_timeout.into()),
            instance: instance(),
            warm,
            state_namespace: self.state_namespace,
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

// The flags of `swaplet run` for hot upgrades of sidecars, and their images.

#[derive(Debug, Args)]
#[command(next_help_heading = "Hot upgrades")]
struct HotUpgradeArgs {
    /// Upgrade sidecars that a pod has twice, as NAME-1 and NAME-2, without a gap, as SidecarSets
    /// with the upgradeType HotUpgrade say; needs --hot-upgrade-images, --park-image or
    /// --hot-upgrade-empty-images, deploy/hot-upgrade.yaml and the CRD. Where OpenKruise is
    /// installed its manager does it, except with --coexist=own
    #[arg(hide_short_help = true, long, requires = "hot_upgrade_images")]
    hot_upgrade: bool,
    /// The images that SidecarSets may name for hot upgrades, whoever writes them; * stands for any
    /// characters except / and @
    #[arg(hide_short_help = true, long, value_name = "IMAGE,...", value_delimiter = ',', value_parser = ImagePattern::parse, requires = "hot_upgrade")]
    hot_upgrade_images: Vec<ImagePattern>,
    /// Empty images that SidecarSets may name besides --park-image, for sidecars with hooks or probes
    /// that the park image does not answer
    #[arg(hide_short_help = true, long, value_name = "IMAGE,...", value_delimiter = ',', value_parser = ImagePattern::parse, requires = "hot_upgrade")]
    hot_upgrade_empty_images: Vec<ImagePattern>,
}

impl HotUpgradeArgs {
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
