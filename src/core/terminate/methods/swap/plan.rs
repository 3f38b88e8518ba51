//! The swaps that are still to be made in a pod, and why some of its sidecars get none.

use std::fmt::Write as _;
use std::time::Duration;

use super::{no_room, refused_image, restarts_of, unknown_owner};
use crate::cluster::owner;
use crate::objects::command::ContainerFacts;
use crate::objects::moment::Moment;
use crate::objects::pod::roles::{self, Unended};
use crate::objects::pod::{Container, Pod, RestartPolicy, evidence};
use crate::report::decision::{Action, Decision, Method, Report, Swap};
use crate::report::reason::Reason;
use crate::terminate::memory::Memory;
use crate::terminate::methods::Step;
use crate::terminate::methods::preflight::{Preflight, not_pushed, preflight, uncertain};
use crate::terminate::turn::{allow_finish, may_finish};
use crate::terminate::{Case, Circumstances};

/// How often the image of one container is swapped if something keeps reverting it.
const SWAPS_PER_CONTAINER: u32 = 3;
/// How long a pod whose main containers are done waits for an image that is being pushed. A push
/// takes two minutes at most, but has to wait for its turn.
const PUSHED: Duration = Duration::from_secs(300);

/// The swaps that are still to be made, and what to report about them.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) swaps: Vec<Swap>,
    /// The restarts that they may cause.
    pub(super) restarts: u32,
    /// Text for the notes about images that were requested and not granted.
    refused: Vec<String>,
    /// The positions of the sidecars that cannot be swapped.
    left: Vec<usize>,
    /// The reasons why they cannot.
    blocked: Vec<Report>,
    /// When one of them may be swappable.
    again: Option<Moment>,
    /// Until when the pod waits, while an image that one of them needs is being pushed.
    pub(crate) awaits: Option<Moment>,
}

impl Plan {
    pub(crate) fn make(case: Case<'_>, unended: &[Unended<'_>]) -> Self {
        let mut plan = Self::default();
        for &(index, container) in unended {
            if !is_settled(case, container) {
                plan.add(case, index, container);
            }
        }
        plan
    }

    fn add(&mut self, case: Case<'_>, index: usize, container: &Container) {
        let (pod, around) = (case.pod, case.around);
        let name = &container.name;
        match preflight(pod, container, around.exit_images) {
            Preflight::Awaited(paths) => {
                let done_at = case.memory.mains_done_at.unwrap_or(around.now);
                let until = done_at + PUSHED;
                if around.now < until {
                    self.awaits = Some(until);
                } else {
                    let report = not_pushed(container, &paths, around.exit_images, PUSHED);
                    self.block(index, report, None);
                }
            }
            Preflight::Blocked { report, again, .. } => self.block(index, report, again),
            // The container is stuck on the right image: another swap would not help.
            Preflight::Image { image, .. }
                if evidence::exit_image_shown(&container.image, image) == Some(true) => {}
            Preflight::Image {
                image,
                refused,
                doubt,
            } => {
                if let Some((report, again)) = held_back(case, container, image, doubt.as_deref()) {
                    return self.block(index, report, again);
                }
                self.refused
                    .extend(refused.map(|image| refused_image(name, image)));
                let restarts = restarts_of(pod, case.memory, around.allowed, doubt.is_none());
                self.restarts = self.restarts.saturating_add(restarts);
                self.swaps.push(Swap {
                    index,
                    is_native_sidecar: false,
                    container: name.clone(),
                    from: container.image.clone(),
                    to: image.into(),
                });
            }
        }
    }

    fn block(&mut self, index: usize, report: Report, again: Option<Moment>) {
        self.left.push(index);
        self.blocked.push(report);
        self.again = self.again.into_iter().chain(again).min();
    }

    /// Returns true if the sidecar at this position cannot be swapped.
    pub(crate) fn has_blocked(&self, index: usize) -> bool {
        self.left.contains(&index)
    }

    /// Decides on these swaps. `later` more restarts may follow when these have ended: all together have to fit.
    pub(super) fn decide(self, case: Case<'_>, later: u32) -> Step {
        let (pod, around) = (case.pod, case.around);
        if let Some(until) = around.facts.probed_until {
            return Step::Here(Decision::later(Reason::NodeProbed, until));
        }
        let swaps_wanted = self.restarts.saturating_add(later);
        match no_room(case, swaps_wanted) {
            None => {
                let report = Report::new(Reason::SidecarSwapped, self.note(pod, around));
                Step::Here(Decision {
                    swaps_wanted,
                    ..Decision::act(Action::Swap(self.swaps), report)
                })
            }
            Some(next @ Step::Next { .. }) => self.left_over(next, false),
            Some(here) => here,
        }
    }

    /// Decides about the sidecars that cannot be swapped, when no swap is left to be made: after
    /// those that were swapped have ended, so that whatever ends the whole pod does not meet a
    /// container that is just being replaced. OpenKruise's daemon ends them one by one, `beside`
    /// the others.
    pub(crate) fn left_over(self, pending: Step, beside: bool) -> Step {
        if self.blocked.is_empty() {
            return pending;
        }
        match pending {
            Step::Here(decision)
                if decision.reason != Reason::SwapPending
                    || (decision.again.is_some() && !beside) =>
            {
                Step::Here(decision)
            }
            Step::Here(decision) => Step::next(
                self.blocked,
                decision.again.into_iter().chain(self.again).min(),
            ),
            Step::Next { mut reports, again } => {
                reports.extend(self.blocked);
                Step::next(reports, again.into_iter().chain(self.again).min())
            }
        }
    }

    fn note(&self, pod: &Pod, around: &Circumstances<'_>) -> String {
        let mut note = String::from("main containers are done; ending");
        for (nth, swap) in self.swaps.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            let _ = write!(
                note,
                "{comma} {} (image {} -> {})",
                swap.container, swap.from, swap.to
            );
        }
        note.extend(self.refused.iter().map(String::as_str));
        note.extend(unknown_owner(pod, around));
        note
    }
}

/// Returns why a container does not get this image although it may end it, and until when. On a
/// kubelet, or a node that may be one, the phase ends the pod without a trial; a virtual node would go
/// on and be billed.
fn held_back(
    case: Case<'_>,
    container: &Container,
    image: &str,
    doubt: Option<&str>,
) -> Option<(Report, Option<Moment>)> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let (name, now) = (&container.name, around.now);
    let because = |reason, note, until| Some((Report::new(reason, note), until));
    if let Some(report) = uncertain(case, container, image) {
        return Some((report, None));
    }
    if let Some(failed) = failed_and_ignored(case) {
        let note = format!(
            "container {name}: when it has ended the pod is Failed, because {} has failed; that it is to be ignored only the phase can do{}",
            failed.name,
            allow_finish(case, "")
        );
        return because(Reason::NoRung, note, None);
    }
    if let Some(owner) = owner::counting(pod) {
        let note = format!(
            "container {name}: a swap is a restart, and {owner}, so the swap may fail it{}",
            allow_finish(case, ", or end the sidecars yourself")
        );
        return because(Reason::NoHeadroom, note, None);
    }
    let undone = memory
        .swap_of(name)
        .is_some_and(|record| record.times >= SWAPS_PER_CONTAINER);
    if undone {
        let note = format!(
            "container {name}: the exit image was replaced by {} {SWAPS_PER_CONTAINER} times; find what changes it (an admission webhook, another controller)",
            container.image
        );
        return because(Reason::SwapUndone, note, None);
    }
    if let Some((until, words)) = memory.denied.closes(Method::Swap, now) {
        return because(Reason::WriteDenied, words.to_owned(), Some(until));
    }
    if let Some(doubt) = doubt.filter(|_| around.may_be_kubelet()) {
        let facts = container.facts.as_deref();
        let otherwise = if facts.is_some_and(ContainerFacts::is_confined) {
            ", or let it run under a profile of the runtime (RuntimeDefault)"
        } else if facts.is_some_and(ContainerFacts::mounts_image) {
            ", or mount the image volume in main containers only"
        } else {
            ", or give it an exit image whose paths are known (--exit-image with --exit-image-paths, --derived-repository)"
        };
        let note = format!(
            "container {name}: {doubt}, so it is not tried{}",
            allow_finish(case, otherwise)
        );
        return because(Reason::ExitImageDoubtful, note, None);
    }
    let allow = allow_finish(case, ", or mend it and restart the controller");
    around
        .image_troubles
        .holds(pod, container, image, now, &allow)
}

/// Returns the sidecar that has failed for good, is to be ignored, and by which a kubelet judges the
/// pod when the others have ended, because the phase may not be written; `None` if there is none.
pub(crate) fn failed_and_ignored(case: Case<'_>) -> Option<&Container> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    if !around.may_be_kubelet()
        || may_finish(pod, memory, around.allowed)
        || !roles::mains_succeeded(pod)
    {
        return None;
    }
    roles::sidecars(pod).find(|sidecar| {
        sidecar.mark.ignores_exit_code() && roles::has_failed_for_good(pod, sidecar)
    })
}

/// Returns true if the container shows an exit image, and all that is left is to wait.
pub(super) fn is_settled(case: Case<'_>, container: &Container) -> bool {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    memory.shows_exit_image(container, around.exit_images)
        && *container.effective_policy(pod) != RestartPolicy::Always
        && !is_stuck(pod, container, memory)
}

/// Returns true if an exit image written by somebody else, an earlier run or another version of
/// swaplet, cannot run. Images written by this run were checked before; under `Never` no image is
/// started after one that failed.
fn is_stuck(pod: &Pod, container: &Container, memory: &Memory) -> bool {
    *container.effective_policy(pod) == RestartPolicy::OnFailure
        && evidence::is_stuck(container)
        && memory
            .swap_of(&container.name)
            .is_some_and(|record| record.before.is_none())
}
