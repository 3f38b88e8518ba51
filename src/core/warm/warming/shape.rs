//! The shape of a node's warmer pods, which the node decides.
//!
//! * On Linux a container whose image is swapped in place, where the park program runs: one image
//!   after the other.
//!
//! * On Windows, where no park program runs, an impossible command: a container for each of up to 8
//!   images. The command is a name of 256 bytes, which no file system has, so no image can have it.
//!   A container that could not be started (`StartError`) and has an `imageID` is the proof; one
//!   that has run, with whatever exit code, is a failure. It is not the shape everywhere, because
//!   each image leaves a failed container, and a pull that hangs keeps the others of its pod
//!   waiting.

use crate::objects::node::Node;
use crate::objects::runs_on::{is_linux, is_ours};
use crate::warm::pod::Shape;

/// Returns the shape of the pods for a node that keeps images.
///
/// # Errors
/// The reason why no pod of ours can pull there.
pub fn shape_on(node: &Node) -> Result<Shape, String> {
    match node.system() {
        Some(system) if is_linux(system) => no_park_program(node).map_or(Ok(Shape::InPlace), Err),
        Some("windows") => Ok(Shape::ImpossibleCommand),
        Some(other) => Err(format!(
            "this node runs {other}, which warmer pods do not support"
        )),
        None => Err(
            "this node says its operating system neither in the label kubernetes.io/os nor in its status"
                .to_owned(),
        ),
    }
}

/// Returns why the park program, which is built for some platforms, cannot run there.
fn no_park_program(node: &Node) -> Option<String> {
    match node.processor() {
        Some(processor) if is_ours(processor) => None,
        Some(processor) => Some(format!("there is no park program for {processor}")),
        None => Some("this node does not say its processor".to_owned()),
    }
}
