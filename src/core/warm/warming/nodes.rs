//! The nodes that can be warmed at all.

use super::shape::shape_on;
use crate::cluster::node_class::{NodeClass, Recognised};
use crate::objects::node::Node;
use crate::warm::pod::Shape;

/// The remedy for nodes whose provider has image caches.
const CACHES: &str = "; for jobs swaplet run --warm --warm-image-caches creates an ImageCache for it, if the CRD of ImageCaches is installed";

/// Returns true if the provider of a node starts its machines from image caches.
#[must_use]
pub fn has_image_caches(recognised: &Recognised) -> bool {
    recognised
        .row
        .as_ref()
        .is_some_and(|row| row.eci_image_caches)
}

/// Returns the shape of the warmer pods for a node.
///
/// On a virtual node there is no place where an image could wait for the next pod: each pod gets a
/// machine of its own, or runs elsewhere. A status from such a node would
/// prove nothing.
///
/// # Errors
/// The reason why images cannot be warmed there.
pub fn shape(node: &Node, recognised: &Recognised) -> Result<Shape, String> {
    let provider = recognised.provider().unwrap_or("a virtual node");
    let why = &recognised.why;
    if recognised.class == NodeClass::Unknown {
        return Err(format!(
            "it is not known whether this virtual node keeps images ({why}); label it swaplet.io/node-class=Kubelet if it does"
        ));
    }
    if !recognised.class.is_kubelet() {
        let caches = if has_image_caches(recognised) {
            CACHES
        } else {
            ""
        };
        return Err(format!(
            "{provider} keeps no images for later pods ({why}){caches}"
        ));
    }
    if recognised
        .row
        .as_ref()
        .is_some_and(|row| row.machine_per_pod)
    {
        return Err(format!(
            "{provider} runs each pod on a machine of its own, which keeps no images for later pods ({why})"
        ));
    }
    shape_on(node)
}
