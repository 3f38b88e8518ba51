//! In which shape the warmer pods of a node are made: by what the node can do, unless the operator
//! has chosen.
//!
//! * A container whose image is swapped in place, where the park program runs: one image after the
//!   other. A node goes over to another shape for good when a swap is forbidden, or when its first
//!   one has led to nothing in the time of one try.
//!
//! * Image volumes, from kubelet 1.36 on: a container of the park program for each image, since the
//!   status tells of containers, not of volumes. One that runs is the proof.
//!
//! * An impossible command, elsewhere: a container for each of up to 8 images. The command is a
//!   name of 256 bytes, which no file system has, so no image can have it. A container that could
//!   not be started (`StartError`) and has an `imageID` is the proof; one that has run, with
//!   whatever exit code, is a failure. It is not the shape everywhere, because each image leaves a
//!   failed container, and a pull that hangs keeps the others of its pod waiting.

use crate::image::exit::Platform;
use crate::objects::node::{KubeletVersion, Node};
use crate::warm::pod::{Shape, System};

/// What the operator has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShapeChoice {
    /// In place, and in another shape where that does not work.
    #[default]
    Auto,
    /// In place only.
    InPlace,
    /// With image volumes only.
    ImageVolumes,
    /// With an impossible command only.
    ImpossibleCommand,
}

/// The shapes for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// The shape of its next pod.
    pub next: Shape,
    /// The shape of those after it, where images of pods may not be changed or the node ignores it.
    pub fallback: Option<Shape>,
}

impl Shapes {
    /// In place, whatever happens.
    #[must_use]
    pub const fn in_place() -> Self {
        Self {
            next: Shape::InPlace,
            fallback: None,
        }
    }

    /// The shapes where another one has not worked: a runtime, or a policy, may have no image
    /// volumes though the kubelet has them.
    #[must_use]
    pub fn after(next: Shape) -> Self {
        let fallback =
            (next == Shape::ImageVolumes).then_some(Shape::ImpossibleCommand(System::Linux));
        Self { next, fallback }
    }

    /// The shapes for a node that keeps images.
    ///
    /// # Errors
    /// Why no pod of ours can pull there.
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

/// The first kubelet in which image volumes are stable (KEP-4639); before, a gate may be off.
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

/// What a node does not say is not held against it.
fn system(node: &Node) -> Result<System, String> {
    match label(node, "kubernetes.io/os") {
        None | Some("linux") => Ok(System::Linux),
        Some("windows") => Ok(System::Windows),
        Some(other) => Err(format!(
            "this node runs {other}, for which there are no warmer pods"
        )),
    }
}

/// The park program runs on Linux, on the platforms that it is built for.
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
