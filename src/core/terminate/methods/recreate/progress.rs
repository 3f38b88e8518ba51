//! The progress of OpenKruise with a request.

use std::time::Duration;

use crate::objects::moment::Moment;
use crate::objects::pod::{Container, Pod};
use crate::objects::recreate_request::{RecreateRequest, Recreated, RequestPhase};
use crate::report::decision::Report;
use crate::report::reason::Reason;
use crate::terminate::memory::Memory;
use crate::terminate::memory::asked::ANSWERS;
use crate::terminate::methods::swap;

/// How long the daemon and the kubelet may take after a response, besides the grace periods of the
/// containers, which are stopped one after another.
const STOPPED_VISIBLE: Duration = Duration::from_secs(60);

/// The progress of one container of a request.
pub(super) enum Progress {
    /// The daemon, or the node, may still act.
    Until(Moment),
    /// The request does not end it, for this reason.
    Over(Report),
    /// Another method has acted on it since the request.
    Past,
}

pub(super) fn progress(
    pod: &Pod,
    target: &Container,
    request: &RecreateRequest,
    asked_at: Moment,
    memory: &Memory,
    now: Moment,
) -> Progress {
    if memory
        .swap_of(&target.name)
        .is_some_and(|swap| swap.at > asked_at)
    {
        return Progress::Past;
    }
    let name = RecreateRequest::name_for(&request.pod_uid);
    let over = |reason, what: String| {
        Progress::Over(Report {
            reason,
            note: format!("container {}: {what}", target.name),
        })
    };
    let Some(recreated) = request.container(&target.name) else {
        return over(
            Reason::RecreateFailed,
            format!(
                "ContainerRecreateRequest {name} is there and does not name it; a pod has only one"
            ),
        );
    };
    if recreated.failed {
        return over(
            Reason::RecreateFailed,
            format!(
                "OpenKruise's daemon could not stop it: {}",
                recreated.message
            ),
        );
    }
    if let Some(what) = came_back(target, recreated) {
        return over(Reason::RecreateFailed, what);
    }
    let (until, reason, what) = deadline(pod, request, asked_at);
    if request.phase == RequestPhase::Completed && !recreated.killed {
        return over(
            Reason::RecreateUnanswered,
            format!("{name} completed without stopping it: {}", request.message),
        );
    }
    if now < until {
        Progress::Until(until)
    } else {
        over(reason, format!("{name} {what}"))
    }
}

fn came_back(target: &Container, recreated: &Recreated) -> Option<String> {
    let end = target
        .status
        .as_ref()
        .and_then(|status| status.last_end.as_deref());
    let code = end
        .and_then(|end| end.exit_code)
        .map_or_else(String::new, |code| format!(" with exit code {code}"));
    recreated.is_back(target).then(|| {
        format!(
            "OpenKruise's daemon stopped it, it ended{code}, and the node started it again: let it exit with 0 on SIGTERM, or allow finish"
        )
    })
}

/// Returns until when the end of a container is awaited, and what is reported then.
fn deadline(
    pod: &Pod,
    request: &RecreateRequest,
    asked_at: Moment,
) -> (Moment, Reason, &'static str) {
    if request.phase == RequestPhase::Unanswered {
        let what = "is not answered by OpenKruise's daemon: check that it runs on the node";
        return (asked_at + ANSWERS, Reason::RecreateUnanswered, what);
    }
    let until = asked_at + swap::graces(pod) + STOPPED_VISIBLE;
    (
        until,
        Reason::RecreateFailed,
        "was accepted by OpenKruise's daemon, and the container has not ended",
    )
}
