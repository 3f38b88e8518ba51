//! The containers of a request together: which may begin, what is written next, and when the
//! request is completed.

use super::container::{Step, Target};
use super::decision::{Action, Decision, Status};
use super::{Case, late, readiness};
use crate::objects::moment::Moment;
use crate::objects::recreate_request::RequestPhase;
use crate::report::decision::{Report, Swap};
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{
    Journal, Mark, Parking, RecreateState, RestartRequest, StatePhase, Wanted,
};

/// The next steps of all containers.
#[derive(Default)]
struct Plan {
    states: Vec<RecreateState>,
    marks: Vec<(Box<str>, Mark)>,
    swaps: Vec<Swap>,
    again: Option<Moment>,
    /// The number of restarts that begin now, or are about to.
    begun: u32,
    /// Set once no further container may begin.
    stop: bool,
    waits: bool,
    /// The containers that wait for a condition that may never come true.
    waiting: Vec<Box<str>>,
}

/// Continues an accepted request that is first in the queue of its pod.
pub(crate) fn advance(case: Case<'_>, journal: &Journal) -> Decision {
    let request = case.request;
    if request.phase != RequestPhase::Recreating {
        return report(
            case,
            RequestPhase::Recreating,
            request.wanted_states().collect(),
        );
    }
    let mut plan = Plan::of(case);
    let waiting = Some(std::mem::take(&mut plan.waiting));
    Decision {
        waiting,
        ..carry_out(plan, case, journal)
    }
}

fn carry_out(plan: Plan, case: Case<'_>, journal: &Journal) -> Decision {
    let (request, pod) = (case.request, case.pod);
    let before = (!plan.marks.is_empty()).then(|| readiness::before_restart(case));
    if let Some(before) = before.flatten().or_else(|| held_back(case, &plan.marks)) {
        return before;
    }
    if !plan.marks.is_empty() {
        return Decision::write_down(journal, plan.marks);
    }
    if !plan.swaps.is_empty() {
        return Decision::swap(request, pod, plan.swaps);
    }
    if plan.states.iter().all(|state| state.phase.is_final()) {
        return report(case, RequestPhase::Completed, plan.states);
    }
    // An older CRD may not store `isKilled`.
    let is_told = |state: &RecreateState| {
        let told = request.state(&state.name);
        (told.phase, &told.message) == (state.phase, &state.message)
    };
    if !plan.states.iter().all(is_told) {
        return report(case, RequestPhase::Recreating, plan.states);
    }
    let reason = if plan.waits {
        Reason::RequestWaits
    } else {
        Reason::RestartPending
    };
    Decision {
        again: plan.again,
        ..Decision::quiet(reason)
    }
}

/// Adds the finalizer before the first alias is recorded that may have to be pulled, or once one is
/// seen by the name that a webhook has given it; else `None`.
fn held_back(case: Case<'_>, marks: &[(Box<str>, Mark)]) -> Option<Decision> {
    let asks = |(name, mark): &(Box<str>, Mark)| {
        let found = mark.intent.as_ref().zip(case.pod.find(name));
        found.is_some_and(|(intent, (_, container, details))| {
            intent.parking.is_none()
                && intent.back.is_none()
                && late::may_ask_registry(case, (container, details), intent)
        })
    };
    let is_renamed = |wanted: &Wanted| {
        let step = late::under_way(case, &wanted.name);
        matches!(step, Some(Step::Begin(_) | Step::Works(_)))
    };
    let mut wanted = case.request.containers.iter();
    (!case.request.is_held_back() && (marks.iter().any(asks) || wanted.any(is_renamed)))
        .then(|| Decision::act(Reason::RestartPending, readiness::hold(case.request)))
}

/// Writes a status, and reports of the pod each container that becomes final with it.
fn report(case: Case<'_>, phase: RequestPhase, states: Vec<RecreateState>) -> Decision {
    let (request, pod) = (case.request, case.pod);
    let news = states
        .iter()
        .filter(|state| state.phase.is_final() && request.state(&state.name).phase != state.phase);
    let done = news.map(|state| reported(request, state)).collect();
    let status = Status {
        phase,
        message: remark(request, pod),
        states,
    };
    Decision {
        done,
        ..Decision::act(Reason::RestartPending, Action::Report(status))
    }
}

fn reported(request: &RestartRequest, state: &RecreateState) -> Report {
    let RecreateState {
        name,
        phase,
        message,
        ..
    } = state;
    let words = if message.is_empty() {
        "restarted, and ready"
    } else {
        &**message
    };
    let reason = if *phase == StatePhase::Succeeded {
        Reason::ContainerRestarted
    } else {
        Reason::RestartFailed
    };
    Report::new(
        reason,
        format!(
            "{name} (ContainerRecreateRequest {}): {words}",
            request.name
        ),
    )
}

/// Returns the options of the request that cannot be honoured without a daemon; empty if none.
fn remark(request: &RestartRequest, pod: &RestartPod) -> Box<str> {
    let grace = match (request.strategy.grace_seconds, pod.pod.grace_seconds) {
        (Some(wanted), Some(own)) if wanted != own => Some(format!(
            "strategy.terminationGracePeriodSeconds {wanted} is not used without a daemon: the node stops containers with the pod's {own} s"
        )),
        _ => None,
    };
    grace
        .into_iter()
        .chain(readiness::remark(request, pod))
        .collect::<Vec<_>>()
        .join("; ")
        .into()
}

/// Returns the state of a container after this step.
fn state_after(before: RecreateState, step: &Step, touched: bool) -> RecreateState {
    let killed = before.killed || touched;
    match step {
        Step::Final(phase, message) => RecreateState {
            phase: *phase,
            message: message.as_str().into(),
            killed,
            name: before.name,
        },
        Step::Works(_) => RecreateState {
            phase: StatePhase::Recreating,
            killed,
            ..before
        },
        Step::Begin(_) | Step::Swap(_) | Step::Waits | Step::WaitsFor(_) => before,
    }
}

/// Returns true if a container has, or has had, another image for the request.
fn is_touched(case: Case<'_>, name: &str) -> bool {
    let intent = case
        .request
        .mark(name)
        .and_then(|mark| mark.intent.as_ref());
    let found = intent.zip(case.pod.find(name));
    found.is_some_and(|(intent, (_, container, _))| {
        intent.parking == Some(Parking::Back) || container.image != intent.from
    })
}

/// Returns how many restarts a container begins with this mark: one that is parked is started
/// twice.
fn restarts(mark: &Mark) -> u32 {
    let parking = mark.intent.as_ref().and_then(|intent| intent.parking);
    if parking == Some(Parking::Out) { 2 } else { 1 }
}

impl Plan {
    fn of(case: Case<'_>) -> Self {
        let mut plan = Self::default();
        for wanted in &case.request.containers {
            plan.take(case, &wanted.name);
        }
        plan.fail_the_rest(case.request);
        plan
    }

    fn take(&mut self, case: Case<'_>, name: &str) {
        let strategy = &case.request.strategy;
        let before = case.request.state(name);
        let step = match Target::of(case, name) {
            _ if before.phase.is_final() => Step::Final(before.phase, before.message.to_string()),
            Some(target) => {
                let turn = (!self.stop).then_some(self.begun + 1);
                target.in_patience(target.step(turn))
            }
            None => Step::failed("the pod no longer reports it, or its record is gone"),
        };
        self.stop |= strategy.ordered && !matches!(step, Step::Final(..));
        self.stop |=
            !strategy.ignores_failures && matches!(step, Step::Final(StatePhase::Failed, _));
        self.add(case, before, step);
    }

    fn add(&mut self, case: Case<'_>, before: RecreateState, step: Step) {
        let name = before.name.clone();
        let touched = is_touched(case, &name);
        self.states.push(state_after(before, &step, touched));
        match step {
            Step::Begin(mark) => {
                self.begun += restarts(&mark);
                self.marks.push((name, mark));
            }
            Step::Swap(swap) => {
                self.begun += case.request.mark(&name).map_or(1, restarts);
                self.swaps.push(swap);
            }
            Step::Waits => self.waits = true,
            Step::WaitsFor(wait) => {
                self.waits = true;
                self.again = self
                    .again
                    .into_iter()
                    .chain([wait.again(case.around.now)])
                    .min();
                self.waiting.push(name);
            }
            Step::Works(again) => self.again = self.again.into_iter().chain(again).min(),
            Step::Final(..) => {}
        }
    }

    /// Fails the containers that have not begun, once one has failed under `failurePolicy: Fail`.
    /// Those that have begun continue to their end.
    fn fail_the_rest(&mut self, request: &RestartRequest) {
        if request.strategy.ignores_failures {
            return;
        }
        let mut failed = self
            .states
            .iter()
            .filter(|state| state.phase == StatePhase::Failed);
        let Some(failed) = failed.next().map(|state| state.name.clone()) else {
            return;
        };
        let is_untouched = |state: &RecreateState| {
            let mark = request.mark(&state.name);
            mark.is_none_or(|mark| mark.intent.is_none())
        };
        for state in &mut self.states {
            if !state.phase.is_final() && is_untouched(state) {
                state.phase = StatePhase::Failed;
                state.message =
                    format!("not restarted: {failed} was not restarted, and failurePolicy is Fail")
                        .into();
            }
        }
        let goes_on = |name: &str| {
            let mut states = self.states.iter();
            states.any(|state| *state.name == *name && !state.phase.is_final())
        };
        self.marks.retain(|(name, _)| goes_on(name));
    }
}
