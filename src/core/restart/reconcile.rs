//! Carrying out a request to restart containers of a pod (`ContainerRecreateRequest`) without a
//! daemon, by writing another spelling of the same image (`image::alias`).
//!
//! Each step is written down before it is made, in the request itself, so that a new life of the
//! process, or another one, goes on where the last one ended:
//!
//! 1. `Accept`: the request gets its labels and a journal: which containers are there now.
//! 2. `Report`: it is Recreating.
//! 3. `WriteDown`: the journal gets the image before and its alias; a finalizer comes first where
//!    that may have to be taken back ([`late`]).
//! 4. `Swap`: the pod gets the alias; only if it is as it was in step 3.
//! 5. Another container is seen, and it is ready: `Report`. If the alias cannot be pulled, the
//!    image before is put back, and that is written down first as well.
//! 6. `Release`, and `Delete` when its time has come.
//!
//! Where an image has no alias, the container is parked (`parking`): it gets the park image, and
//! once that is seen to run the image before is put back, each written down as in 3 and 4. The pod
//! itself then says what it had, in the patch that parks it: a request may be deleted
//! ([`orphan`]), and its text is not ours (`parking/before.rs`). No request ends before what it has parked
//! has its image back, but where nobody can be believed about that image: then a Warning says what
//! a human can do.
//!
//! Every write to the request is made to one version of it, and the write to the pod to one
//! generation of it: of two processes one goes on, and a write that arrives late changes nothing.
//!
//! A change and its undoing move the generation by two. So a container that has its image as before
//! was not touched if the generation has moved by one at most since the change was written down,
//! whoever sent what. Before Kubernetes 1.33 the API server counts no generations of pods, and the
//! image alone is tested. A restarted container is not looked for by its image: `status.image` and
//! `imageID` do not change on an alias.
//!
//! A request that has ended although a container stays parked is kept beyond its time: it is the
//! witness against what the pod says.

mod acceptance;
mod circumstances;
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
pub use self::decision::{Acceptance, Action, Change, Decision, Filled, Note, Readiness, Status};
pub use self::memory::Memory;
pub use self::parking::image::ParkImage;
pub use self::parking::orphans::{ORPHAN_AFTER, Orphan, orphan, orphan_as_told};
use crate::objects::recreate_request::RequestPhase;
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::RestartRequest;

/// The words of OpenKruise for a pod that is not there any more.
const POD_GONE: &str = "pod has gone";
/// What is said of a name that no pod can have.
const NO_NAME: &str = "podName is no name of a pod: lower case letters, digits, '-' and '.', beginning and ending with a letter or digit";
/// The longest name that a pod may have.
const LONGEST_NAME: usize = 253;
/// The words of OpenKruise for a request whose time is over.
const DEADLINE: &str = "recreating has exceeded the activeDeadlineSeconds";

/// For how long after the deadline of a request that was begun is waited for its pod to be seen,
/// for what was begun needs the pod.
const SEEN_AFTER_DEADLINE: Duration = Duration::from_secs(600);
/// For how long it is waited for where there is no deadline, from when it is looked for: as long as
/// an API server or a right may be away.
const SEEN_WITHIN: Duration = Duration::from_secs(3600);
/// How often is looked at a request that is kept although it is over.
const WITNESS_AGAIN: Duration = Duration::from_secs(3600);

/// Whether a request can be decided only with its pod in sight; `nodes_tell` is whether there are
/// nodes whose vendor does not carry out requests with OpenKruise's label for virtual nodes.
#[must_use]
pub fn needs_pod(request: &RestartRequest, nodes_tell: bool) -> bool {
    let is_over = request.deleting || request.is_completed();
    let is_ours = if is_over {
        readiness::is_held(request)
    } else {
        others::may_be_ours(request, nodes_tell)
    };
    is_ours && names_a_pod(request)
}

/// Whether there may be a pod of this name (a DNS subdomain, RFC 1123). Any other text would be a
/// selector of its own making, and nothing would ever be heard of it.
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

/// What to do about a request. The memory must have observed the request and the pod as they are
/// ([`Memory::observe`]).
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

/// What to do about a request that is swaplet's to carry out.
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
            format!("the API server does not take the question for the pod {name}: {why}")
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

/// What was begun has to be brought to its end, and for that the pod must be seen; but nothing is
/// waited for without end. (OpenKruise reads pods from a cache, so that they are there or gone.)
fn unseen(request: &RestartRequest, memory: &Memory, around: &Around<'_>) -> Decision {
    let begun = request.has_begun();
    let (until, over) = match (deadline(request, around), memory.unseen_since) {
        (Some(deadline), _) if begun => (
            deadline.saturating_add(SEEN_AFTER_DEADLINE),
            DEADLINE.to_owned(),
        ),
        (Some(deadline), _) => (deadline, DEADLINE.to_owned()),
        (None, Some(since)) => (
            since.saturating_add(SEEN_WITHIN),
            format!("the pod was not seen for {} s", SEEN_WITHIN.as_secs()),
        ),
        (None, None) => return Decision::quiet(Reason::RequestWaits),
    };
    if until > around.now {
        return Decision::later(Reason::RequestWaits, until);
    }
    let why = if begun {
        "; its pod cannot be seen, so nobody knows what became of what was begun"
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
        None => acceptance::accept(request, pod, around),
        Some(_) if !around.is_first => waits_in_line(request),
        Some(journal) => run::go_on(case, journal),
    }
}

/// Why this is not the pod that is meant, or not for long.
fn gone(request: &RestartRequest, pod: &RestartPod) -> Option<String> {
    if !readiness::is_its_pod(request, pod) {
        return Some(POD_GONE.to_owned());
    }
    is_younger(pod, request)
        .then(|| format!("{POD_GONE}: the one that is there now was created after the request"))
}

/// Whether a pod was created after it was asked for, by whoever did not say which one is meant.
/// Both times are whole seconds of one clock.
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

/// Whoever has carried a request out cleans up after it. One that was refused, or that OpenKruise
/// has completed, goes when its time has come as well: where OpenKruise does not delete it, nobody
/// else does.
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
    // It is a witness of what it has parked, as long as somebody may say something else.
    if parking::before::is_witness(request) {
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
