//! The end of a request whose time is over. A container that is parked gets its image back first;
//! so does one whose alias has to be pulled at its start (`imagePullPolicy: Always`) and cannot be:
//! the tag may have moved, and the manifest of the digest be gone from the registry.

use std::time::Duration;

use super::container::{Step, Target};
use super::{Action, Around, Decision, Memory, give_up, parking, run};
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Mark, RestartRequest};

/// Ends it, or what comes before that.
pub(crate) fn end(
    request: &RestartRequest,
    pod: &RestartPod,
    memory: &Memory,
    why: &str,
    around: &Around<'_>,
) -> Decision {
    parking::end(request, pod, why, around)
        .or_else(|| put_back(request, pod, memory, around))
        .unwrap_or_else(|| give_up(request, why))
}

/// Until each alias is seen started or taken back, for as long as the node is waited for.
fn put_back(
    request: &RestartRequest,
    pod: &RestartPod,
    memory: &Memory,
    around: &Around<'_>,
) -> Option<Decision> {
    let mut journal = request
        .journal
        .clone()
        .filter(|_| !pod.pod.phase.is_terminal())?;
    let (mut marks, mut swaps, mut until) = (Vec::new(), Vec::new(), None::<Duration>);
    for (name, mark) in &journal.0 {
        match under_way(request, pod, memory, around, name, mark) {
            Some(Step::Begin(mark)) => marks.push((name.clone(), mark)),
            Some(Step::Swap(swap)) => swaps.push(swap),
            Some(Step::Works(at)) => until = until.into_iter().chain(at).min(),
            Some(Step::Final(..) | Step::Waits | Step::WaitsFor(_)) | None => {}
        }
    }
    if !marks.is_empty() {
        journal.0.extend(marks);
        return Some(Decision::act(
            Reason::RestartPending,
            Action::WriteDown(journal),
        ));
    }
    if !swaps.is_empty() {
        return Some(run::swap(request, pod, swaps));
    }
    until.map(|until| Decision::later(Reason::RestartPending, until))
}

/// What is next for a container whose alias may turn out not to be had.
fn under_way(
    request: &RestartRequest,
    pod: &RestartPod,
    memory: &Memory,
    around: &Around<'_>,
    name: &str,
    mark: &Mark,
) -> Option<Step> {
    let (index, container, details) = pod
        .find(name)
        .filter(|(_, _, details)| details.pulls_always)?;
    let intent = mark
        .intent
        .as_ref()
        .filter(|intent| intent.parking.is_none() && container.image == intent.to)?;
    let status = container
        .status
        .as_ref()
        .filter(|_| !request.state(name).phase.is_final())?;
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
    (!target.has_started()).then(|| target.carried_out(intent, 1))
}
