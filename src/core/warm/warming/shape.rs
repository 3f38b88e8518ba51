//! The shape of a node's warmer pods: what the node supports, unless the operator has chosen.
//!
//! * A container whose image is swapped in place, where the park program runs: one image after the
//!   other. A node switches to another shape for good when a swap is forbidden, or when its first
//!   one has led to nothing in the time of one try.
//!
//! * Image volumes, from kubelet 1.36 on: a container of the park program for each image, since the
//!   status reports containers, not volumes. A running container is the proof.
//!
//! * An impossible command, elsewhere: a container for each of up to 8 images. The command is a
//!   name of 256 bytes, which no file system has, so no image can have it. A container that could
//!   not be started (`StartError`) and has an `imageID` is the proof; one that has run, with
//!   whatever exit code, is a failure. It is not the shape everywhere, because each image leaves a
//!   failed container, and a pull that hangs keeps the others of its pod waiting.

use crate::image::exit::Platform;
use crate::objects::node::{KubeletVersion, Node};
use crate::warm::pod::{Shape, System};

/// The operator's choice of the shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShapeChoice {
    /// In place, with a fallback to another shape if that does not work.
    #[default]
    Auto,
    /// In place only.
    InPlace,
    /// With image volumes only.
    ImageVolumes,
    /// With an impossible command only.
    ImpossibleCommand,
}

/// The shapes of a node's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// The shape of the next pod.
    pub next: Shape,
    /// The shape if this one is forbidden, or the node ignores it; `None` if there is no other.
    pub fallback: Option<Shape>,
}

impl Shapes {
    /// Returns the shape in place, without a fallback.
    #[must_use]
    pub const fn in_place() -> Self {
        Self {
            next: Shape::InPlace,
            fallback: None,
        }
    }

    /// Returns the shapes after a fallback to `next`. A runtime or a policy may not support image
    /// volumes though the kubelet does, so these have a fallback of their own.
    #[must_use]
    pub fn after(next: Shape) -> Self {
        let fallback =
            (next == Shape::ImageVolumes).then_some(Shape::ImpossibleCommand(System::Linux));
        Self { next, fallback }
    }

    /// Returns the shapes for a node that keeps images.
    ///
    /// # Errors
    /// The reason why no pod of ours can pull there.
    pub fn of(node: &Node, choice: ShapeChoice) -> Result<Self, String> {
        let system = system(node)?;
        let impossible = Shape::ImpossibleCommand(system);
        let fallback = if has_image_volumes(node) {
            Shape::ImageVolumes
        } else {
            impossible
        };
        match (choice, no_park_program(node, system)) {
            (ShapeChoice::Auto, None) => Ok(Self {
                next: Shape::InPlace,
                fallback: Some(fallback),
            }),
            (ShapeChoice::InPlace, None) => Ok(Self::in_place()),
            (ShapeChoice::ImageVolumes, None) => Ok(Self {
                next: Shape::ImageVolumes,
                fallback: None,
            }),
            (ShapeChoice::InPlace | ShapeChoice::ImageVolumes, Some(why)) => Err(why),
            (ShapeChoice::Auto | ShapeChoice::ImpossibleCommand, _) => Ok(Self {
                next: impossible,
                fallback: None,
            }),
        }
    }
}

/// The first kubelet in which image volumes are stable (KEP-4639); before, the feature gate may be
/// off.
const IMAGE_VOLUMES: KubeletVersion = KubeletVersion {
    major: 1,
    minor: 36,
};

fn has_image_volumes(node: &Node) -> bool {
    node.kubelet.is_some_and(|version| version >= IMAGE_VOLUMES)
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.labels.get(key).map(|value| &**value)
}

/// Returns the node's operating system; a node without the label counts as Linux.
fn system(node: &Node) -> Result<System, String> {
    match label(node, "kubernetes.io/os") {
        None | Some("linux") => Ok(System::Linux),
        Some("windows") => Ok(System::Windows),
        Some(other) => Err(format!(
            "this node runs {other}, which warmer pods do not support"
        )),
    }
}

/// Returns why the park program, which is built for some Linux platforms, cannot run there.
fn no_park_program(node: &Node, system: System) -> Option<String> {
    if system == System::Windows {
        return Some("the park image is for Linux, and this node runs windows".to_owned());
    }
    let known = |architecture: &&str| {
        Platform::ALL
            .iter()
            .any(|platform| platform.architecture() == *architecture)
    };
    let architecture =
        label(node, "kubernetes.io/arch").filter(|architecture| !known(architecture))?;
    Some(format!("there is no park program for {architecture}"))
}
