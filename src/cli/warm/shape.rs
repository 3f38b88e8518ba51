//! The flags for the shape of warmer pods.

use clap::ValueEnum;
use swaplet_core::warm::warming::shape::ShapeChoice;

/// What a warmer pod is, and so how it pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ShapeArg {
    /// By what a node can do: in place; with an impossible command where no park program runs;
    /// where images of pods may not be changed, or the node ignores it, with image volumes from
    /// kubelet 1.36 on and else with an impossible command
    Auto,
    /// One container, which runs the park program and whose image is swapped from one to the next
    InPlace,
    /// A container for each of up to 8 images, which runs the park program and has the image as a
    /// volume; before Kubernetes 1.36 it takes the feature gate ImageVolume
    ImageVolumes,
    /// A container for each of up to 8 images, with a command that no image has: the kubelet pulls,
    /// and starts nothing
    ImpossibleCommand,
}

impl From<ShapeArg> for ShapeChoice {
    fn from(shape: ShapeArg) -> Self {
        match shape {
            ShapeArg::Auto => Self::Auto,
            ShapeArg::InPlace => Self::InPlace,
            ShapeArg::ImageVolumes => Self::ImageVolumes,
            ShapeArg::ImpossibleCommand => Self::ImpossibleCommand,
        }
    }
}
