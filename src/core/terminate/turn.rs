//! The steps in which the sidecars of a pod are ended, and when each sidecar is due.
//!
//! A step has all sidecars up to an order that have not ended: it begins when those before it have
//! ended, or when no method ends them. One that has ended and that its node starts again (after an
//! error under `OnFailure`) has not ended for the steps after its own: they wait until the node
//! shows what became of it. A sidecar is due when its delay, and the time in which it may end by
//! itself, are over since the end of the main containers. This depends on the pod alone, so another
//! run of the process comes to the same time.
//!
//! The end of the main containers is the time that the node reports, limited to the interval
//! between when they were last observed running and first observed ended: clock skew can shift it
//! within these bounds only. A run of the process that has not observed them running has no lower
//! bound. It then uses the clock of the node, corrected by how far the pod shows it to be behind
//! that of the API server (`Pod::clock_behind`). Times of containers are whole seconds, and the end
//! was in that second.

use std::cmp::Reverse;
use std::time::Duration;

use jiff::SignedDuration;

use super::memory::Memory;
use super::methods::{AllowedMethods, finish};
use super::{Case, Circumstances};
use crate::cluster::owner;
use crate::objects::moment::Moment;
use crate::objects::pod::roles::{self, Unended, unended};
use crate::objects::pod::{Container, Pod, RuleMethod, Terminated};
use crate::report::decision::Method;

/// The most steps of a pod: each is decided for itself, at each event of the pod. Sidecars of the
/// orders beyond are ended with the last one.
const MOST_STEPS: usize = 32;
/// How long steps wait for an earlier sidecar that the node starts again, since its end was first
/// shown, whatever else changes in the pod. A kubelet shows the end for some seconds, and then that
/// the container runs or waits for its back-off, in which it is ended like any other. A node that
/// shows neither may never start it.
const STARTS_AGAIN: Duration = Duration::from_secs(30);

/// One step: sidecars that are ended together.
pub(crate) struct Turn<'a> {
    /// The sidecars that may be ended now.
    pub unended: Vec<Unended<'a>>,
    /// The methods that may end them, in this order.
    pub methods: Vec<Method>,
    /// When the next sidecar of the step is due; `None` if all of them are due now.
    pub waits: Option<Moment>,
    /// True if all unended sidecars of the pod are in it.
    pub is_last: bool,
}

impl Turn<'_> {
    /// Returns the methods after the `nth` one; if none is left, `Swap` stands for the next step.
    pub(crate) fn after(&self, nth: usize) -> &[Method] {
        let later = self.methods.get(nth + 1..).unwrap_or_default();
        if later.is_empty() && !self.is_last {
            &[Method::Swap]
        } else {
            later
        }
    }
}

/// Returns true if all sidecars that have not ended for good are due, and of one step.
pub(crate) fn are_all_due(case: Case<'_>) -> bool {
    let (pod, now) = (case.pod, case.around.now);
    let ended = mains_ended(case);
    let unended = unended(pod).into_iter().map(|(_, sidecar)| sidecar);
    let left: Vec<_> = unended.chain(roles::returning(pod)).collect();
    let is_due = |sidecar: &&Container| due_after(ended, sidecar).is_none_or(|at| at <= now);
    left.iter().all(is_due) && left.windows(2).all(|two| order(two[0]) == order(two[1]))
}

/// Returns the remaining steps in order: each counts only when no method of those before can act.
pub(crate) fn turns(case: Case<'_>) -> Vec<Turn<'_>> {
    let pod = case.pod;
    let all = unended(pod);
    let mut orders: Vec<_> = all.iter().map(|(_, sidecar)| order(sidecar)).collect();
    orders.sort_unstable();
    orders.dedup();
    if orders.len() > MOST_STEPS {
        orders.drain(MOST_STEPS - 1..orders.len() - 1);
    }
    let last = orders.last().copied();
    let held = held(case).filter(|(order, _)| last.is_some_and(|last| last > *order));
    if let Some((order, _)) = held {
        orders.retain(|step| *step <= order);
    }
    let ended = mains_ended(case);
    let turns = orders.into_iter().map(|step| {
        let of_step: Vec<_> = all
            .iter()
            .copied()
            .filter(|(_, sidecar)| order(sidecar) <= step)
            .collect();
        turn(case, of_step, ended, Some(step) == last)
    });
    let wait = held.map(|(_, until)| Turn {
        unended: Vec::new(),
        methods: Vec::new(),
        waits: Some(until),
        is_last: false,
    });
    turns.chain(wait).collect()
}

/// Returns the lowest order of the sidecars that the node starts again, and until when the steps
/// after it wait for that; `None` if no step waits.
fn held(case: Case<'_>) -> Option<(i32, Moment)> {
    let (pod, memory) = (case.pod, case.memory);
    memory.mains_done_at?;
    let waits = roles::returning(pod)
        .filter_map(|sidecar| Some((order(sidecar), returns_until(case, sidecar)?)));
    waits.min_by_key(|(order, until)| (*order, Reverse(*until)))
}

/// Returns until when it is awaited that the node starts a sidecar again whose end it shows; `None`
/// if nothing is awaited (any more).
pub(crate) fn returns_until(case: Case<'_>, sidecar: &Container) -> Option<Moment> {
    let record = case.memory.finish.as_deref()?;
    let until = record.returns_since(sidecar)? + STARTS_AGAIN;
    (until > case.around.now).then_some(until)
}

/// `ended` is when the main containers ended.
fn turn<'a>(
    case: Case<'a>,
    of_step: Vec<Unended<'a>>,
    ended: Option<SignedDuration>,
    is_last: bool,
) -> Turn<'a> {
    let (memory, around) = (case.memory, case.around);
    let is_due = |(_, sidecar): &Unended<'_>| {
        memory.shows_exit_image(sidecar, around.exit_images)
            || due_after(ended, sidecar).is_none_or(|at| at <= around.now)
    };
    let (due_now, later): (Vec<_>, Vec<_>) = of_step.into_iter().partition(is_due);
    let waits = later
        .iter()
        .filter_map(|(_, sidecar)| due_after(ended, sidecar))
        .min();
    let ends_all = is_last && later.is_empty();
    // What runs on keeps a kubelet from judging the pod by a code that is to be ignored. Sidecars of
    // later steps may end by themselves, so once one has failed none is ended before the phase.
    let is_kept_open = if is_last {
        !ends_all
            && may_finish(case.pod, memory, around.allowed)
            && is_judged_by_ignored(case.pod, around)
    } else {
        let has_failed = |end: &Terminated| end.exit_code != Some(0);
        let mut judging = judging(case.pod, around);
        finish::may_end(case) && judging.any(|sidecar| sidecar.end().is_some_and(has_failed))
    };
    let (unended, methods) = if is_kept_open {
        (due_now, Vec::new())
    } else {
        of_those(case, due_now, ends_all)
    };
    Turn {
        unended,
        methods,
        waits,
        is_last,
    }
}

/// Returns the sidecars that come first, and their methods. On kubelets those whose exit code is to
/// be ignored come last, by `finish` (OpenKruise: the normal ones first, then the override, on
/// ordinary nodes only), and on all nodes those whose rule asks for that. If the pod would be judged
/// by the exit code of one of them, `finish` ends all. `ends_all`: no other sidecar is left, so the
/// whole pod may be ended.
fn of_those<'a>(
    case: Case<'a>,
    all: Vec<Unended<'a>>,
    ends_all: bool,
) -> (Vec<Unended<'a>>, Vec<Method>) {
    let (pod, around) = (case.pod, case.around);
    let allowed = around.allowed.of_pod(pod);
    let comes_last = |(_, sidecar): &Unended<'_>| allowed.finish && is_finished(sidecar, around);
    let normal: Vec<_> = all
        .iter()
        .copied()
        .filter(|sidecar| !comes_last(sidecar))
        .collect();
    let only_swaps = |(_, sidecar): &Unended<'_>| method(sidecar) == RuleMethod::Swap;
    let finishes = ends_all && !all.iter().any(only_swaps);
    let is_judged = finishes && allowed.finish && is_judged_by_ignored(pod, around);
    if (normal.is_empty() || is_judged) && !all.is_empty() {
        let finish_first = AllowedMethods {
            prefer: Some(Method::Finish),
            ..allowed
        };
        // `finish` ends the whole pod, not some of its sidecars, and these have no other method.
        let methods = if ends_all {
            methods(case, &all, finishes, &finish_first)
        } else {
            Vec::new()
        };
        return (all, methods);
    }
    let methods = methods(case, &normal, finishes, &allowed);
    (normal, methods)
}

/// Returns true if a sidecar whose exit code is to be ignored has failed for good, whenever that
/// was, or would not be started again if it failed now: a kubelet judges the pod by it once the
/// last other container has ended, so nothing but the phase saves the pod.
fn is_judged_by_ignored(pod: &Pod, around: &Circumstances<'_>) -> bool {
    judging(pod, around).any(|sidecar| sidecar.end().is_none_or(|end| end.exit_code != Some(0)))
}

/// Returns the sidecars whose exit code is to be ignored and that may not be started again after an
/// error.
fn judging<'a>(pod: &'a Pod, around: &Circumstances<'_>) -> impl Iterator<Item = &'a Container> {
    roles::sidecars(pod)
        .filter(|sidecar| is_finished(sidecar, around) && sidecar.may_be_under_never(pod))
}

/// Returns the methods for these sidecars. A swap that was made is waited for even if its node gets
/// no other (any more). If not all sidecars are ended at once, `finish` is left out, because it
/// ends the pod, and nothing adds a restart that the pod's owner may count.
fn methods(
    case: Case<'_>,
    unended: &[Unended<'_>],
    finishes: bool,
    allowed: &AllowedMethods,
) -> Vec<Method> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let mut methods = allowed.methods(around.node, &pod.restart_policy, around.bears_swap(pod));
    if !finishes {
        let finish_is_first = methods.first() == Some(&Method::Finish) && owner::may_count(pod);
        methods.retain(|method| *method != Method::Finish && !finish_is_first);
    }
    if !methods.contains(&Method::Swap) && memory.awaits_swap(unended) {
        methods.insert(0, Method::Swap);
    }
    methods
}

/// Returns true if the phase of the pod may be written, at the latest when all its sidecars are due.
/// Where the API server keeps denying that, it ends no pod.
pub(crate) fn may_finish(pod: &Pod, memory: &Memory, allowed: &AllowedMethods) -> bool {
    let is_denied = memory.denied.of(Method::Finish).are_lasting();
    !is_denied && allows_finish(pod, allowed)
}

/// Returns true if the phase may be written where no write of it is denied.
pub(crate) fn allows_finish(pod: &Pod, allowed: &AllowedMethods) -> bool {
    let only_swaps = |sidecar: &Container| method(sidecar) == RuleMethod::Swap;
    allowed.finish && !roles::sidecars(pod).any(only_swaps)
}

/// Returns what to do where only the phase could end a pod, and `otherwise`, after a colon; empty
/// where the phase is written, so that nobody has to do anything.
pub(crate) fn allow_finish(case: Case<'_>, otherwise: &str) -> String {
    let only_swaps = |sidecar: &Container| method(sidecar) == RuleMethod::Swap;
    let allow = if !case.around.allowed.finish {
        "allow finish (start the controller without --finish=never)"
    } else if roles::sidecars(case.pod).any(only_swaps) {
        "let the phase be written (set the method of its rule to Auto)"
    } else if case.memory.denied.of(Method::Finish).are_lasting() {
        "let the phase be written (an Event says why it is not)"
    } else {
        return String::new();
    };
    format!(": {allow}{otherwise}")
}

/// Returns true if the phase is written for this sidecar, after all others have ended.
pub(crate) fn is_finished(sidecar: &Container, around: &Circumstances<'_>) -> bool {
    method(sidecar) == RuleMethod::Finish
        || (around.may_be_kubelet() && sidecar.mark.ignores_exit_code())
}

fn method(sidecar: &Container) -> RuleMethod {
    sidecar
        .rule
        .as_ref()
        .map_or(RuleMethod::Auto, |rule| rule.method)
}

pub(crate) fn order(sidecar: &Container) -> i32 {
    sidecar.rule.as_ref().map_or(0, |rule| rule.order)
}

/// Returns when a sidecar may be ended; `None`: at once.
pub(crate) fn due(case: Case<'_>, sidecar: &Container) -> Option<Moment> {
    due_after(mains_ended(case), sidecar)
}

fn due_after(ended: Option<SignedDuration>, sidecar: &Container) -> Option<Moment> {
    let after = sidecar.rule.as_ref()?.after();
    if after.is_zero() {
        return None;
    }
    let due = ended?.saturating_add(SignedDuration::try_from(after).ok()?);
    Some(Moment::after_start(
        Duration::try_from(due).unwrap_or_default(),
    ))
}

/// Returns when the main containers ended, relative to the start of the process (negative: before
/// it). Never before they ended, and not after they were observed ended; `None` while they run.
pub(crate) fn mains_ended(case: Case<'_>) -> Option<SignedDuration> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let signed =
        |at: Moment| SignedDuration::try_from(at.since_start()).unwrap_or(SignedDuration::MAX);
    let seen = signed(memory.mains_done_at?);
    let ran = memory.mains_ran_at.map(signed);
    let by_node = around.started_at.and_then(|started_at| {
        let reported =
            roles::mains(pod).all(|main| main.end().is_some_and(|end| end.finished_at.is_some()));
        let ended = roles::mains_ended_at(pod).filter(|_| reported)?;
        let late = SignedDuration::from_secs(1 + i64::from(pod.clock_behind));
        Some(ended.duration_since(started_at).saturating_add(late))
    });
    let ended = by_node.map_or(seen, |by_node| by_node.min(seen));
    Some(ran.map_or(ended, |ran| ended.max(ran)))
}
