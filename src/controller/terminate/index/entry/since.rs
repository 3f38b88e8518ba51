//! The watch events that bear on writes whose answers come late, or never.
//!
//! An answer is older than what the watch has shown since the write began: a phase may have been
//! taken back by then. A write without an answer is recognised by what it alone leaves: the exit
//! image in the spec, or the condition that goes with a phase.

use swaplet_core::objects::pod::evidence::exit_image_shown;
use swaplet_core::objects::pod::{Container, Pod};
use swaplet_core::report::decision::{Action, Swap};
use swaplet_core::terminate::memory::Memory;

/// What the watch has shown of a pod since a write to it began: an answer that comes later proves
/// less.
#[derive(Clone, Debug, Default)]
pub(crate) struct SinceBegun {
    /// The containers that the write changes, as they were before it: the node may have acted on it
    /// before the answer comes.
    pub(crate) before: Vec<Container>,
    /// True if another state of the pod was shown, older or newer than the write.
    pub(crate) any: bool,
    /// True if another image of a container was shown: the write was applied, or somebody else
    /// changed it.
    pub(crate) images: bool,
}

impl SinceBegun {
    /// Returns what a write begins with.
    pub(crate) fn of(pod: &Pod, action: &Action) -> Self {
        let swaps: &[Swap] = match action {
            Action::Swap(swaps) => swaps,
            Action::Finish(_) | Action::Recreate(_) => &[],
        };
        let before = swaps
            .iter()
            .filter_map(|swap| pod.containers.get(swap.index));
        Self {
            before: before.cloned().collect(),
            ..Self::default()
        }
    }

    /// Updates the containers that still have the image from before the write.
    pub(crate) fn refresh(&mut self, pod: &Pod) {
        for before in &mut self.before {
            let mut same = pod.containers.iter();
            let same = same.find(|now| now.name == before.name && now.image == before.image);
            if let Some(now) = same {
                before.clone_from(now);
            }
        }
    }
}

/// Returns true if a write whose answer was lost is observed to have been applied. Changes by
/// others are not reported as ours.
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

/// Returns true if `image` is `written`; a webhook may have appended a digest.
fn is_stored(image: &str, written: &str) -> bool {
    exit_image_shown(image, written) == Some(true)
}
