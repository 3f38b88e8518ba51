//! Containers beside the main ones that the node may start again, native sidecars too: each of
//! their starts is a restart that a Job counts, besides those of swaps, and nothing says when the
//! next one comes. So where the phase may be written, it ends such a pod, in the pause before the
//! next start if there is one.

use jiff::{SignedDuration, Timestamp};

use super::{Case, turn};
use crate::cluster::headroom::Ledger;
use crate::objects::pod::{Container, Pod, Terminated, roles};
use crate::report::decision::{Report, listed};
use crate::report::reason::Reason;

/// How long before the end of the main containers a crash still counts: after it a kubelet forgets
/// its back-off (Kubernetes: twice `MaxContainerBackOff`).
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);

/// Returns the report about containers of the pod, other than its main ones, that have ended and
/// were started again, and may be again, if its Job counts that and all sidecars are due to end;
/// `None` if there are none.
pub(super) fn again(case: Case<'_>) -> Option<Report> {
    let pod = case.pod;
    if !case.around.may_be_kubelet() || !Ledger::counts(pod) || !turn::are_all_due(case) {
        return None;
    }
    let crashing = pod.containers.iter().filter(|other| {
        !roles::is_main(pod, other)
            && !case.memory.shows_exit_image(other, case.around.exit_images)
            && restart(pod, other).is_some_and(|end| is_recent(pod, end.finished_at))
    });
    let native = pod.native_end.as_deref();
    let native = native.filter(|end| is_recent(pod, end.finished_at));
    let names = crashing.map(|other| &other.name);
    let names = listed(names.chain(native.map(|end| &end.name)));
    let note = format!(
        "the Job counts each start of {names}, which has ended before and is started again"
    );
    (!names.is_empty()).then_some(Report::new(Reason::NoHeadroom, note))
}

/// Returns the last end of the container, if the node starts it again after such a one.
fn restart<'a>(pod: &Pod, sidecar: &'a Container) -> Option<&'a Terminated> {
    let status = sidecar.status.as_ref()?;
    let end = sidecar.end().or(status.last_end.as_deref())?;
    let comes_back = || sidecar.comes_back_after(pod, end.exit_code) == Some(true);
    (end.exit_code.is_some() && comes_back()).then_some(end)
}

fn is_recent(pod: &Pod, ended: Option<Timestamp>) -> bool {
    let times = ended.zip(roles::mains_ended_at(pod));
    times.is_none_or(|(end, mains)| mains.duration_since(end) < FORGOTTEN)
}
