//! The roles of containers: which are sidecars, which are main containers, and whether the main
//! containers are done.
//!
//! The rules are those of OpenKruise's SidecarTerminator, with these differences: annotations and
//! policies name sidecars as well; statuses are matched by name; a missing status matters only for
//! a main container; a container's own `restartPolicy` outranks the pod's; and a container that the
//! platform under a node ends by itself is neither.

use crate::objects::pod::{Container, Pod, RuleMethod, Terminated};
use crate::objects::values::env::Mark;

/// The state of the main containers of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mains<'a> {
    /// None of them will run again.
    Done,
    /// This one runs, waits, or will be started again.
    Running(&'a Container),
    /// The node has not reported this one.
    NotReported(&'a Container),
    /// The node starts all containers again, by the rules of this other container, if it is known.
    Restarting(Option<&'a Container>),
}

impl Mark {
    /// Returns true if the container is a sidecar: either mark is enough (OpenKruise:
    /// `isSidecarContainer`).
    pub const fn is_sidecar(&self) -> bool {
        self.when_job_exit || self.with_image.is_some()
    }

    /// Returns true if the container's exit code does not count for the pod: only beside the plain
    /// mark (OpenKruise: `isSidecarContainer`).
    pub const fn ignores_exit_code(&self) -> bool {
        self.when_job_exit && self.ignore_exit_code
    }
}

/// Returns the sidecars that swaplet may end, in the order of the spec.
pub fn sidecars(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.containers
        .iter()
        .filter(|container| is_sidecar(pod, container))
}

/// Returns true if the container is a sidecar that swaplet may end: by its environment, by an
/// annotation or by a policy.
pub fn is_sidecar(pod: &Pod, container: &Container) -> bool {
    is_called_sidecar(container) && !is_left(pod, container)
}

/// Returns true if the container has a mark or a rule, whoever is to end it.
pub const fn is_called_sidecar(container: &Container) -> bool {
    container.mark.is_sidecar() || container.rule.is_some()
}

/// Returns true if nobody waits for the container, and swaplet does not end it.
fn is_left(pod: &Pod, container: &Container) -> bool {
    let by_rule = container.rule.as_ref().map(|rule| rule.method);
    is_left_to_platform(pod, container) || by_rule == Some(RuleMethod::Leave)
}

/// Returns true if the platform ends the container when the others are done: then it is neither a
/// sidecar of ours, nor a main container that anybody waits for.
pub const fn is_left_to_platform(pod: &Pod, container: &Container) -> bool {
    let mark = &container.mark;
    let is_marked = if pod.on_acs {
        mark.acs_sidecar
    } else {
        mark.eci_sidecar
    };
    pod.platform_ends_sidecars && is_marked
}

/// Returns the main containers: those without mark and rule, and not left to the platform.
pub fn mains(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.containers
        .iter()
        .filter(|container| is_main(pod, container))
}

/// Returns true if the container is a main container.
pub(crate) const fn is_main(pod: &Pod, container: &Container) -> bool {
    !is_called_sidecar(container) && !is_left_to_platform(pod, container)
}

/// Returns the state of the main containers. They are done under `Never` when they ended with any
/// exit code, under `OnFailure` when they ended with 0, unless another container has them started
/// again.
pub fn mains_state(pod: &Pod) -> Mains<'_> {
    for main in mains(pod) {
        if main.status.is_none() {
            return Mains::NotReported(main);
        }
        if !is_done(pod, main) {
            return Mains::Running(main);
        }
    }
    let by = pod.containers.iter().find(|other| other.restarts_all());
    if !is_over(pod) && (by.is_some() || pod.all_restart) {
        return Mains::Restarting(by);
    }
    Mains::Done
}

/// Returns the container that is shown as ended and that the node is to start again, so that the main
/// containers are not done; `None` if it is another state that keeps them from that.
pub(crate) fn awaited<'a>(pod: &Pod, mains: Mains<'a>) -> Option<&'a Container> {
    let (Mains::Running(ended) | Mains::Restarting(Some(ended))) = mains else {
        return None;
    };
    let end = ended.end()?;
    (ended.comes_back_after(pod, end.exit_code) == Some(true)).then_some(ended)
}

/// Returns true if the node ends the pod, or was told to by its phase: it starts no container.
const fn is_over(pod: &Pod) -> bool {
    pod.deleting || pod.phase.is_terminal() || pod.phase_was_written
}

/// Returns the name of a container beside the main ones, or of a native sidecar, that has not ended
/// and whose rules may start all containers of the pod again when it ends. Whatever stops it may so
/// repeat work that is done; and a sidecar that was swapped would be missing then.
pub fn may_restart_all(pod: &Pod) -> Option<&str> {
    let mut others = pod.containers.iter().filter(|container| {
        !is_main(pod, container) && container.may_restart_all() && container.end().is_none()
    });
    let other = others.next().map(|container| &*container.name);
    other.or(pod.restarter.as_deref())
}

/// Returns true if the pod may fail by an exit image that a kubelet cannot start.
pub(crate) fn may_fail_by_swap(pod: &Pod) -> bool {
    sidecars(pod).any(|sidecar| sidecar.may_be_under_never(pod))
}

/// Returns true if the container has failed and is not started again.
pub(crate) fn has_failed_for_good(pod: &Pod, container: &Container) -> bool {
    container.end().is_some_and(|end| {
        end.exit_code != Some(0) && container.comes_back_after(pod, end.exit_code) == Some(false)
    })
}

/// Returns true if every main container ended with exit code 0, and no sidecar fails the pod all the
/// same.
pub(crate) fn will_succeed(pod: &Pod) -> bool {
    mains_succeeded(pod) && !sidecars(pod).any(|sidecar| has_failed_for_good(pod, sidecar))
}

/// Returns true if only sidecars that swaplet may end keep the pod from ending.
pub fn waits_for_sidecars(pod: &Pod) -> bool {
    let is_over = pod.deleting || pod.phase.is_terminal();
    !is_over
        && mains(pod).next().is_some()
        && mains_state(pod) == Mains::Done
        && sidecars(pod).any(|sidecar| sidecar.end().is_none())
}

/// Returns when the last of the main containers ended, as far as the node reports it.
pub fn mains_ended_at(pod: &Pod) -> Option<jiff::Timestamp> {
    mains(pod).filter_map(|main| main.end()?.finished_at).max()
}

/// Returns true if every main container ended with exit code 0.
pub fn mains_succeeded(pod: &Pod) -> bool {
    mains(pod).all(|main| main.end().is_some_and(|end| end.exit_code == Some(0)))
}

/// Returns true if the container ended and the node does not restart it; under `OnFailure` an end
/// without an exit code does not count.
fn is_done(pod: &Pod, main: &Container) -> bool {
    main.end().is_some_and(|end| {
        main.comes_back_after(pod, end.exit_code) == Some(false)
            && (is_over(pod) || !is_started_whatever(end))
    })
}

/// Returns true if a kubelet starts the container again whatever its policy: the runtime has lost
/// its state, which is shown as an end with 137, or it was ended because all containers are started
/// again (Kubernetes: `ShouldContainerBeRestarted`).
fn is_started_whatever(end: &Terminated) -> bool {
    matches!(
        &*end.reason,
        "ContainerStatusUnknown" | "RestartingAllContainers"
    )
}

/// Returns the sidecars that have ended and that the node starts again, in the order of the spec.
pub(crate) fn returning(pod: &Pod) -> impl Iterator<Item = &Container> {
    sidecars(pod).filter(|sidecar| comes_back(pod, sidecar))
}

/// Returns true if the container ended and the node starts it again.
fn comes_back(pod: &Pod, container: &Container) -> bool {
    container.end().is_some_and(|end| {
        container.comes_back_after(pod, end.exit_code) == Some(true) || is_started_whatever(end)
    })
}

/// A sidecar that has not ended, with its position in `spec.containers`.
pub(crate) type Unended<'a> = (usize, &'a Container);

/// Returns the sidecars that have not ended and that swaplet may end.
pub(crate) fn unended(pod: &Pod) -> Vec<Unended<'_>> {
    let is_unended =
        |container: &Container| is_sidecar(pod, container) && container.end().is_none();
    pod.containers
        .iter()
        .enumerate()
        .filter(|(_, container)| is_unended(container))
        .collect()
}
