//! How far OpenKruise has come with a request.

use std::time::Duration;

use super::{deadline, is_back};
use crate::objects::pod::{Container, Pod};
use crate::objects::recreate_request::{RecreateRequest, Recreated, RequestPhase};
use crate::report::decision::Report;
use crate::report::reason::Reason;
use crate::terminate::memory::Memory;

/// What has become of one container of a request.
pub(super) enum Progress {
    /// The daemon, or the node, may still act.
    Until(Duration),
    /// It does not end by this request, and why.
    Over(Report),
    /// Another method has acted on it since.
    Past,
}

pub(super) fn progress(
    pod: &Pod,
    target: &Container,
    request: &RecreateRequest,
    asked_at: Duration,
    memory: &Memory,
    now: Duration,
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
            format!("{name} is over and has not stopped it: {}", request.message),
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
        .and_then(|status| status.last_end.as_ref());
    let code = end
        .and_then(|end| end.exit_code)
        .map_or_else(String::new, |code| format!(" with exit code {code}"));
    is_back(target, recreated).then(|| {
        format!(
            "OpenKruise's daemon stopped it, it ended{code}, and the node started it again: let it exit with 0 on SIGTERM, or allow finish"
        )
    })
}
