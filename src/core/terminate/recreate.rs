//! The method `recreate`: OpenKruise's daemon is asked, by a `ContainerRecreateRequest`, and the
//! request is followed to its end.
//!
//! The daemon stops a container as the kubelet does, and nothing takes the container's place: so
//! its own exit code counts. One other than 0 fails the pod under `Never`, and under `OnFailure`
//! the kubelet starts the sidecar again for ever (`docs/measured.md`, "OpenKruise 1.9.0 on an
//! ordinary node"). There is one request per pod, whoever makes it: it is never tried twice.
//!
//! Its name is OpenKruise's own, so a request by OpenKruise, by an earlier life or by this one is
//! the same object. Its `statusContext` has the id of the container that was to be stopped, so no
//! memory is needed to see that another one runs.

mod consequences;
mod progress;

use self::consequences::{note, obstacle, past_exit};
use self::progress::{Progress, progress};
use std::time::Duration;

use super::circumstances::Circumstances;
use super::memory::Memory;
use super::methods::Step;
use super::{Unended, ending, one_per_reason, swap};
use crate::objects::pod::{Container, ContainerState, Phase, Pod, RestartPolicy, roles};
use crate::objects::recreate_request::{RecreateRequest, Recreated, RequestPhase};
use crate::report::decision::{Action, Decision, Report};
use crate::report::reason::Reason;

/// How long the daemon may take to answer. Alone it answers in a second; with its client's 5
/// requests per second and a full node it takes longer. OpenKruise's manager gives up after 60 s,
/// and the next method has to be reached within a minute.
const ANSWERS: Duration = Duration::from_secs(40);
/// What the daemon and the kubelet may take after an answer, besides the grace periods of the
/// containers, which are stopped one after another.
const STOPPED_VISIBLE: Duration = Duration::from_secs(60);

/// A request that was made, or tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When that came back for the first time.
    pub at: Duration,
    /// The words of the API server where the request was not created.
    pub error: Option<String>,
    /// Whether it does not take the request, however often it is tried.
    pub refused: bool,
}

impl Asked {
    fn is_worth_another_try(&self, now: Duration) -> bool {
        self.error.is_some() && !self.refused && now < self.at + ANSWERS
    }
}

impl Memory {
    /// Brings the memory up to date with the request for the pod. Call it before every decision.
    pub fn observe_request(&mut self, request: Option<&RecreateRequest>, now: Duration) {
        if request.is_some() {
            self.request_seen_at.get_or_insert(now);
        }
    }

    /// Records what became of a request of ours: `error` where it was not created.
    pub fn asked_for(&mut self, error: Option<String>, refused: bool, now: Duration) {
        let at = self.asked.as_ref().map_or(now, |asked| asked.at);
        self.asked = Some(Asked { at, error, refused });
    }

    /// Since when there is a request for the pod, or the wish for one.
    #[must_use]
    pub fn asked_at(&self) -> Option<Duration> {
        self.asked
            .as_ref()
            .map(|asked| asked.at)
            .or(self.request_seen_at)
    }

    /// Whether this process has written something for the pod.
    #[must_use]
    pub(crate) fn has_acted(&self) -> bool {
        let finished = self
            .finish
            .as_ref()
            .is_some_and(|record| record.written_at().is_some());
        finished || self.asked.is_some() || self.swaps.iter().any(|record| record.before.is_some())
    }
}

/// What is to be done for the sidecars that no swap is hoped for, or why a request does not lead
/// on.
pub(crate) fn step(
    pod: &Pod,
    unended: &[Unended<'_>],
    memory: &Memory,
    around: &Circumstances<'_>,
) -> Step {
    let sidecars = unended.iter().map(|(_, sidecar)| *sidecar);
    let targets: Vec<_> = sidecars
        .filter(|sidecar| !swap::is_hoped_for(pod, sidecar, memory, around))
        .collect();
    if targets.is_empty() {
        return Step::Next {
            reports: Vec::new(),
            again: None,
        };
    }
    match (around.openkruise.request, &memory.asked) {
        (Some(request), _) => follow(pod, &targets, request, memory, around),
        (None, Some(asked)) if !asked.is_worth_another_try(around.now) => {
            not_seen(asked, around.now)
        }
        (None, _) => ask(pod, &targets, memory, around),
    }
}

fn ask(pod: &Pod, targets: &[&Container], memory: &Memory, around: &Circumstances<'_>) -> Step {
    let obstacles: Vec<_> = targets
        .iter()
        .filter_map(|target| obstacle(pod, target, memory, around))
        .collect();
    if !obstacles.is_empty() {
        return Step::Next {
            reports: one_per_reason(obstacles),
            again: None,
        };
    }
    if let Some(step) = tried_elsewhere(pod, targets, memory, around) {
        return step;
    }
    let swaps_wanted = restarts_risked(pod, targets, memory, around);
    if let Some(step) =
        swap::no_room(pod, swaps_wanted, memory, around).filter(|_| swaps_wanted > 0)
    {
        return step;
    }
    let note = note(pod, targets, memory, around);
    let names = targets.iter().map(|target| target.name.clone()).collect();
    let requested = Decision::act(
        Action::Recreate(names),
        Report {
            reason: Reason::RecreateRequested,
            note,
        },
    );
    Step::Here(Decision {
        swaps_wanted,
        ..requested
    })
}

/// One pod at a time finds out how a sidecar ends, and the others wait for it; not longer than for
/// a daemon that does not answer.
fn tried_elsewhere(
    pod: &Pod,
    targets: &[&Container],
    memory: &Memory,
    around: &Circumstances<'_>,
) -> Option<Step> {
    let unknown = targets
        .iter()
        .filter(|target| past_exit(pod, target, memory, around).is_none());
    let until = unknown
        .filter_map(|target| {
            around
                .openkruise
                .past_exits
                .tried_until(pod, target, around.now)
        })
        .max()?;
    let patience = memory.mains_done_at.unwrap_or(around.now) + ANSWERS;
    if around.now < patience {
        return Some(Step::Here(Decision::later(
            Reason::ExitCodeProbed,
            patience.min(until),
        )));
    }
    let note = "OpenKruise's daemon was asked to end the same sidecar of another pod, and has not: does it run on the node?".to_owned();
    Some(Step::Next {
        reports: vec![Report {
            reason: Reason::RecreateUnanswered,
            note,
        }],
        again: Some(until),
    })
}

/// How many containers may come back, and count as restarts of the Job like those of swaps.
fn restarts_risked(
    pod: &Pod,
    targets: &[&Container],
    memory: &Memory,
    around: &Circumstances<'_>,
) -> u32 {
    let comes_back = |target: &&&Container| {
        *target.effective_policy(pod) != RestartPolicy::Never || target.has_restart_rules()
    };
    let risked = targets
        .iter()
        .filter(comes_back)
        .filter(|target| past_exit(pod, target, memory, around) != Some(Some(0)));
    u32::try_from(risked.count()).unwrap_or(u32::MAX)
}

/// How long a request may take at most, until it is known how its containers have ended.
#[must_use]
pub fn patience(pod: &Pod) -> Duration {
    swap::graces(pod)
        .saturating_add(ANSWERS)
        .saturating_add(STOPPED_VISIBLE)
}

/// A request that was made, or tried, and that the watch does not show.
fn not_seen(asked: &Asked, now: Duration) -> Step {
    let until = asked.at + ANSWERS;
    let (reason, note) = match &asked.error {
        Some(words) => (
            Reason::RecreateFailed,
            format!("a ContainerRecreateRequest cannot be created: {words}"),
        ),
        None if now < until => return Step::Here(Decision::later(Reason::RecreatePending, until)),
        None => (
            Reason::RecreateUnanswered,
            "the ContainerRecreateRequest is not to be seen: has somebody deleted it?".to_owned(),
        ),
    };
    Step::Next {
        reports: vec![Report { reason, note }],
        again: None,
    }
}

fn follow(
    pod: &Pod,
    targets: &[&Container],
    request: &RecreateRequest,
    memory: &Memory,
    around: &Circumstances<'_>,
) -> Step {
    let asked_at = memory.asked_at().unwrap_or(around.now);
    let mut reports = Vec::new();
    let mut again: Option<Duration> = None;
    let mut lead_on = false;
    for target in targets {
        match progress(pod, target, request, asked_at, memory, around.now) {
            Progress::Until(at) => again = Some(again.map_or(at, |earlier| earlier.min(at))),
            Progress::Over(report) => reports.push(report),
            Progress::Past => lead_on = true,
        }
    }
    if lead_on || !reports.is_empty() {
        return Step::Next {
            reports: one_per_reason(reports),
            again,
        };
    }
    let swaps_wanted = restarts_risked(pod, targets, memory, around);
    Step::Here(Decision {
        again,
        swaps_wanted,
        ..Decision::quiet(Reason::RecreatePending)
    })
}

/// Whether the container of a request was stopped, and runs or will run again.
pub(crate) fn is_back(target: &Container, recreated: &Recreated) -> bool {
    let Some(status) = &target.status else {
        return false;
    };
    match &status.state {
        ContainerState::Running { .. } => {
            !recreated.container_id.is_empty()
                && (status.container_id != recreated.container_id
                    || status.restart_count > recreated.restart_count)
        }
        ContainerState::Waiting { .. } => recreated.killed,
        ContainerState::Terminated(_) | ContainerState::Unreported => false,
    }
}

fn deadline(
    pod: &Pod,
    request: &RecreateRequest,
    asked_at: Duration,
) -> (Duration, Reason, &'static str) {
    if request.phase == RequestPhase::Unanswered {
        let what = "is not answered by OpenKruise's daemon: does it run on the node?";
        return (asked_at + ANSWERS, Reason::RecreateUnanswered, what);
    }
    let until = asked_at
        .saturating_add(swap::graces(pod))
        .saturating_add(STOPPED_VISIBLE);
    (
        until,
        Reason::RecreateFailed,
        "was taken by OpenKruise's daemon, and the container has not ended",
    )
}

/// What to tell about a pod that is finished and was ended by a request.
pub(crate) fn finished(pod: &Pod, memory: &Memory) -> Option<Decision> {
    let left = [Reason::LeftToOpenKruise, Reason::OpenKruiseIncomplete]
        .iter()
        .any(|reason| memory.said.contains(reason));
    if left || memory.asked_at().is_none() {
        return None;
    }
    let described = roles::sidecars(pod).map(|sidecar| ending::describe(sidecar, memory));
    let ends = described.collect::<Vec<_>>().join(", ");
    let late = ending::lateness(pod, memory);
    let ends = format!("{ends}; asked of OpenKruise's daemon{late}");
    if pod.phase == Phase::Failed && roles::mains_succeeded(pod) {
        let note = format!(
            "the pod is Failed although every main container exited with 0: {ends}; let it exit with 0 on SIGTERM, or allow finish"
        );
        return Some(Decision::tell(Reason::PodFailedAfterRecreate, note));
    }
    let phase = if pod.phase == Phase::Succeeded {
        "Succeeded"
    } else {
        "Failed"
    };
    Some(Decision::tell(
        Reason::SidecarEnded,
        format!("the pod is {phase}: {ends}"),
    ))
}
