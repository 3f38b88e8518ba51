//! The method `swap`: the images of the sidecars are changed to an exit image, and the node is
//! watched until it has acted.
//!
//! A sidecar that can be swapped does not wait for one that cannot. The phase is written after those
//! that were swapped have ended, because it would meet a container that is just being replaced. A pod
//! that was left stuck on an exit image that cannot run, by an earlier run of swaplet or somebody
//! else, is swapped once more under `OnFailure`, to the right one; swaps by this run were checked
//! before.

mod plan;

use std::time::Duration;

pub(crate) use self::plan::failed_and_ignored;
use self::plan::{Plan, is_settled};
use super::preflight::{Preflight, preflight};
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::{self, Headroom, Ledger, Shortage};
use crate::cluster::owner;
use crate::image::alias::same_repository;
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::{self, Footprint, Progress, exit_image_shown, shows_written};
use crate::objects::pod::roles::{self, Unended, unended};
use crate::objects::pod::{Container, ContainerState, Pod};
use crate::report::decision::{Decision, Method, Paths, Report, listed, one_per_reason};
use crate::report::reason::Reason;
use crate::terminate::memory::{Memory, SwapRecord};
use crate::terminate::methods::{AllowedMethods, Step, finish};
use crate::terminate::turn::{allows_finish, is_finished, may_finish};
use crate::terminate::{Case, Circumstances};

/// How long a started exit image may be observed running until it counts as not ending: it exits in
/// milliseconds, but its end becomes visible with the kubelet's next relist (1 s), the poll of a virtual node (5
/// s), and later under load.
const EXIT_IMAGE_RUNS: Duration = Duration::from_secs(20);
/// The number of times that exit images may fail in a pod: then its phase is written at once, because
/// each further start is a restart that its Job may count, and a node may wait for a second only.
const FAILURES: u32 = 2;
/// How long a node may fail with the exit image before the next method is tried: two tries of a
/// pull that backs off for 10 s.
const TROUBLE_PASSES: Duration = Duration::from_secs(30);

/// Decides about the sidecars that have not ended, or returns why swaps cannot end them. `later`
/// are the methods that come after.
pub(crate) fn step(case: Case<'_>, unended: &[Unended<'_>], later: &[Method]) -> Step {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    if memory.rejected {
        return Step::next(vec![rejected(pod, memory)], None);
    }
    let plan = Plan::make(case, unended);
    if let Some(until) = plan.awaits.filter(|_| around.may_swap(pod)) {
        return Step::Here(Decision::later(Reason::ExitImageAwaited, until));
    }
    // Those that can be swapped do not wait for those that cannot.
    if !plan.swaps.is_empty() {
        return if around.may_swap(pod) {
            plan.decide(case, wanted_later(case, unended))
        } else {
            Step::next(Vec::new(), None)
        };
    }
    let swapped: Vec<_> = unended
        .iter()
        .copied()
        .filter(|(index, _)| !plan.has_blocked(*index))
        .collect();
    let beside = later.first() == Some(&Method::Recreate);
    let pending = pending(pod, &swapped, later, memory, around.now);
    plan.left_over(pending, beside)
}

/// Returns the restarts that the swaps still to be made may cause.
pub(crate) fn wanted(case: Case<'_>, unended: &[Unended<'_>]) -> u32 {
    Plan::make(case, unended).restarts
}

/// Returns the restarts that the swaps of sidecars whose turn has not come may cause.
pub(crate) fn wanted_later(case: Case<'_>, turn: &[Unended<'_>]) -> u32 {
    let (pod, around) = (case.pod, case.around);
    let later: Vec<_> = unended(pod)
        .into_iter()
        .filter(|(index, sidecar)| {
            let has_turn = turn.iter().any(|(other, _)| other == index);
            !has_turn && !is_finished(sidecar, around)
        })
        .collect();
    if later.is_empty() || !around.may_swap(pod) {
        return 0;
    }
    wanted(case, &later)
}

/// Returns the derived exit images that the sidecars of a pod need and that do not exist yet, also
/// while its main containers run: then they exist when they are needed.
pub(crate) fn wants(case: Case<'_>, unended: &[Unended<'_>]) -> Vec<Paths> {
    let (pod, around) = (case.pod, case.around);
    if around.exit_images.derived().is_none() || !around.may_swap(pod) {
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
    let note = format!(
        "the provider of node {} has failed on the changed image (see status.message of the pod); no other pod of this node is swapped for now; changed: {}",
        pod.node,
        listed(memory.swaps.iter().map(SwapRecord::words))
    );
    Report::new(Reason::SwapRejected, note)
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
/// `later`: the methods that come after. They, and later steps, wait for each sidecar that may still
/// end by its swap, unless the node restarts an exit image meanwhile.
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
    let is_urgent = given_up.iter().any(|swapped| swapped.restarts && finishes);
    if !given_up.is_empty() && (hoped.is_empty() || is_urgent) {
        return Step::next(
            given_up
                .into_iter()
                .map(|swapped| swapped.trouble)
                .collect(),
            again,
        );
    }
    let mut reports: Vec<_> = hoped
        .into_iter()
        .chain(given_up)
        .filter(|swapped| swapped.reported)
        .map(|swapped| swapped.trouble)
        .collect();
    if reports.is_empty() {
        reports.extend(slow(unended, memory, now));
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
    let tried = record.acted_at(record.trouble_since, patience) + TROUBLE_PASSES;
    let (reason, reported, until, what) = match evidence::progress(sidecar, record.before.as_ref())
    {
        Progress::NotPulled(why, message) => {
            let what = format!(
                "the node cannot pull {}, and keeps trying: push it, or let the node pull it ({why}: {message})",
                sidecar.image
            );
            (Reason::ExitImageNotPulled, true, tried, what)
        }
        Progress::NotStarted(why, message) => {
            let what = format!(
                "the node cannot start {}, and keeps trying: swaplet check says what is missing ({why}: {message})",
                sidecar.image
            );
            (Reason::ExitImageNotStarted, true, tried, what)
        }
        Progress::Runs => {
            let what = format!(
                "{} was started and does not end: its command comes from a volume, or the image is not an exit image",
                sidecar.image
            );
            let until = record.acted_at(record.runs_since, patience) + EXIT_IMAGE_RUNS;
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
    let restarts = reason == Reason::ExitImageNotStarted && returns_after_failure(pod, sidecar);
    let note = format!("container {}: {what}", record.words());
    Swapped {
        trouble: Report::new(reason, note),
        reported,
        restarts,
        until,
    }
}

/// Returns the report about exit images that have failed so often in this pod that none is run
/// again; `None` if there are none.
pub(crate) fn fails_again(case: Case<'_>) -> Option<Report> {
    let times = failures(case);
    if times < FAILURES {
        return None;
    }
    let words = listed(failing(case).map(SwapRecord::words));
    let note = format!(
        "the exit image of {words} has not started, or not ended with 0, {times} times: swaplet check says what is missing"
    );
    Some(Report::new(Reason::ExitImageNotStarted, note))
}

/// Returns true if exit images have failed once more since none was to be run again.
pub(crate) fn has_failed_once_more(case: Case<'_>) -> bool {
    failures(case) > FAILURES
}

fn failures(case: Case<'_>) -> u32 {
    let times = failing(case).map(|record| record.failures);
    times.fold(0, u32::saturating_add)
}

/// Returns the swaps whose exit image has failed, and is started again.
fn failing(case: Case<'_>) -> impl Iterator<Item = &SwapRecord> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let failing = roles::sidecars(pod).filter(move |sidecar| {
        returns_after_failure(pod, sidecar) && memory.shows_exit_image(sidecar, around.exit_images)
    });
    failing
        .filter_map(|sidecar| memory.swap_of(&sidecar.name))
        .filter(|record| record.failures > 0)
}

/// Returns true if the node starts an exit image again that has not started (`StartError`).
fn returns_after_failure(pod: &Pod, sidecar: &Container) -> bool {
    sidecar.comes_back_after(pod, Some(128)) == Some(true)
}

/// Returns true if a swap of this container was made and may still take effect.
pub(crate) fn is_hoped_for(case: Case<'_>, sidecar: &Container) -> bool {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let record = memory
        .swap_of(&sidecar.name)
        .filter(|_| memory.shows_exit_image(sidecar, around.exit_images));
    record.is_some_and(|record| around.now < watch(pod, sidecar, record).until)
}

// The time that the effect of a swap may take.

/// How long a node may take to react to a swap, besides the grace periods of the containers it
/// stops one after another.
const SWAP_VISIBLE: Duration = Duration::from_secs(60);
/// The grace period if the pod sets none (the API server's default).
const DEFAULT_GRACE_SECONDS: u32 = 30;

/// Returns how long a node may show no effect of a swap.
pub fn patience(pod: &Pod) -> Duration {
    graces(pod).saturating_add(SWAP_VISIBLE)
}

/// Returns how long one container may take to stop.
pub fn grace(pod: &Pod) -> Duration {
    Duration::from_secs(pod.grace_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).into())
}

/// Returns how long the sidecars may take to stop: a kubelet, like OpenKruise's daemon, stops
/// swapped containers one by one, each with its grace period (`docs/measured.md`, row 26).
pub(crate) fn graces(pod: &Pod) -> Duration {
    let count = u32::try_from(roles::sidecars(pod).count()).unwrap_or(u32::MAX);
    grace(pod).saturating_mul(count)
}

/// Returns the minimal age of a swap when this reason is reported; `None` if the reason is not
/// about a swap.
pub fn age_when_told(pod: &Pod, reason: Reason) -> Option<Duration> {
    match reason {
        Reason::SwapPending => Some(SLOW),
        Reason::SwapWithoutEffect => Some(patience(pod)),
        // It counts from the start of the exit image, which comes after the swap.
        Reason::ExitImageRuns => Some(EXIT_IMAGE_RUNS),
        Reason::SidecarSwapped
        | Reason::ExitImageNotPulled
        | Reason::ExitImageNotStarted
        | Reason::SwapRejected
        | Reason::SidecarEnded
        | Reason::PodFailedAfterSwap
        | Reason::PodFailedAfterFinish => Some(Duration::ZERO),
        _ => None,
    }
}

// The decision about a pod whose Job lacks room for the restarts of its swaps.

/// How long a Job may stay unobserved until that is reported: a list of a large cluster, or a new
/// Job whose pod ends at once.
const JOB_APPEARS: Duration = Duration::from_secs(30);
/// How long a pod waits for others of its Job, besides the time that one of them may take to end:
/// these do not end (their node is dead, or somebody keeps them), or others are served again and
/// again.
const WAITS: Duration = Duration::from_secs(120);
/// How long a pod waits for pods that are being deleted, besides their grace period.
const DELETED: Duration = Duration::from_secs(30);
/// The most that a pod's own grace periods add to these waits.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

/// Decides what to do if this many restarts do not fit into what the pod's Job allows; `None` if
/// they do. A wait has an end: then the next method is tried, and room that comes is still taken.
pub(crate) fn no_room(case: Case<'_>, restarts: u32) -> Option<Step> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let next = |report| Step::next(vec![report], None);
    let done_at = memory.mains_done_at.unwrap_or(around.now);
    let wait = |patience: Duration| {
        let until = done_at + patience;
        let wait = Decision {
            swaps_wanted: restarts,
            ..Decision::later(Reason::HeadroomWait, until)
        };
        (around.now < until).then_some(Step::Here(wait))
    };
    match headroom(case, restarts) {
        Headroom::Free | Headroom::Fits => None,
        Headroom::Wait(shortage) => {
            let patience = if shortage.under_way > 0 {
                patience(pod).min(LONGEST) + WAITS
            } else {
                graces(pod).min(LONGEST) + DELETED
            };
            wait(patience).or_else(|| Some(next(waited(case, &shortage, patience))))
        }
        Headroom::TooEarly => {
            let wait = wait(patience(pod).min(LONGEST) + WAITS);
            wait.or_else(|| Some(next(too_early())))
        }
        Headroom::NeverFits(shortage) => Some(next(no_headroom(case, &shortage))),
        unborne @ Headroom::Unborne { .. } => {
            let note = unborne.to_string();
            Some(next(Report::new(Reason::NoHeadroom, note)))
        }
        Headroom::JobUnknown { trouble } => Some(job_unknown(case, trouble.as_deref())),
    }
}

/// Returns the answer of the ledger to a pod whose swaps may cause this many restarts. Where the
/// phase ends it too, the last restart is left to main containers of the Job that run, and no more
/// pods are swapped under `Never` than the Job bears to fail: a kubelet that cannot pull the exit
/// image just then has stopped the sidecar, and shows no more than that.
pub(crate) fn headroom(case: Case<'_>, restarts: u32) -> Headroom {
    let ledger = case.around.headroom;
    if !finish::may_end(case) {
        return ledger.answer(case.pod, restarts);
    }
    let may_be_kubelet = case.around.may_be_kubelet();
    let unborne = ledger.unborne(case.pod).filter(|_| may_be_kubelet);
    unborne.unwrap_or_else(|| ledger.answer_sparing(case.pod, restarts))
}

/// Reports that the swaps never fit, in words that hold for all pods of the Job.
fn no_headroom(case: Case<'_>, shortage: &Shortage) -> Report {
    let mut note = format!(
        "the main containers of a pod are done, but swapping its sidecars {} fail the Job: {shortage}",
        shortage.may(),
    );
    // Where the phase ends the pod nothing is to be done.
    if !finish::may_end(case) {
        let raise = raise(shortage, case.around.allowed);
        note.push_str(&format!(". {raise}, or end the sidecars yourself"));
    }
    Report::new(Reason::NoHeadroom, note)
}

/// Reports that no room has come for this pod.
fn waited(case: Case<'_>, shortage: &Shortage, patience: Duration) -> Report {
    let mut note = format!(
        "the main containers of a pod are done, but swapping its sidecars would fail the Job: {shortage}. It has waited {} s for the pods with these restarts to end: \
         check them (is a node dead?)",
        patience.as_secs(),
    );
    if !finish::may_end(case) {
        let raise = raise(shortage, case.around.allowed);
        note.push_str(&format!(", delete them with force, or: {raise}"));
    }
    Report::new(Reason::NoHeadroom, note)
}

fn raise(shortage: &Shortage, allowed: &AllowedMethods) -> String {
    let finish = if allowed.finish {
        ""
    } else {
        ", start the controller without --finish=never"
    };
    format!(
        "Raise spec.backoffLimit to at least {}{finish}",
        shortage.limit_needed()
    )
}

fn too_early() -> Report {
    let note =
        "the main containers of a pod are done, but it is not known what the Job allows, because pods or Jobs are still being listed: \
                /readyz of the controller says what prevents it"
            .to_owned();
    Report::new(Reason::JobUnknown, note)
}

/// Waits for the Job to appear, then reports what is missing: no swap is made on a guess.
fn job_unknown(case: Case<'_>, trouble: Option<&str>) -> Step {
    let now = case.around.now;
    let until = case.memory.mains_done_at.unwrap_or(now) + JOB_APPEARS;
    if now < until {
        return Step::Here(Decision::later(Reason::JobUnknown, until));
    }
    let fix = trouble.map_or_else(
        || {
            // Where the phase ends the pod nothing is to be done.
            let fix = match finish::may_end(case) {
                true => "",
                false => ": delete these too, or end their sidecars yourself",
            };
            format!("was deleted without its pods{fix}")
        },
        |trouble| {
            let fix = if trouble.contains("forbidden") {
                "allow the controller to list and watch jobs of the group batch"
            } else {
                "it is tried again, and /readyz of the controller says whether that lasts"
            };
            format!("cannot be read ({trouble}): {fix}")
        },
    );
    let note = format!(
        "the main containers of a pod are done, but it is not known what the Job allows, because it {fix}"
    );
    Step::next(vec![Report::new(Reason::JobUnknown, note)], None)
}

// The text about swaps: for the Event about the end of the pod, and for the one about an end that
// does not come.

/// The time after which a swap without observed effect is reported, if the effect may still come.
/// Mostly the Event about the end reports the swap within seconds, and else a Warning by then.
const SLOW: Duration = Duration::from_secs(90);

/// Describes what was changed in the pod, and why; empty if no image was.
pub(crate) fn changes(case: Case<'_>) -> String {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let swapped: Vec<_> = roles::sidecars(pod)
        .filter_map(|sidecar| Some((sidecar, memory.swap_of(&sidecar.name)?)))
        .collect();
    if swapped.is_empty() {
        return String::new();
    }
    let words = listed(swapped.iter().map(|(_, record)| record.words()));
    let mut changes = format!("; ended because main containers were done: {words}");
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
    let swaps = unended
        .iter()
        .filter_map(|(_, sidecar)| memory.swap_of(&sidecar.name));
    let slow = swaps.filter(|record| now >= record.at + SLOW);
    let slow = listed(slow.map(SwapRecord::words));
    (!slow.is_empty()).then(|| Report {
        reason: Reason::SwapPending,
        note: format!(
            "main containers are done; ending {slow}; the node has not reported the end yet, which includes a grace period"
        ),
    })
}

// The restarts that swaps may cause. An exit image that ends a sidecar causes one. One that does
// not start is started again and again under `OnFailure`, until the phase of the pod is written,
// and each start counts for the Job. On a kubelet no such image is tried knowingly; a virtual node
// has no better method, so some more are reserved there.

/// The restarts of an exit image that may not start: on a virtual node the phase is written when the
/// first failure is shown, and two more starts may have begun by then where the node waits for a
/// second only.
const MAY_NOT_START: u32 = 3;

/// Returns the restarts that one swap may cause. Where the phase may not be written nothing ends
/// those of an image that does not start, so reserving some would not save the Job. Where writes of
/// it only fail, the next one may pass.
fn restarts_of(pod: &Pod, memory: &Memory, allowed: &AllowedMethods, is_certain: bool) -> u32 {
    let may_finish = allows_finish(pod, allowed) && memory.denied.may_pass(Method::Finish);
    if is_certain || !Ledger::counts(pod) || !may_finish {
        1
    } else {
        MAY_NOT_START
    }
}

/// Returns true if the sidecar shows the exit image that it would get, and that is certain to start.
fn is_certain(
    pod: &Pod,
    sidecar: &Container,
    record: &SwapRecord,
    exit_images: &ExitImages,
) -> bool {
    match preflight(pod, sidecar, exit_images) {
        Preflight::Image {
            image, doubt: None, ..
        } => is_image(sidecar, record, image),
        _ => false,
    }
}

/// Returns true if the container was swapped to this image. What this run has written was this
/// image, however the API server has stored it.
fn is_image(sidecar: &Container, record: &SwapRecord, image: &str) -> bool {
    record.before.is_some() || exit_image_shown(&sidecar.image, image) == Some(true)
}

impl headroom::Swapped {
    /// Counts the swapped containers in the pod, which the memory must have observed, and the
    /// restarts that are to be expected of them. `is_new`: [`Memory::was_found_done`].
    pub fn of(
        pod: &Pod,
        memory: &Memory,
        exit_images: &ExitImages,
        allowed: &AllowedMethods,
        is_new: bool,
    ) -> Self {
        let mut swapped = Self::default();
        for sidecar in roles::sidecars(pod) {
            if memory.shows_exit_image(sidecar, exit_images) {
                let more = restarts_coming(pod, sidecar, memory, exit_images, allowed);
                swapped.containers += 1;
                swapped.coming = swapped.coming.saturating_add(more);
            } else if sidecar.end().is_none() {
                swapped.left += 1;
                // An earlier run may have written it, under a name that only that run knew.
                swapped.coming += u32::from(is_new && is_being_changed(sidecar));
            }
        }
        swapped
    }
}

/// Returns true if the node still runs an image of another repository than the spec has. Another tag
/// may be a name of the same bytes.
fn is_being_changed(sidecar: &Container) -> bool {
    sidecar.status.as_ref().is_some_and(|status| {
        exit_image_shown(&status.image, &sidecar.image) == Some(false)
            && !same_repository(&status.image, &sidecar.image)
    })
}

/// Returns how many restarts the exit image of a swapped sidecar may still cause.
fn restarts_coming(
    pod: &Pod,
    sidecar: &Container,
    memory: &Memory,
    exit_images: &ExitImages,
    allowed: &AllowedMethods,
) -> u32 {
    let record = memory.swap_of(&sidecar.name);
    let before = record.and_then(|record| record.before.as_ref());
    let is_started = runs_exit_image(sidecar, before);
    if is_started && sidecar.end().is_some_and(|end| end.exit_code == Some(0)) {
        return 0;
    }
    let is_certain = record.is_some_and(|record| is_certain(pod, sidecar, record, exit_images));
    let all = restarts_of(pod, memory, allowed, is_certain);
    let seen = before.map_or(0, |before| before.restarts_until(&Footprint::of(sidecar)));
    let coming = all.saturating_sub(if is_started { seen.max(1) } else { 0 });
    // Where it has failed so often that the phase is written at once, no start is waited for.
    let is_given_up = seen >= FAILURES && may_finish(pod, memory, allowed);
    let again = is_started && !is_given_up && starts_again(pod, sidecar);
    coming.max(u32::from(again))
}

/// Returns true if an exit image that has been started is down, and its node will start it again.
fn starts_again(pod: &Pod, sidecar: &Container) -> bool {
    match sidecar.end() {
        Some(end) => end.has_failed() && sidecar.comes_back_after(pod, end.exit_code) == Some(true),
        None => sidecar
            .status
            .as_ref()
            .is_some_and(|status| matches!(status.state, ContainerState::Waiting { .. })),
    }
}

/// Returns true if the exit image has been started. A run of the process that did not make the swap
/// does not know the status before it: then only the image in the status shows it, which some
/// providers copy from the spec.
fn runs_exit_image(sidecar: &Container, before: Option<&Footprint>) -> bool {
    let Some(status) = &sidecar.status else {
        return false;
    };
    let shown = shows_written(status, &sidecar.image, before);
    before.map_or(shown == Some(true), |before| {
        shown != Some(false) && before.shows_new_container(&Footprint::of(sidecar))
    })
}
