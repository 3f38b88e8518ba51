//! Which nodes can be warmed at all.

use crate::decide::node_class::{NodeClass, Recognised};
use crate::image::exit::Platform;
use crate::objects::node::Node;

/// Why images cannot be warmed on a node; `None` where they can.
///
/// On a virtual node there is no place where an image could wait for the next pod: each pod gets a machine of its own, or is run
/// elsewhere (virtual-nodes, E.2). An answer of such a node would prove nothing.
#[must_use]
pub fn why_not(node: &Node, recognised: &Recognised) -> Option<String> {
    let provider = recognised.provider().unwrap_or("a virtual node");
    let why = &recognised.why;
    if recognised.class == NodeClass::Unknown {
        return Some(format!(
            "nobody knows whether this virtual node keeps images ({why}); label it swaplet.io/node-class=Kubelet if it does"
        ));
    }
    if !recognised.class.is_kubelet() {
        return Some(format!("{provider} keeps no images for later pods ({why})"));
    }
    if recognised.row.as_ref().is_some_and(|row| row.machine_per_pod) {
        return Some(format!("{provider} runs each pod on a machine of its own, which keeps no images for later pods ({why})"));
    }
    platform(node)
}

/// The park program runs on Linux, on the platforms that it is built for. What a node does not say is not held against it.
fn platform(node: &Node) -> Option<String> {
    let label = |key: &str| node.labels.get(key).map(|value| &**value);
    if let Some(system) = label("kubernetes.io/os").filter(|system| *system != "linux") {
        return Some(format!("the park image is for Linux, and this node runs {system}"));
    }
    let known = |architecture: &&str| Platform::ALL.iter().any(|platform| platform.architecture() == *architecture);
    let architecture = label("kubernetes.io/arch").filter(|architecture| !known(architecture))?;
    Some(format!("there is no park program for {architecture}"))
}
