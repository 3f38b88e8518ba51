//! The pods to restart, checked before any request is made.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use swaplet_core::restart::rollout::place;

use super::group::Seen;
use super::member::{Member, status, was_started};
use super::target::Target;

/// The pods in their order, and those that are left out, with the reason.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) members: Vec<Member>,
    pub(super) left_out: Vec<String>,
}

impl Plan {
    /// Makes a plan for the pods of a target.
    ///
    /// # Errors
    /// Every pod for which the request would be refused, and what to do.
    pub(super) fn of(
        target: &Target,
        containers: &[String],
        seen: Seen,
    ) -> Result<Self, Vec<String>> {
        let mut plan = Self {
            members: Vec::new(),
            left_out: Vec::new(),
        };
        let mut problems = missing(target, &seen.pods);
        for pod in seen.pods {
            match chosen(&pod, containers).map(|chosen| (not_started(&pod, &chosen), chosen)) {
                Err(problem) => problems.push(problem),
                Ok((Some(problem), _)) if target.is_named() => problems.push(problem),
                Ok((Some(problem), _)) => plan.left_out.push(problem),
                Ok((None, chosen)) => plan.members.push(Member::new(pod, &chosen)),
            }
        }
        if problems.is_empty() && plan.members.is_empty() {
            problems.append(&mut plan.left_out);
            problems.push("there is no pod to restart".to_owned());
        }
        plan.members
            .sort_by_key(|member| place(&member.name, target.has_ordinals()));
        if problems.is_empty() {
            Ok(plan)
        } else {
            Err(problems)
        }
    }
}

fn missing(target: &Target, pods: &[Pod]) -> Vec<String> {
    let Target::Pods(names) = target else {
        return Vec::new();
    };
    let missing = names
        .iter()
        .filter(|name| !pods.iter().any(|pod| pod.name_any() == **name));
    missing
        .map(|name| format!("there is no pod {name}, or it has finished or is being deleted"))
        .collect()
}

/// Returns the containers to restart; if none is named, the only one.
fn chosen(pod: &Pod, containers: &[String]) -> Result<Vec<String>, String> {
    let spec = || pod.spec.iter();
    let init = || spec().flat_map(|spec| spec.init_containers.iter().flatten());
    let own: Vec<_> = spec()
        .flat_map(|spec| &spec.containers)
        .map(|container| container.name.clone())
        .collect();
    let name = pod.name_any();
    if let ([only], []) = (own.as_slice(), containers) {
        return Ok(vec![only.clone()]);
    }
    let native = init().filter(|init| init.restart_policy.as_deref() == Some("Always"));
    let all: Vec<_> = own
        .into_iter()
        .chain(native.map(|init| init.name.clone()))
        .collect();
    if containers.is_empty() {
        return Err(format!(
            "pod {name} has several containers: choose with -c from {}",
            all.join(", ")
        ));
    }
    let Some(unknown) = containers.iter().find(|container| !all.contains(container)) else {
        return Ok(containers.to_vec());
    };
    Err(if init().any(|init| init.name == *unknown) {
        format!(
            "pod {name}: {unknown} is an init container; only containers and native sidecars (restartPolicy Always) can be restarted"
        )
    } else {
        format!(
            "pod {name} has no container {unknown}; it has {}",
            all.join(", ")
        )
    })
}

/// Returns an error for a container that was never started, because it has nothing to restart.
fn not_started(pod: &Pod, containers: &[String]) -> Option<String> {
    let name = pod.name_any();
    if pod
        .spec
        .as_ref()
        .is_none_or(|spec| spec.node_name.is_none())
    {
        return Some(format!("pod {name} is on no node yet"));
    }
    let never = |container: &&String| !status(pod, container).is_some_and(was_started);
    Some(format!(
        "pod {name}: {} has not been started yet",
        containers.iter().find(never)?
    ))
}
