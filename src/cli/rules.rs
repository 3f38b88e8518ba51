//! The rules of the installation, as every subcommand that decides about pods takes them.

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use crate::controller::index::Rules;
use crate::decide::exit_images::ExitImages;
use crate::decide::ladder::{Ladder, Rung};
use crate::image::build::derived_paths;
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
    /// Paths that --exit-image has besides the standard ones, as `swaplet exit-image push --for` has told
    #[arg(long, value_name = "PATH,...", env = "SWAPLET_EXIT_IMAGE_PATHS", value_delimiter = ',', requires = "exit_image")]
    exit_image_paths: Vec<String>,
    /// Whether the phase of a pod may be written where swapping images does not end it; needs patch of pods/status
    #[arg(long, value_enum, default_value_t = FinishArg::Allowed, env = "SWAPLET_FINISH")]
    finish: FinishArg,
    /// What to try first, on nodes that have it [default: swap]
    #[arg(long, value_enum, env = "SWAPLET_PREFER")]
    prefer: Option<PreferArg>,
}

/// Whether the phase may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FinishArg {
    /// Where nothing else ends the pod, or it is asked for
    Allowed,
    /// Never: pods that only this would end keep running
    Never,
}

/// What is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PreferArg {
    /// Change the images of the sidecars
    Swap,
    /// Write the phase of the pod
    Finish,
}

impl RulesArgs {
    /// # Errors
    /// No exit image is named, a path cannot be in one, or what is preferred is not allowed.
    pub fn rules(self) -> anyhow::Result<Rules> {
        let Self { exit_image, exit_images, exit_image_paths, finish, prefer } = self;
        ensure!(
            exit_image.is_some() || !exit_images.is_empty(),
            "no exit image: push one with `swaplet exit-image push IMAGE` and pass it with --exit-image IMAGE"
        );
        ensure!(
            finish == FinishArg::Allowed || prefer != Some(PreferArg::Finish),
            "--prefer=finish and --finish=never exclude each other: drop one of them"
        );
        let ladder = Ladder { prefer: prefer.map(PreferArg::rung), finish: finish == FinishArg::Allowed, ..Ladder::default() };
        let paths = derived_paths(exit_image_paths).context("--exit-image-paths")?;
        Ok(Rules { exit_images: ExitImages::new(exit_image, exit_images).with_default_paths(paths), ladder })
    }
}

impl PreferArg {
    const fn rung(self) -> Rung {
        match self {
            Self::Swap => Rung::Swap,
            Self::Finish => Rung::Finish,
        }
    }
}
