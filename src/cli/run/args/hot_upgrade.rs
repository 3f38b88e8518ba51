//! The flags of `swaplet run` for hot upgrades of sidecars, and their images.

use anyhow::ensure;
use clap::Args;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::restart::hot_upgrade::HotUpgradeSettings;
use swaplet_core::restart::hot_upgrade::sidecar_set::UpgradeImages;
use swaplet_core::restart::reconcile::ParkImage;

use crate::image::pattern::ImagePattern;

#[derive(Debug, Args)]
#[command(next_help_heading = "Hot upgrades")]
pub(super) struct HotUpgradeArgs {
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

    /// Returns the settings of hot upgrades, if they are on.
    ///
    /// # Errors
    /// Contradictory flags.
    pub fn settings(
        self,
        park: Option<&ParkImage>,
        rules: &Rules,
    ) -> anyhow::Result<Option<HotUpgradeSettings>> {
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
        let images = UpgradeImages {
            listed,
            park,
            empty,
        };
        Ok(Some(HotUpgradeSettings { images }))
    }
}
