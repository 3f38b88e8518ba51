//! The rules of the installation, as every subcommand that decides about pods takes them.

use anyhow::ensure;
use clap::Args;

use crate::controller::index::Rules;
use crate::decide::exit_images::ExitImages;
use crate::decide::ladder::Ladder;
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;

/// Which exit images there are, and what is allowed.
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// The image that sidecars are swapped to; a static program that exits 0 at once
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_EXIT_IMAGE", value_parser = ImageReference::parse)]
    exit_image: Option<ImageReference>,
    /// Other exit images that pods may name; * stands for any characters except / and @. List nothing but exit images: a container
    /// that shows one of these counts as ended
    #[arg(long, value_name = "IMAGE,...", env = "SWAPLET_EXIT_IMAGES", value_delimiter = ',', value_parser = ImagePattern::parse)]
    exit_images: Vec<ImagePattern>,
}

impl RulesArgs {
    /// # Errors
    /// No exit image is named.
    pub fn rules(self) -> anyhow::Result<Rules> {
        let Self { exit_image, exit_images } = self;
        ensure!(
            exit_image.is_some() || !exit_images.is_empty(),
            "no exit image: push one with `swaplet exit-image push IMAGE` and pass it with --exit-image IMAGE"
        );
        Ok(Rules { exit_images: ExitImages::new(exit_image, exit_images), ladder: Ladder::default() })
    }
}
