//! The rung `swap`: the images of the sidecars are changed to an exit image, and the node is watched until it has acted.

use std::fmt::Write as _;
use std::time::Duration;

use super::circumstances::Circumstances;
use super::decision::{Action, Decision, Report, Swap};
use super::derived_images::Paths;
use super::evidence::{self, Progress};
use super::headroom::{Headroom, Shortage};
use super::ladder::{Ladder, Rung, Step};
use super::memory::{Memory, SwapRecord};
use super::preflight::{Preflight, preflight};
use super::reason::Reason;
use super::roles;
use super::terminate::{Unended, one_per_reason};
use crate::objects::pod::{Container, Pod, RestartPolicy};

/// What a started exit image may take until it counts as running on: it exits in milliseconds, but its end becomes visible
/// with the kubelet's next relist (1 s), the poll of a virtual node (5 s), and more under load.
const EXIT_IMAGE_RUNS: Duration = Duration::from_secs(20);
/// What a node may take to react to a swap, besides the grace periods of the containers it stops one after another.
const SWAP_VISIBLE: Duration = Duration::from_secs(60);
/// What a node may take to get over a trouble with the exit image before the next rung is tried: two tries of a pull that backs off
/// for 10 s.
const TROUBLE_PASSES: Duration = Duration::from_secs(30);
/// How long a Job may stay unseen before it is told: a list of a large cluster, or a new Job whose pod ends at once.
const JOB_APPEARS: Duration = Duration::from_secs(30);
/// The grace period where the pod gives none (the API server's default).
const DEFAULT_GRACE_SECONDS: u32 = 30;
/// How often the image of one container is swapped when something keeps changing it back.
const SWAPS_PER_CONTAINER: u32 = 3;

/// What is to be done for the sidecars that have not ended, or why swaps do not lead on. `later` are the rungs that come after.
pub(super) fn step(pod: &Pod, unended: &[Unended<'_>], later: &[Rung], memory: &Memory, around: &Circumstances<'_>) -> Step {
    if memory.rejected {
        return Step::Next { reports: vec![rejected(pod)], again: None };
    }
    let plan = Plan::make(pod, unended, memory, around);
    // Swaps that leave other sidecars running only make sense where a later rung ends exactly those.
    let partly = later.first() == Some(&Rung::Recreate);
    if !plan.blocked.is_empty() && !partly {
        return Step::Next { reports: plan.blocked, again: plan.again };
    }
    if plan.awaits && around.may_swap(pod) {
        return Step::Here(Decision::quiet(Reason::ExitImageAwaited));
    }
    if !plan.swaps.is_empty() {
        return if around.may_swap(pod) { plan.decide(pod, memory, around) } else { Step::Next { reports: Vec::new(), again: None } };
    }
    match pending(pod, unended, !later.is_empty(), memory, around.now) {
        Step::Here(decision) if decision.reason == Reason::SwapPending && !plan.blocked.is_empty() => {
            Step::Next { reports: plan.blocked, again: decision.again.into_iter().chain(plan.again).min() }
        }
        step => step,
    }
}

/// How many swaps are still to be made.
pub(super) fn wanted(pod: &Pod, unended: &[Unended<'_>], memory: &Memory, around: &Circumstances<'_>) -> u32 {
    Plan::make(pod, unended, memory, around).size()
}

/// The derived exit images that the sidecars of a pod need and that are not there, also while its main containers run: then they are there
/// when they are needed.
pub(super) fn wants(pod: &Pod, unended: &[Unended<'_>], memory: &Memory, around: &Circumstances<'_>) -> Vec<Paths> {
    if !around.exit_images.derives() || !around.may_swap(pod) {
        return Vec::new();
    }
    let unsettled = unended.iter().filter(|(_, container)| !is_settled(pod, container, memory, around));
    let wanted = unsettled.filter_map(|(_, container)| match preflight(pod, container, around.exit_images) {
        Preflight::Awaited(paths) => Some(paths),
        Preflight::Blocked { wants, .. } => wants,
        Preflight::Image { .. } => None,
    });
    wanted.collect()
}

/// Whether the container shows an exit image, and nothing is to be done about it but to wait.
fn is_settled(pod: &Pod, container: &Container, memory: &Memory, around: &Circumstances<'_>) -> bool {
    memory.shows_exit_image(container, around.exit_images)
        && *container.effective_policy(pod) != RestartPolicy::Always
        && !is_stuck(pod, container, memory)
}

/// Whether an exit image that somebody else has written cannot run, an earlier life or another version of swaplet. What this life writes
/// was asked for its verdict before; under `Never` no image is started after one that failed.
fn is_stuck(pod: &Pod, container: &Container, memory: &Memory) -> bool {
    *container.effective_policy(pod) == RestartPolicy::OnFailure
        && evidence::is_stuck(container)
        && memory.swap_of(&container.name).is_some_and(|record| record.before.is_none())
}

/// Whether a sidecar was swapped and has not ended: that is waited for also where nothing more would be swapped.
pub(super) fn is_under_way(unended: &[Unended<'_>], memory: &Memory) -> bool {
    unended.iter().any(|(_, sidecar)| memory.swap_of(&sidecar.name).is_some_and(|record| record.to == sidecar.image))
}

/// The library asks the provider again by itself, so nothing that could be written would help.
fn rejected(pod: &Pod) -> Report {
    let note = format!(
        "the provider of node {} has failed on the changed image (the pod's status.message has its words); no other pod of this node is swapped for now",
        pod.node
    );
    Report { reason: Reason::SwapRejected, note }
}

/// The swaps that are still to be made, and what to say about them.
#[derive(Default)]
struct Plan {
    swaps: Vec<Swap>,
    /// What the notes say of images that were asked for and not granted.
    refused: Vec<String>,
    /// Why some sidecars cannot be swapped.
    blocked: Vec<Report>,
    /// When one of them may be.
    again: Option<Duration>,
    /// Whether an image is being pushed that one of them needs.
    awaits: bool,
}

impl Plan {
    fn make(pod: &Pod, unended: &[Unended<'_>], memory: &Memory, around: &Circumstances<'_>) -> Self {
        let mut plan = Self::default();
        for &(index, container) in unended {
            if !is_settled(pod, container, memory, around) {
                plan.add(index, container, preflight(pod, container, around.exit_images));
            }
        }
        plan
    }

    fn add(&mut self, index: usize, container: &Container, preflight: Preflight<'_>) {
        let name = &container.name;
        match preflight {
            Preflight::Awaited(_) => self.awaits = true,
            Preflight::Blocked { report, again, .. } => {
                self.blocked.push(report);
                self.again = self.again.into_iter().chain(again).min();
            }
            // It is stuck on the right one: another swap would not help.
            Preflight::Image { image, .. } if evidence::exit_image_shown(&container.image, image) == Some(true) => {}
            Preflight::Image { image, refused } => {
                self.refused
                    .extend(refused.map(|image| format!("container {name} asks for {image}, which is not on the list of --exit-images")));
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

    fn size(&self) -> u32 {
        u32::try_from(self.swaps.len()).unwrap_or(u32::MAX)
    }

    fn decide(self, pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Step {
        let undone =
            self.swaps.iter().find(|swap| memory.swap_of(&swap.container).is_some_and(|record| record.times >= SWAPS_PER_CONTAINER));
        if let Some(swap) = undone {
            let note = format!(
                "container {}: the exit image was replaced by {} {SWAPS_PER_CONTAINER} times; find who changes it (an admission webhook, another controller)",
                swap.container, swap.from
            );
            return Step::Next { reports: vec![Report { reason: Reason::SwapUndone, note }], again: None };
        }
        if let Some(until) = around.facts.probed_until {
            return Step::Here(Decision::later(Reason::NodeProbed, until));
        }
        let swaps_wanted = self.size();
        no_room(pod, swaps_wanted, memory, around).unwrap_or_else(|| {
            let report = Report { reason: Reason::SidecarSwapped, note: self.note() };
            Step::Here(Decision { swaps_wanted, ..Decision::act(Action::Swap(self.swaps), report) })
        })
    }

    fn note(&self) -> String {
        let mut note = String::from("main containers are done; ending");
        for (nth, swap) in self.swaps.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            let _ = write!(note, "{comma} {} (image {} -> {})", swap.container, swap.from, swap.to);
        }
        for refused in &self.refused {
            let _ = write!(note, "; {refused}: the default exit image is used");
        }
        note
    }
}

/// What is to be done instead, where so many restarts do not fit into what the Job of the pod allows.
pub(super) fn no_room(pod: &Pod, restarts: u32, memory: &Memory, around: &Circumstances<'_>) -> Option<Step> {
    match around.headroom.answer(pod, restarts) {
        Headroom::Free | Headroom::Fits => None,
        Headroom::Wait(_) | Headroom::TooEarly => {
            Some(Step::Here(Decision { swaps_wanted: restarts, ..Decision::quiet(Reason::HeadroomWait) }))
        }
        Headroom::NeverFits(shortage) => Some(Step::Next { reports: vec![no_headroom(&shortage, around.ladder)], again: None }),
        Headroom::JobUnknown { trouble } => Some(job_unknown(trouble.as_deref(), memory, around.now)),
    }
}

/// Told of the Job, so in words that are true of all its pods.
fn no_headroom(shortage: &Shortage, ladder: &Ladder) -> Report {
    let finish = if ladder.finish { "" } else { ", start the controller without --finish=never" };
    let note = format!(
        "the mains of a pod are done, but swapping its sidecars would fail the Job: {shortage}. Raise spec.backoffLimit to at least {}{finish}, or end the sidecars yourself",
        shortage.limit_needed()
    );
    Report { reason: Reason::NoHeadroom, note }
}

/// Never a swap on a guess: first the Job has a while to appear, then it is told what is missing.
fn job_unknown(trouble: Option<&str>, memory: &Memory, now: Duration) -> Step {
    let until = memory.mains_done_at.unwrap_or(now) + JOB_APPEARS;
    if now < until {
        return Step::Here(Decision::later(Reason::JobUnknown, until));
    }
    let fix = trouble.map_or_else(
        || "is gone while its pods are not: delete them too, or end their sidecars yourself".to_owned(),
        |trouble| format!("cannot be seen ({trouble}): allow the controller to list and watch jobs of the group batch"),
    );
    let note = format!("the mains of a pod are done, but nobody knows how many restarts the Job allows, because it {fix}");
    Step::Next { reports: vec![Report { reason: Reason::JobUnknown, note }], again: None }
}

/// A container whose spec shows the exit image and that has not ended.
struct Swapped {
    /// What is wrong, or will be at `until`.
    trouble: Report,
    /// Whether it is wrong now.
    told: bool,
    /// When this rung gives it up.
    until: Duration,
}

/// Every sidecar that could be swapped shows an exit image: has the node acted? `climbs`: whether there is another rung.
fn pending(pod: &Pod, unended: &[Unended<'_>], climbs: bool, memory: &Memory, now: Duration) -> Step {
    let swapped = unended.iter().filter_map(|(_, sidecar)| Some(watch(pod, sidecar, memory.swap_of(&sidecar.name)?)));
    let gives_up = |swapped: &Swapped| now >= swapped.until || (swapped.told && !climbs);
    let (given_up, hoped): (Vec<_>, Vec<_>) = swapped.partition(gives_up);
    let again = hoped.iter().map(|swapped| swapped.until).min();
    if !given_up.is_empty() {
        return Step::Next { reports: given_up.into_iter().map(|swapped| swapped.trouble).collect(), again };
    }
    let reports: Vec<_> = hoped.into_iter().filter(|swapped| swapped.told).map(|swapped| swapped.trouble).collect();
    let reason = reports.first().map_or(Reason::SwapPending, |report| report.reason);
    Step::Here(Decision { reports: one_per_reason(reports), again, ..Decision::quiet(reason) })
}

fn watch(pod: &Pod, sidecar: &Container, record: &SwapRecord) -> Swapped {
    let (reason, told, patience, what) = match evidence::progress(sidecar, record.before.as_ref()) {
        Progress::NotPulled(why, message) => {
            let what =
                format!("the node cannot pull {}, and goes on trying: push it, or let the node pull it ({why}: {message})", sidecar.image);
            (Reason::ExitImageNotPulled, true, TROUBLE_PASSES, what)
        }
        Progress::NotStarted(why, message) => {
            let what =
                format!("the node cannot start {}, and goes on trying: swaplet check says what it lacks ({why}: {message})", sidecar.image);
            (Reason::ExitImageNotStarted, true, TROUBLE_PASSES, what)
        }
        Progress::Runs => {
            let what = format!(
                "{} was started and does not end: its command comes from a volume, or the image is not an exit image",
                sidecar.image
            );
            (Reason::ExitImageRuns, false, EXIT_IMAGE_RUNS, what)
        }
        Progress::Unchanged | Progress::Ended => {
            let what = format!(
                "{} is in the spec, but the node has not reacted: does it support changing the image of a running container?",
                sidecar.image
            );
            (Reason::SwapWithoutEffect, false, patience(pod), what)
        }
    };
    let note = format!("container {}: {what}", sidecar.name);
    Swapped { trouble: Report { reason, note }, told, until: record.at + patience }
}

/// Whether a swap of this container was made and may still take effect.
pub(super) fn is_hoped_for(pod: &Pod, sidecar: &Container, memory: &Memory, around: &Circumstances<'_>) -> bool {
    let record = memory.swap_of(&sidecar.name).filter(|_| memory.shows_exit_image(sidecar, around.exit_images));
    record.is_some_and(|record| around.now < watch(pod, sidecar, record).until)
}

/// How long a node may show no effect of a swap.
#[must_use]
pub fn patience(pod: &Pod) -> Duration {
    graces(pod).saturating_add(SWAP_VISIBLE)
}

/// What the sidecars may take to stop: a kubelet stops swapped containers one after another, each with its grace period (truth
/// table, row 26), and so does OpenKruise's daemon.
pub(super) fn graces(pod: &Pod) -> Duration {
    let grace = Duration::from_secs(pod.grace_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).into());
    let count = u32::try_from(roles::sidecars(pod).count()).unwrap_or(u32::MAX);
    grace.saturating_mul(count)
}
