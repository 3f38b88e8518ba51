//! What the watch shows of writes whose answers come late, or never.
//!
//! An answer is older than what the watch has shown since the write began: a phase may have been
//! taken back by then. A write without an answer is known only by what it alone leaves: the exit
//! image in the spec, or the condition that goes with a phase.

use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::evidence::exit_image_shown;
use swaplet_core::report::decision::Action;
use swaplet_core::terminate::memory::Memory;

/// What the watch has shown of a pod since a write to it has begun: an answer that comes later than
/// that says less.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SinceBegun {
    /// Another state of the pod, older or newer than the write.
    pub(crate) any: bool,
    /// Another image of a container, so that the write has been applied, or has met what somebody
    /// else did.
    pub(crate) images: bool,
}

/// Whether a write whose answer was lost is seen to have been applied. What somebody else has made
/// of the pod is not told as ours.
pub(crate) fn shows(pod: &Pod, memory: &Memory, action: &Action) -> bool {
    match action {
        Action::Swap(swaps) => swaps.iter().all(|swap| {
            let container = pod
                .containers
                .get(swap.index)
                .filter(|container| container.name == swap.container);
            container.is_some_and(|container| {
                container.image != swap.from && is_stored(&container.image, &swap.to)
            })
        }),
        Action::Finish(_) => memory
            .finish
            .as_deref()
            .is_some_and(|record| record.written_at().is_some()),
        Action::Recreate(_) => memory.request_seen_at.is_some(),
    }
}

/// A webhook may have put a digest to it.
fn is_stored(image: &str, written: &str) -> bool {
    exit_image_shown(image, written) == Some(true)
}
