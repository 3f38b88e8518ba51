//! All containers of a request together: which may be begun, what is written next, and when the
//! request is completed.

use std::time::Duration;

use super::container::{Step, Target};
use super::{Action, Around, Decision, Memory, Status, late, parking, readiness};
use crate::objects::recreate_request::RequestPhase;
use crate::report::decision::{Report, Swap};
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{
    Intent, Journal, Mark, Parking, RecreateState, RestartRequest, StatePhase,
};

/// What is to be done about all containers.
#[derive(Default)]
struct Plan {
    states: Vec<RecreateState>,
    marks: Vec<(Box<str>, Mark)>,
    swaps: Vec<Swap>,
    again: Option<Duration>,
    /// So many are begun, or about to be.
    begun: u32,
    /// No further one may be begun.
    stop: bool,
    waits: bool,
    /// Those that wait for what may never come.
    waiting: Vec<Box<str>>,
}

/// Goes on with a request that was taken up, and before which there is no other.
pub(crate) fn go_on(
    request: &RestartRequest,
    journal: &Journal,
    pod: &RestartPod,
    memory: &Memory,
    around: &Around<'_>,
) -> Decision {
    if request.phase != RequestPhase::Recreating {
        let states = request
            .containers
            .iter()
            .map(|wanted| request.state(&wanted.name))
            .collect();
        return report(request, pod, RequestPhase::Recreating, states);
    }
    let mut plan = Plan::of(request, pod, memory, around);
    let waiting = Some(std::mem::take(&mut plan.waiting));
    Decision {
        waiting,
        ..carry_out(plan, request, journal, pod, memory, around)
    }
}

fn carry_out(
    plan: Plan,
    request: &RestartRequest,
    journal: &Journal,
    pod: &RestartPod,
    memory: &Memory,
    around: &Around<'_>,
) -> Decision {
    if !plan.marks.is_empty() {
        let before = readiness::before_restart(request, pod, memory, around)
            .or_else(|| late::before_restart(request, pod, &plan.marks));
        if let Some(before) = before {
            return before;
        }
        let mut journal = journal.clone();
        journal.0.extend(plan.marks);
        return Decision::act(Reason::RestartPending, Action::WriteDown(journal));
    }
    if !plan.swaps.is_empty() {
        return swap(request, pod, plan.swaps);
    }
    if plan.states.iter().all(|state| state.phase.is_final()) {
        return report(request, pod, RequestPhase::Completed, plan.states);
    }
    if plan.states != known_states(request) {
        return report(request, pod, RequestPhase::Recreating, plan.states);
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

fn known_states(request: &RestartRequest) -> Vec<RecreateState> {
    request
        .containers
        .iter()
        .map(|wanted| request.state(&wanted.name))
        .collect()
}

pub(crate) fn swap(request: &RestartRequest, pod: &RestartPod, swaps: Vec<Swap>) -> Decision {
    let changes: Vec<_> = swaps
        .iter()
        .map(|swap| format!("{} ({} -> {})", swap.container, swap.from, swap.to))
        .collect();
    let intent = |swap: &Swap| request.mark(&swap.container)?.intent.as_ref();
    let is_back = |swap: &Swap| {
        intent(swap)
            .is_some_and(|intent| intent.back.is_some() || intent.parking == Some(Parking::Back))
    };
    let is_parked = |swap: &Swap| intent(swap).is_some_and(|intent| intent.parking.is_some());
    let deed = match (swaps.iter().all(is_back), swaps.iter().any(is_parked)) {
        (true, _) => "putting the image before back",
        (false, true) => "restarting by the park image",
        (false, false) => "restarting by another spelling of the image",
    };
    let note = format!(
        "{deed}, for ContainerRecreateRequest {}: {}",
        request.name,
        changes.join(", ")
    );
    let done = vec![Report {
        reason: Reason::ContainerRestarting,
        note,
    }];
    Decision {
        done,
        ..Decision::act(
            Reason::ContainerRestarting,
            Action::Swap(parking::change(request, pod, swaps)),
        )
    }
}

/// A status; what becomes final with it is told of the pod.
fn report(
    request: &RestartRequest,
    pod: &RestartPod,
    phase: RequestPhase,
    states: Vec<RecreateState>,
) -> Decision {
    let news = states
        .iter()
        .filter(|state| state.phase.is_final() && request.state(&state.name).phase != state.phase);
    let done = news.map(|state| told(request, state)).collect();
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

fn told(request: &RestartRequest, state: &RecreateState) -> Report {
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
    Report {
        reason,
        note: format!(
            "{name} (ContainerRecreateRequest {}): {words}",
            request.name
        ),
    }
}

/// What the request asks for and does not get without a daemon.
fn remark(request: &RestartRequest, pod: &RestartPod) -> Box<str> {
    let grace = match (request.strategy.grace_seconds, pod.pod.grace_seconds) {
        (Some(wanted), Some(own)) if wanted != own => Some(format!(
            "strategy.terminationGracePeriodSeconds {wanted} is not honoured without a daemon: the node stops containers with the pod's {own} s"
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

impl Plan {
    fn of(
        request: &RestartRequest,
        pod: &RestartPod,
        memory: &Memory,
        around: &Around<'_>,
    ) -> Self {
        let mut plan = Self::default();
        for wanted in &request.containers {
            plan.take(request, pod, memory, around, &wanted.name);
        }
        plan.fail_the_rest(request);
        plan
    }

    fn take(
        &mut self,
        request: &RestartRequest,
        pod: &RestartPod,
        memory: &Memory,
        around: &Around<'_>,
        name: &str,
    ) {
        let before = request.state(name);
        let intent = request.mark(name).and_then(|mark| mark.intent.as_ref());
        let is_touched = |intent: &Intent, image: &str| {
            intent.parking == Some(Parking::Back) || *image != *intent.from
        };
        let touched = intent
            .zip(pod.find(name))
            .is_some_and(|(intent, (_, container, _))| is_touched(intent, &container.image));
        let step = match (before.phase.is_final(), pod.find(name), request.mark(name)) {
            (true, ..) => Step::Final(before.phase, before.message.to_string()),
            (false, Some((index, container, details)), Some(mark))
                if container.status.is_some() =>
            {
                let Some(status) = &container.status else {
                    return;
                };
                let turn = (!self.stop).then_some(self.begun + 1);
                let target = Target {
                    request,
                    pod,
                    memory,
                    around,
                    index,
                    container,
                    details,
                    mark,
                    status,
                };
                target.in_patience(target.step(turn))
            }
            _ => Step::Final(
                StatePhase::Failed,
                "the pod does not show it any more, or what was written down about it is gone"
                    .to_owned(),
            ),
        };
        self.stop |= request.strategy.ordered && !matches!(step, Step::Final(..));
        self.stop |= !request.strategy.ignores_failures
            && matches!(step, Step::Final(StatePhase::Failed, _));
        self.add(before, step, touched, around.now);
    }

    fn add(&mut self, before: RecreateState, step: Step, touched: bool, now: Duration) {
        let name = before.name.clone();
        let killed = before.killed || touched;
        self.states.push(match &step {
            Step::Final(phase, message) => RecreateState {
                phase: *phase,
                message: message.as_str().into(),
                killed,
                name: name.clone(),
            },
            Step::Works(_) => RecreateState {
                phase: StatePhase::Recreating,
                killed,
                ..before
            },
            Step::Begin(_) | Step::Swap(_) | Step::Waits | Step::WaitsFor(_) => before,
        });
        match step {
            Step::Begin(mark) => {
                self.begun += 1;
                self.marks.push((name, mark));
            }
            Step::Swap(swap) => {
                self.begun += 1;
                self.swaps.push(swap);
            }
            Step::Waits => self.waits = true,
            Step::WaitsFor(wait) => {
                self.waits = true;
                self.again = self.again.into_iter().chain([wait.again(now)]).min();
                self.waiting.push(name);
            }
            Step::Works(again) => self.again = self.again.into_iter().chain(again).min(),
            Step::Final(..) => {}
        }
    }

    /// Once one has failed under `failurePolicy: Fail`, those that were not begun are not; those
    /// that were are seen to their end.
    fn fail_the_rest(&mut self, request: &RestartRequest) {
        let Some(failed) = self
            .states
            .iter()
            .find(|state| state.phase == StatePhase::Failed)
            .map(|state| state.name.clone())
        else {
            return;
        };
        if request.strategy.ignores_failures {
            return;
        }
        let untouched = |state: &RecreateState| {
            request
                .mark(&state.name)
                .is_none_or(|mark| mark.intent.is_none())
        };
        for state in self
            .states
            .iter_mut()
            .filter(|state| !state.phase.is_final() && untouched(state))
        {
            state.phase = StatePhase::Failed;
            state.message =
                format!("not restarted: {failed} could not be, and failurePolicy is Fail").into();
        }
        let states = &self.states;
        self.marks.retain(|(name, _)| {
            states
                .iter()
                .any(|state| state.name == *name && !state.phase.is_final())
        });
    }
}
