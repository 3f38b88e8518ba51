//! Decides about one request, from the state of its pod and its node.

use swaplet_core::cluster::headroom::Headroom;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::PROVIDER_FAILED;
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::pod::RestartPod;
use swaplet_core::restart::reconcile::{Around, Decision, Sight, decide, restarts_coming};
use swaplet_core::restart::request::RestartRequest;

use super::by_pod::{Key, pod_key};
use super::pods::Seen;
use super::{Entry, NODE_AGAIN, Restarts};
use crate::frame::clock::Now;
use crate::terminate::index::{Effect, Index};

impl Restarts {
    pub(super) fn judge(&mut self, key: &Key, index: &mut Index, now: Now) -> Option<Decision> {
        let Now { moment, today } = now;
        let request = &self.requests.get(key)?.request;
        let is_first = self.by_pod.is_first(request);
        let pod = self.pods.get(&pod_key(request));
        let sight = pod.map_or(Sight::Unseen, |entry| entry.sight.as_sight());
        let there = match sight {
            Sight::There(there) => Some(there),
            Sight::Unseen | Sight::Refused(_) | Sight::Absent => None,
        };
        self.learned
            .extend(there.and_then(|pod| learn(request, pod, index, moment)));
        let node = there
            .zip(pod)
            .and_then(|(there, entry)| index.node_for_restart(&there.pod, entry.since, moment));
        let left_to_vendor = match self.by_pod.nodes_tell {
            true => left_to_vendor(sight, node, index),
            false => Some(true),
        };
        let looked_for = pod.filter(|entry| matches!(entry.sight, Seen::NotYet | Seen::Refused(_)));
        let entry = self.requests.get_mut(key)?;
        entry.memory.unseen_since = looked_for.map(|entry| entry.since);
        entry.observe(sight, index, moment);
        if let Some(there) = there {
            index.restarts_go_on(&there.pod, still_coming(&entry.request, there));
        }
        let room = |restarts| {
            there.map_or(Headroom::TooEarly, |pod| {
                index.room_for_restarts(&pod.pod, restarts)
            })
        };
        let around = Around {
            exit_images: index.exit_images(),
            park: self.park.as_ref(),
            node,
            kubelet: there.and_then(|pod| index.kubelet_for_restart(&pod.pod)),
            runs_on: there.map_or_else(RunsOn::default, |pod| index.nodes.runs_on(&pod.pod)),
            room: &room,
            is_first,
            left_to_vendor,
            now: moment,
            today,
        };
        let decision = decide(&entry.request, sight, &entry.memory, &around);
        entry.memory.note(&decision, moment);
        let node_is_awaited =
            there.is_some() && node.is_none() && decision.reason == Reason::RequestWaits;
        self.requeue_at(key, again(&decision, node_is_awaited, moment));
        Some(decision)
    }
}

/// Returns whether the vendor of the pod's node handles such requests, where nodes may report that
/// it does not; `None` if the node is not known yet.
fn left_to_vendor(sight: Sight<'_>, node: Option<NodeClass>, index: &Index) -> Option<bool> {
    match sight {
        Sight::There(pod) => node.map(|_| index.is_left_to_vendor(&pod.pod)),
        Sight::Unseen | Sight::Refused(_) => None,
        Sight::Absent => Some(true),
    }
}

/// Returns when to decide again. A time that has passed would be due again at once, forever.
fn again(decision: &Decision, node_is_awaited: bool, now: Moment) -> Option<Moment> {
    let soon = now + NODE_AGAIN;
    let at = decision
        .again
        .into_iter()
        .chain(node_is_awaited.then_some(soon))
        .min()?;
    Some(if at > now { at } else { soon })
}

impl Entry {
    /// Updates the memory of the request.
    fn observe(&mut self, sight: Sight<'_>, index: &Index, now: Moment) {
        if self.request.is_taken() || self.request.ends_sidecars() {
            let is_gone = index.has_daemon_for_restart(&self.request.node) == Some(false);
            self.memory.without_daemon = is_gone.then(|| self.memory.without_daemon.unwrap_or(now));
        }
        if let Sight::There(pod) = sight {
            self.memory.observe(&self.request, pod, now);
        }
    }
}

/// Returns how many restarts are still to come in the pod of a request that is under way.
fn still_coming(request: &RestartRequest, pod: &RestartPod) -> u32 {
    let is_its_pod = request.pod_uid.as_ref() == Some(&pod.pod.uid);
    if is_its_pod && !request.is_completed() {
        restarts_coming(request, pod)
    } else {
        0
    }
}

/// Records that a provider failed on a change of ours: it fails on those for other pods too.
fn learn(
    request: &RestartRequest,
    pod: &RestartPod,
    index: &mut Index,
    now: Moment,
) -> Option<Effect> {
    let changed = |name: &str| {
        let intent = request.mark(name).and_then(|mark| mark.intent.as_ref());
        intent
            .zip(pod.find(name))
            .is_some_and(|(intent, (_, container, _))| container.image == intent.to)
    };
    let failed = *pod.pod.reason == *PROVIDER_FAILED
        && request
            .containers
            .iter()
            .any(|wanted| changed(&wanted.name));
    failed
        .then(|| index.learn_by_restart(&pod.pod, Proved::Rejects, now))
        .flatten()
}
