//! Acceptance of a request: the checks and defaults of OpenKruise's webhook at creation.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Around;
use super::decision::{Acceptance, Action, Decision, Filled};
use crate::cluster::node_class::NodeClass;
use crate::objects::pod::ContainerStatus;
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Journal, Mark, RestartRequest};

/// The longest JSON of a hook, or of its ports, that is copied, in bytes. The node runs the pod's
/// own hook. The copy is for those who read the request, and the schema of the request has bounds
/// that the pod's does not have.
const LONGEST_COPY: usize = 4096;

/// Accepts a request, or refuses it before anything is done, with OpenKruise's messages.
pub(crate) fn accept(request: &RestartRequest, pod: &RestartPod, around: &Around<'_>) -> Decision {
    if let Some(problem) = problem(request, pod, around) {
        return Decision::give_up(request, &problem);
    }
    let marks = request.containers.iter().filter_map(|wanted| {
        let (_, container, _) = pod.find(&wanted.name)?;
        Some((wanted.name.clone(), Mark::of(container.status.as_ref()?)))
    });
    let is_filled = request.containers.iter().any(|wanted| wanted.has_context);
    let acceptance = Acceptance {
        pod_uid: pod.pod.uid.clone(),
        node: pod.pod.node.clone(),
        journal: Journal(marks.collect()),
        containers: if is_filled {
            Vec::new()
        } else {
            request
                .containers
                .iter()
                .filter_map(|wanted| fill(pod, &wanted.name))
                .collect()
        },
        grace_seconds: pod
            .pod
            .grace_seconds
            .filter(|_| request.strategy.grace_seconds.is_none()),
    };
    Decision::act(Reason::RequestWaits, Action::Accept(acceptance))
}

fn fill(pod: &RestartPod, name: &str) -> Option<Filled> {
    let (_, container, details) = pod.find(name)?;
    let context = Mark::of(container.status.as_ref()?);
    let copy = |value: &Option<Value>| {
        value
            .clone()
            .filter(|value| value.to_string().len() <= LONGEST_COPY)
    };
    let pre_stop = copy(&details.pre_stop);
    let ports = copy(&details.ports).filter(|_| pre_stop.is_some());
    Some(Filled {
        name: name.into(),
        context,
        pre_stop,
        ports,
    })
}

fn problem(request: &RestartRequest, pod: &RestartPod, around: &Around<'_>) -> Option<String> {
    if request.containers.is_empty() {
        return Some("containers list can not be null".to_owned());
    }
    if pod.pod.phase.is_terminal() {
        return Some("not allowed to recreate containers in an inactive Pod".to_owned());
    }
    if pod.pod.node.is_empty() {
        return Some("not allowed to recreate containers in a pending Pod".to_owned());
    }
    let mut seen = BTreeSet::new();
    request.containers.iter().find_map(|wanted| {
        let name = &wanted.name;
        if !seen.insert(name) {
            return Some(format!("can not recreate {name} multi times"));
        }
        match pod.find(name) {
            None if pod.init_containers.contains(name) => {
                Some(format!("{name} is an init container; only containers and native sidecars (restartPolicy Always) can be restarted"))
            }
            None => Some(format!("container {name} not found in Pod")),
            Some((_, container, _)) => match &container.status {
                None => Some(format!("not found {name} containerStatus in Pod Status")),
                Some(status) if !was_started(status, around) => Some(format!(
                    "no containerID in {name} containerStatus, maybe the container has not been initialized"
                )),
                Some(_) => None,
            },
        }
    })
}

/// Returns true if the container has been started before, so that a restart differs from its first
/// start. Some virtual nodes report no container IDs.
fn was_started(status: &ContainerStatus, around: &Around<'_>) -> bool {
    !status.container_id.is_empty() || !around.node.is_some_and(NodeClass::is_kubelet)
}
