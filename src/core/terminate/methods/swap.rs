//! The method `swap`: the images of the sidecars are changed to an exit image, and the node is
//! watched until it has acted.
//!
//! A sidecar that can be swapped does not wait for one that cannot. It waits for one whose exit
//! image may not start, and is being tried (`starts.rs`). The phase is written after those that
//! were swapped have ended, because it would meet a container that is just being replaced. A pod
//! that was left stuck on an exit image that cannot run, by an earlier run of swaplet or somebody
//! else, is swapped once more under `OnFailure`, to the right one; swaps by this run were checked
//! before.

mod plan;
mod room;
mod starts;
mod time;
pub(crate) mod words;

use std::time::Duration;

use super::preflight::{Preflight, preflight};
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::{self, Progress};
use crate::objects::pod::roles::{Unended, unended};
use crate::objects::pod::{Container, Pod, RestartPolicy};
use crate::report::decision::{Decision, Method, Paths, Report, one_per_reason};
use crate::report::reason::Reason;
use crate::terminate::circumstances::Case;
use crate::terminate::memory::{Memory, SwapRecord};
use crate::terminate::methods::Step;
use crate::terminate::turn::is_finished;
use plan::{Plan, is_settled};
pub(crate) use room::{headroom, no_room};
pub use starts::{OF_A_BROKEN_IMAGE, learn_starts, most_restarts};
use starts::{Restarts, Trial};
pub(crate) use time::graces;
pub use time::{age_when_told, patience};

/// How long a started exit image may be observed running until it counts as not ending: it exits in
/// milliseconds, but its end becomes visible with the kubelet's next relist (1 s), the poll of a virtual node (5
/// s), and later under load.
const EXIT_IMAGE_RUNS: Duration = Duration::from_secs(20);
/// How long a node may fail with the exit image before the next method is tried: two tries of a
/// pull that backs off for 10 s.
const TROUBLE_PASSES: Duration = Duration::from_secs(30);

/// Decides about the sidecars that have not ended, or returns why swaps cannot end them. `later`
/// are the methods that come after.
pub(crate) fn step(case: Case<'_>, unended: &[Unended<'_>], later: &[Method]) -> Step {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    if memory.rejected {
        return Step::Next {
            reports: vec![rejected(pod, memory)],
            again: None,
        };
    }
    let plan = Plan::make(case, unended);
    // The restarts of an exit image that does not start do not wait until another one is pushed.
    let is_waited_for = || around.may_swap(pod) && !Trial::of(case, unended).is_awaited;
    if let Some(until) = plan.awaits.filter(|_| is_waited_for()) {
        return Step::Here(Decision::later(Reason::ExitImageAwaited, until));
    }
    // Those that can be swapped do not wait for those that cannot.
    if !plan.swaps.is_empty() {
        return if around.may_swap(pod) {
            plan.decide(case, later_than(case, unended))
        } else {
            Step::Next {
                reports: Vec::new(),
                again: None,
            }
        };
    }
    let swapped: Vec<_> = unended
        .iter()
        .copied()
        .filter(|(index, _)| !plan.has_blocked(*index) && !plan.puts_off(*index))
        .collect();
    let beside = later.first() == Some(&Method::Recreate);
    let pending = match plan.delayed_until.filter(|_| swapped.is_empty()) {
        Some(until) if plan.blocks() => Step::Next {
            reports: Vec::new(),
            again: Some(until),
        },
        Some(until) => Step::Here(Decision::later(Reason::SidecarDelayed, until)),
        None => plan.beside(pending(pod, &swapped, later, memory, around.now)),
    };
    plan.left_over(pending, beside)
}

/// Returns the restarts that the swaps still to be made may cause.
pub(crate) fn wanted(case: Case<'_>, unended: &[Unended<'_>]) -> u32 {
    Plan::make(case, unended).restarts().count()
}

/// Returns the restarts that the swaps of sidecars whose turn has not come may cause.
pub(crate) fn wanted_later(case: Case<'_>, turn: &[Unended<'_>]) -> u32 {
    later_than(case, turn).count()
}

/// Returns the swaps of sidecars whose turn has not come.
fn later_than(case: Case<'_>, turn: &[Unended<'_>]) -> Restarts {
    let (pod, around) = (case.pod, case.around);
    let later: Vec<_> = unended(pod)
        .into_iter()
        .filter(|(index, sidecar)| {
            let has_turn = turn.iter().any(|(other, _)| other == index);
            !has_turn && !is_finished(sidecar, around)
        })
        .collect();
    if later.is_empty() || !around.may_swap(pod) {
        return Restarts::default();
    }
    let mut restarts = Plan::make(case, &later).restarts();
    restarts.is_tried |= Trial::of(case, turn).goes_on();
    restarts
}

/// Returns the derived exit images that the sidecars of a pod need and that do not exist yet, also
/// while its main containers run: then they exist when they are needed.
pub(crate) fn wants(case: Case<'_>, unended: &[Unended<'_>]) -> Vec<Paths> {
    let (pod, around) = (case.pod, case.around);
    if !around.exit_images.derives() || !around.may_swap(pod) {
        return Vec::new();
    }
    let unsettled = unended
        .iter()
        .filter(|(_, container)| !is_settled(case, container));
    let wanted = unsettled.filter_map(|(_, container)| {
        match preflight(pod, container, around.exit_images) {
            Preflight::Awaited(paths) => Some(paths),
            Preflight::Blocked { wants, .. } => wants,
            Preflight::Image { .. } => None,
        }
    });
    wanted.collect()
}

/// Reports a swap that the provider failed on. The library retries by itself, so no write would
/// help.
fn rejected(pod: &Pod, memory: &Memory) -> Report {
    let changed: Vec<_> = memory.swaps.iter().map(SwapRecord::words).collect();
    let note = format!(
        "the provider of node {} has failed on the changed image (see status.message of the pod); no other pod of this node is swapped for now; changed: {}",
        pod.node,
        changed.join(", ")
    );
    Report {
        reason: Reason::SwapRejected,
        note,
    }
}

/// The state of a container whose spec shows the exit image and that has not ended.
struct Swapped {
    /// The problem, or what it will be at `until`.
    trouble: Report,
    /// True if the problem exists now.
    reported: bool,
    /// True if the node starts the exit image again and again: each try is a restart, which the
    /// pod's owner may count, so there is no wait where the phase ends the pod.
    restarts: bool,
    /// When this method gives up on the container.
    until: Moment,
}

/// Decides once every sidecar that could be swapped shows an exit image: has the node acted?
/// `later`: the methods that come after.
fn pending(
    pod: &Pod,
    unended: &[Unended<'_>],
    later: &[Method],
    memory: &Memory,
    now: Moment,
) -> Step {
    let (climbs, finishes) = (!later.is_empty(), later.contains(&Method::Finish));
    let swapped = unended
        .iter()
        .filter_map(|(_, sidecar)| Some(watch(pod, sidecar, memory.swap_of(&sidecar.name)?)));
    let gives_up = |swapped: &Swapped| {
        now >= swapped.until || (swapped.reported && !climbs) || (swapped.restarts && finishes)
    };
    let (given_up, hoped): (Vec<_>, Vec<_>) = swapped.partition(gives_up);
    let again = hoped.iter().map(|swapped| swapped.until).min();
    if !given_up.is_empty() {
        return Step::Next {
            reports: given_up
                .into_iter()
                .map(|swapped| swapped.trouble)
                .collect(),
            again,
        };
    }
    let mut reports: Vec<_> = hoped
        .into_iter()
        .filter(|swapped| swapped.reported)
        .map(|swapped| swapped.trouble)
        .collect();
    if reports.is_empty() {
        reports.extend(words::slow(unended, memory, now));
    }
    let reason = reports
        .first()
        .map_or(Reason::SwapPending, |report| report.reason);
    Step::Here(Decision {
        reports: one_per_reason(reports),
        again,
        ..Decision::quiet(reason)
    })
}

fn watch(pod: &Pod, sidecar: &Container, record: &SwapRecord) -> Swapped {
    let patience = patience(pod);
    let (reason, reported, until, what) = match evidence::progress(sidecar, record.before.as_ref())
    {
        Progress::NotPulled(why, message) => {
            let what = format!(
                "the node cannot pull {}, and keeps trying: push it, or let the node pull it ({why}: {message})",
                sidecar.image
            );
            (
                Reason::ExitImageNotPulled,
                true,
                record.at + TROUBLE_PASSES,
                what,
            )
        }
        Progress::NotStarted(why, message) => {
            let what = format!(
                "the node cannot start {}, and keeps trying: swaplet check says what is missing ({why}: {message})",
                sidecar.image
            );
            (
                Reason::ExitImageNotStarted,
                true,
                record.at + TROUBLE_PASSES,
                what,
            )
        }
        Progress::Runs => {
            let what = format!(
                "{} was started and does not end: its command comes from a volume, or the image is not an exit image",
                sidecar.image
            );
            // Not from the swap: until the sidecar has stopped, no exit image runs.
            let since = record.runs_since.unwrap_or(record.at);
            let until = since.min(record.at + patience) + EXIT_IMAGE_RUNS;
            (Reason::ExitImageRuns, false, until, what)
        }
        Progress::Unchanged | Progress::Ended => {
            let what = format!(
                "{} is in the spec, but the node has not reacted: check that it supports changing the image of a running container",
                sidecar.image
            );
            (Reason::SwapWithoutEffect, false, record.at + patience, what)
        }
    };
    let restarts = reason == Reason::ExitImageNotStarted
        && *sidecar.effective_policy(pod) == RestartPolicy::OnFailure;
    let note = format!("container {}: {what}", record.words());
    Swapped {
        trouble: Report { reason, note },
        reported,
        restarts,
        until,
    }
}

/// Returns true if a swap of this container was made and may still take effect.
pub(crate) fn is_hoped_for(case: Case<'_>, sidecar: &Container) -> bool {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let record = memory
        .swap_of(&sidecar.name)
        .filter(|_| memory.shows_exit_image(sidecar, around.exit_images));
    record.is_some_and(|record| around.now < watch(pod, sidecar, record).until)
}
