//! The execution of a request to restart containers of a pod (`ContainerRecreateRequest`) without a
//! daemon, by writing another spelling of the same image (`image::alias`).
//!
//! Each step is recorded in the request before it is made, so that another run of the process, or
//! another process, continues where the last one ended:
//!
//! 1. `Accept`: the request gets its labels and a journal of the containers that are there now.
//! 2. `Report`: the request becomes Recreating.
//! 3. `WriteDown`: the journal gets the image before and its alias; a finalizer comes first where
//!    that may have to be taken back ([`late`]).
//! 4. `Swap`: the pod gets the alias, only if it is unchanged since step 3.
//! 5. Once another container is observed and ready: `Report`. If the alias cannot be pulled, the
//!    image before is put back, and that is recorded first as well.
//! 6. `Release`, and `Delete` when its `ttlSecondsAfterFinished` has passed.
//!
//! Where an image has no alias, the container is parked (`parking`): it gets the park image, and
//! once that is observed running the image before is put back, each recorded as in 3 and 4. The pod
//! itself records the image before, in the patch that parks it: a request may be deleted
//! ([`orphan`]), and its text is not trusted (`parking/before.rs`). No request ends before the
//! containers that it has parked have their images back, unless no record of that image can be
//! trusted. Then a Warning describes the manual fix.
//!
//! Every write to the request is made to one version of it, and the write to the pod to one
//! generation of it: of two processes only one succeeds, and a late write changes nothing.
//!
//! A change and its undoing move the generation by two. So a container with its image as before was
//! not touched if the generation has moved by at most one since the change was recorded. It does
//! not matter who moved it. Before Kubernetes 1.33 the API server counts no generations of pods,
//! and the image alone is tested. A restart is not recognised by the container's image:
//! `status.image` and `imageID` do not change on an alias.
//!
//! A request that has ended although a container stays parked is kept beyond its time: it can
//! contradict the record in the pod.

mod acceptance;
mod circumstances;
mod coming;
mod container;
mod decision;
mod late;
mod memory;
mod others;
mod parking;
mod readiness;
mod run;

use std::time::Duration;

pub use self::circumstances::{Around, Sight};
use self::circumstances::{Case, deadline, in_time, is_late};
pub use self::coming::restarts_coming;
use self::container::patience::in_vain_for_long;
pub use self::decision::{Acceptance, Action, Change, Decision, Filled, Note, Readiness, Status};
pub use self::memory::Memory;
pub use self::parking::image::ParkImage;
pub use self::parking::orphans::{ORPHAN_AFTER, Orphan, orphan, orphan_as_told};
use crate::objects::recreate_request::RequestPhase;
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::RestartRequest;

/// OpenKruise's message for a pod that does not exist any more.
const POD_GONE: &str = "pod has gone";
/// The message for a name that no pod can have.
const NO_NAME: &str = "podName is not a valid pod name: lower case letters, digits, '-' and '.', beginning and ending with a letter or digit";
/// The longest name that a pod may have, in bytes.
const LONGEST_NAME: usize = 253;
/// OpenKruise's message for a request whose deadline has passed.
const DEADLINE: &str = "recreating has exceeded the activeDeadlineSeconds";

/// How long after its deadline a request that has begun waits for its pod to be observed: what it
/// has begun needs the pod.
const SEEN_AFTER_DEADLINE: Duration = Duration::from_secs(600);
/// The same without a deadline, counted from the first search for the pod: as long as an API server
/// or a permission may be missing.
const SEEN_WITHIN: Duration = Duration::from_secs(3600);
/// The interval at which a request that is kept after its end is reconciled.
const WITNESS_AGAIN: Duration = Duration::from_secs(3600);

/// Returns true if the request can be decided only with its pod observed. `nodes_tell` is true if
/// there are nodes whose vendor does not carry out requests with OpenKruise's label for virtual
/// nodes.
#[must_use]
pub fn needs_pod(request: &RestartRequest, nodes_tell: bool) -> bool {
    let is_over = request.deleting || request.is_completed();
    let is_ours = if is_over {
        let may_be_deleted = request.ttl_seconds.is_some() && !request.deleting;
        readiness::is_held(request) || may_be_deleted && parking::before::is_witness(request)
    } else {
        others::may_be_ours(request, nodes_tell)
    };
    is_ours && names_a_pod(request)
}

/// Returns true if a pod can have this name (a DNS subdomain, RFC 1123). Any other text could act
/// as a field selector, and would never match a pod.
fn names_a_pod(request: &RestartRequest) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        ends.is_some_and(|(first, last)| is_inner(*first) && is_inner(*last))
            && bytes.iter().all(|byte| is_inner(*byte) || *byte == b'-')
    };
    request.pod_name.len() <= LONGEST_NAME && request.pod_name.split('.').all(is_label)
}

/// Decides what to do about a request. The memory must have observed the request and the pod as
/// they are ([`Memory::observe`]).
#[must_use]
pub fn decide(
    request: &RestartRequest,
    sight: Sight<'_>,
    memory: &Memory,
    around: &Around<'_>,
) -> Decision {
    if memory.in_flight {
        return Decision::quiet(Reason::WriteInFlight);
    }
    if let Some(at) = memory.not_before.filter(|at| *at > around.now) {
        return Decision::later(Reason::WriteBackoff, at);
    }
    let sight = if names_a_pod(request) {
        sight
    } else {
        Sight::Absent
    };
    if request.deleting || request.is_completed() {
        return after_completion(request, sight, memory, around);
    }
    if let Some(decision) = others::carry_out(request, memory, around) {
        return decision;
    }
    let mut decision = carry_out(request, sight, memory, around);
    let deadline =
        deadline(request, around).filter(|at| *at > around.now && decision.action.is_none());
    decision.again = decision.again.into_iter().chain(deadline).min();
    decision
}

/// Decides about a request that swaplet itself carries out.
fn carry_out(
    request: &RestartRequest,
    sight: Sight<'_>,
    memory: &Memory,
    around: &Around<'_>,
) -> Decision {
    let name = &request.pod_name;
    let why = match sight {
        _ if !names_a_pod(request) => NO_NAME.to_owned(),
        Sight::Refused(why) if !request.has_begun() => {
            format!("the API server rejects the request for the pod {name}: {why}")
        }
        Sight::Unseen | Sight::Refused(_) => return unseen(request, memory, around),
        Sight::Absent if request.pod_uid.is_none() => format!("no found Pod named {name}"),
        Sight::Absent => POD_GONE.to_owned(),
        Sight::There(pod) => {
            return with_pod(Case {
                request,
                pod,
                memory,
                around,
            });
        }
    };
    Decision::give_up(request, &why)
}

/// Decides about a request whose pod is not observed. What has begun needs the pod to be completed,
/// but every wait has an end. (OpenKruise reads pods from a cache, so they are either there or
/// gone.)
fn unseen(request: &RestartRequest, memory: &Memory, around: &Around<'_>) -> Decision {
    let begun = request.has_begun();
    let (until, over) = match (deadline(request, around), memory.unseen_since) {
        (Some(deadline), _) if begun => (deadline + SEEN_AFTER_DEADLINE, DEADLINE.to_owned()),
        (Some(deadline), _) => (deadline, DEADLINE.to_owned()),
        (None, Some(since)) => (
            since + SEEN_WITHIN,
            format!("the pod was not observed for {} s", SEEN_WITHIN.as_secs()),
        ),
        (None, None) => return Decision::quiet(Reason::RequestWaits),
    };
    if until > around.now {
        return Decision::later(Reason::RequestWaits, until);
    }
    let why = if begun {
        "; its pod cannot be observed, so the result of what was begun is not known"
    } else {
        ""
    };
    Decision::give_up(request, &format!("{over}{why}"))
}

fn with_pod(case: Case<'_>) -> Decision {
    let Case {
        request,
        pod,
        around,
        ..
    } = case;
    if let Some(gone) = gone(request, pod) {
        return Decision::give_up(request, &gone);
    }
    if is_late(request, around) {
        return late::end(case, DEADLINE);
    }
    if around.node.is_none() && !pod.pod.node.is_empty() {
        return Decision::quiet(Reason::RequestWaits);
    }
    if pod.pod.phase.is_terminal() && request.journal.is_some() {
        let (phase, because) = (pod.pod.phase.as_str(), because(&pod.pod.reason));
        return Decision::give_up(request, &format!("the pod has become {phase}{because}"));
    }
    match &request.journal {
        None => match in_vain_for_long(case, false) {
            Some(why) => Decision::give_up(request, &format!("not restarted: {why}")),
            None => acceptance::accept(request, pod, around),
        },
        Some(_) if !around.is_first => waits_in_line(request),
        Some(journal) => run::advance(case, journal),
    }
}

/// Returns why this is not the requested pod, or will not be for long; `None` if it is.
fn gone(request: &RestartRequest, pod: &RestartPod) -> Option<String> {
    if !readiness::is_its_pod(request, pod) {
        return Some(POD_GONE.to_owned());
    }
    is_younger(pod, request)
        .then(|| format!("{POD_GONE}: the one that is there now was created after the request"))
}

/// Returns true if the pod was created after a request that does not name its uid. Both times are
/// whole seconds of one clock.
fn is_younger(pod: &RestartPod, request: &RestartRequest) -> bool {
    let times = pod
        .created_at
        .zip(request.created_at)
        .filter(|_| request.pod_uid.is_none());
    times.is_some_and(|(pod, request)| pod > request)
}

fn because(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    }
}

/// Cleans up after a request that is completed or being deleted. A request that was refused, or
/// that OpenKruise has completed, is also deleted when its time has come: where OpenKruise does not
/// delete it, nothing else does.
fn after_completion(
    request: &RestartRequest,
    sight: Sight<'_>,
    memory: &Memory,
    around: &Around<'_>,
) -> Decision {
    if request.journal.is_some() {
        if let Some(decision) = late::after_deletion(request, sight, memory, around) {
            return decision;
        }
        if let Some(decision) = readiness::after_restart(request, sight) {
            return decision;
        }
        if request.active && !request.deleting {
            return Decision::act(Reason::RequestOver, Action::Release);
        }
    }
    if request.deleting || others::delete(request, around) {
        return Decision::quiet(Reason::RequestOver);
    }
    // It records what it has parked, and is kept while the pod may claim something else.
    if parking::before::is_evidence(request, sight, around) {
        return Decision::later(Reason::RequestOver, around.now + WITNESS_AGAIN);
    }
    let (Some(completed), Some(ttl)) = (request.completed_at, request.ttl_seconds) else {
        return Decision::quiet(Reason::RequestOver);
    };
    match in_time(completed, ttl, around) {
        at if at <= around.now => Decision::act(Reason::RequestOver, Action::Delete),
        at => Decision::later(Reason::RequestOver, at),
    }
}

fn waits_in_line(request: &RestartRequest) -> Decision {
    if request.phase != RequestPhase::Unanswered {
        return Decision::quiet(Reason::RequestWaits);
    }
    let status = Status {
        phase: RequestPhase::Pending,
        message: Box::default(),
        states: request.wanted_states().collect(),
    };
    Decision::act(Reason::RequestWaits, Action::Report(status))
}
