//! The text about swaps: for the Event about the end of the pod, and for the one about an end that
//! does not come.

use std::time::Duration;

use crate::cluster::owner;
use crate::objects::moment::Moment;
use crate::objects::pod::roles::{self, Unended};
use crate::objects::pod::{Container, Pod};
use crate::report::decision::Report;
use crate::report::reason::Reason;
use crate::terminate::memory::{Memory, SwapRecord};
use crate::terminate::{Case, Circumstances};

/// The time after which a swap without observed effect is reported, if the effect may still come.
/// Mostly the Event about the end reports the swap within seconds, and else a Warning by then.
pub(super) const SLOW: Duration = Duration::from_secs(90);

/// Describes what was changed in the pod, and why; empty if no image was.
pub(crate) fn changes(case: Case<'_>) -> String {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let swapped: Vec<_> = roles::sidecars(pod)
        .filter_map(|sidecar| Some((sidecar, memory.swap_of(&sidecar.name)?)))
        .collect();
    if swapped.is_empty() {
        return String::new();
    }
    let words: Vec<_> = swapped.iter().map(|(_, record)| record.words()).collect();
    let mut changes = format!(
        "; ended because main containers were done: {}",
        words.join(", ")
    );
    changes.extend(
        swapped
            .iter()
            .filter_map(|(sidecar, _)| refused(sidecar, around)),
    );
    changes.extend(unknown_owner(pod, around));
    changes
}

fn refused(sidecar: &Container, around: &Circumstances<'_>) -> Option<String> {
    let choice = around.exit_images.choose(sidecar.exit_image_asked()).ok()?;
    let image = choice.refused?;
    Some(refused_image(&sidecar.name, image))
}

/// Describes an image that a container requests and does not get.
pub(crate) fn refused_image(container: &str, image: &str) -> String {
    format!(
        "; container {container} requests {image}, which is not on the list of --exit-images: the default exit image is used"
    )
}

/// Describes an owner of the pod that may count a swap as a restart; `None` if there is none.
pub(crate) fn unknown_owner(pod: &Pod, around: &Circumstances<'_>) -> Option<String> {
    let owner = owner::unknown(pod).filter(|_| !around.allowed.finish)?;
    Some(format!(
        "; {owner}: if it counts restarts of containers, allow finish, which adds none"
    ))
}

/// Reports the swaps whose effect takes long to be observed.
pub(crate) fn slow(unended: &[Unended<'_>], memory: &Memory, now: Moment) -> Option<Report> {
    let slow: Vec<_> = unended
        .iter()
        .filter_map(|(_, sidecar)| memory.swap_of(&sidecar.name))
        .filter(|record| now >= record.at + SLOW)
        .map(SwapRecord::words)
        .collect();
    (!slow.is_empty()).then(|| Report {
        reason: Reason::SwapPending,
        note: format!(
            "main containers are done; ending {}; the node has not reported the end yet, which includes a grace period",
            slow.join(", ")
        ),
    })
}
