//! The pods that are left alone, or not ended yet, and why.

use crate::objects::pod::roles::Mains;
use crate::objects::pod::rule::SidecarRule;
use crate::objects::pod::{Pod, RestartPolicy, roles};
use crate::objects::values::env::{
    ACS_IS_SIDECAR, ACS_SIDECAR, ECI_CONTAINER_TYPE, ECI_SIDECAR, MarkProblem, WHEN_JOB_EXIT,
    WITH_IMAGE,
};
use crate::report::decision::{Decision, Report};
use crate::report::reason::Reason;

/// Refuses a pod that cannot be ended: one Warning names the field and the fix.
pub(crate) fn refused(pod: &Pod) -> Option<Decision> {
    let marked = roles::sidecars(pod).next().is_some();
    if let Some(field) = pod.malformed.filter(|field| marked || hides_roles(field)) {
        let note = format!(
            "{field} has a type that Kubernetes does not allow, or is too long; this pod is left alone"
        );
        return Some(Decision::reporting(Reason::PodMalformed, note));
    }
    if let Some(left) = left_to_platform(pod).filter(|_| !marked) {
        return Some(Decision {
            reports: vec![left],
            ..Decision::quiet(Reason::LeftToPlatform)
        });
    }
    if !marked {
        return Some(no_sidecar(pod));
    }
    if let Some(note) = unknown_policy(pod) {
        return Some(Decision::reporting(Reason::RestartPolicyUnknown, note));
    }
    if roles::mains(pod).next().is_none() {
        // A container that is neither stays beside the others: nobody waits for it.
        let note = format!(
            "every container is marked as a sidecar, so none shows when the work is done: remove {WHEN_JOB_EXIT} and {WITH_IMAGE} from the main container"
        );
        return Some(Decision::reporting(Reason::OnlySidecars, note));
    }
    None
}

/// Keeps a pod that a refused policy names in the index, so that the policy's status can report it.
fn no_sidecar(pod: &Pod) -> Decision {
    let quiet = if pod.refused_policy.is_some() {
        Decision::quiet(Reason::PolicyRefused)
    } else {
        Decision::quiet(Reason::NoSidecar)
    };
    mark_problem(pod)
        .or_else(|| {
            let report = annotation_problem(pod)?;
            Some(Decision::reporting(report.reason, report.note))
        })
        .unwrap_or(quiet)
}

/// Reports an annotation that cannot be used as it is written.
pub(super) fn annotation_problem(pod: &Pod) -> Option<Report> {
    pod.annotation_problem.as_ref().map(|note| Report {
        reason: Reason::AnnotationInvalid,
        note: note.to_string(),
    })
}

/// Refuses a pod whose main container failed: a rule with `mainMustSucceed` then ends no sidecar,
/// also if the container's own environment marks it.
pub(super) fn main_failed(pod: &Pod) -> Option<Decision> {
    if roles::mains_succeeded(pod) {
        return None;
    }
    let kept = pod.containers.iter().find(|container| {
        let asks = |rule: &SidecarRule| rule.main_must_succeed;
        roles::is_sidecar(pod, container)
            && container.end().is_none()
            && container.rule.as_deref().is_some_and(asks)
    })?;
    let source = kept.rule.as_ref().map(|rule| rule.source.to_string());
    let note = format!(
        "a main container has failed, and {} ends {} only where all have succeeded (mainMustSucceed): delete the pod when you have examined it, or set spec.activeDeadlineSeconds of its Job",
        source.unwrap_or_default(),
        kept.name
    );
    Some(Decision::reporting(Reason::MainFailed, note))
}

/// Returns true if the field may hide the roles of containers, so that it is unknown whether the
/// pod is marked. An unmarked pod is left alone silently, whatever its status.
fn hides_roles(malformed: &str) -> bool {
    malformed == "spec" || malformed.starts_with("spec.containers")
}

/// Reports a restart policy, of the pod or a container, that is unknown: its meaning is not
/// guessed.
fn unknown_policy(pod: &Pod) -> Option<String> {
    if let RestartPolicy::Unknown(policy) = &pod.restart_policy {
        return Some(format!(
            "spec.restartPolicy is {policy:?}; sidecars are ended under Never and OnFailure only"
        ));
    }
    pod.containers.iter().find_map(|container| match &container.restart_policy {
        Some(RestartPolicy::Unknown(policy)) => Some(format!(
            "container {}: its own restartPolicy is {policy:?}, which this version does not know; this pod is left alone",
            container.name
        )),
        _ => None,
    })
}

/// Reports sidecars that the platform ends by itself: swaplet would stop them a second time.
pub(super) fn left_to_platform(pod: &Pod) -> Option<Report> {
    let left = pod.containers.iter().filter(|container| {
        container.mark.is_sidecar() && roles::is_left_to_platform(pod, container)
    });
    let names = left
        .map(|container| &*container.name)
        .collect::<Vec<_>>()
        .join(", ");
    let (variable, value) = if pod.on_acs {
        (ACS_IS_SIDECAR, ACS_SIDECAR)
    } else {
        (ECI_CONTAINER_TYPE, ECI_SIDECAR)
    };
    let note = format!(
        "{names}: left to the platform under node {}, which ends containers with {variable}={value} by itself when the others are done; \
         remove that variable where swaplet is to do it",
        pod.node
    );
    (!names.is_empty()).then_some(Report {
        reason: Reason::LeftToPlatform,
        note,
    })
}

fn mark_problem(pod: &Pod) -> Option<Decision> {
    let (container, problem) = pod
        .containers
        .iter()
        .find_map(|c| Some((&c.name, c.mark.problem.as_ref()?)))?;
    let note = match problem {
        MarkProblem::FromReference { variable } => {
            format!(
                "container {container}: {variable} is set by valueFrom, which is not read: give it a literal value"
            )
        }
        MarkProblem::NotAFlag { variable } => {
            format!(
                "container {container}: {variable} is neither \"true\" nor \"false\", so the container is not marked as a sidecar"
            )
        }
        MarkProblem::EmptyImage => format!(
            "container {container}: {WITH_IMAGE} is empty, so the container is not marked as a sidecar: name an image, or set {WHEN_JOB_EXIT} to \"true\""
        ),
    };
    Some(Decision::reporting(Reason::MarkInvalid, note))
}

pub(super) fn mains_not_done(pod: &Pod) -> Option<Decision> {
    match roles::mains_state(pod) {
        Mains::Done => None,
        // A bad mark beside a good one is reported while the main containers run, so that it can be
        // fixed before the next run.
        Mains::Running(_) | Mains::NotReported(_) | Mains::Restarting(_) => {
            let reports = mark_problem(pod)
                .map(|problem| problem.reports)
                .unwrap_or_default()
                .into_iter()
                .chain(annotation_problem(pod))
                .collect();
            Some(Decision {
                reports,
                ..Decision::quiet(Reason::MainsRunning)
            })
        }
    }
}
