//! The decision about one request, with what is known of its pod and its node.

use std::time::Duration;

use swaplet_core::cluster::headroom::Headroom;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::pod::PROVIDER_FAILED;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::pod::RestartPod;
use swaplet_core::restart::reconcile::{Around, Decision, Sight, decide};
use swaplet_core::restart::request::RestartRequest;

use super::{Entry, Key, NODE_AGAIN, Restarts, Seen, pod_key};
use crate::frame::clock::Now;
use crate::terminate::index::{Effect, Index};

impl Restarts {
    pub(super) fn judge(&mut self, key: &Key, index: &mut Index, now: Now) -> Option<Decision> {
        let Now { since_start, today } = now;
        let request = &self.requests.get(key)?.request;
        let is_first = self.by_pod.is_first(request);
        let pod = self.pods.get(&pod_key(request));
        let sight = pod.map_or(Sight::Unseen, |entry| entry.sight.as_sight());
        let node = match (sight, pod) {
            (Sight::There(there), Some(entry)) => {
                self.learned
                    .extend(learn(request, there, index, since_start));
                index.node_for_restart(&there.pod, entry.since, since_start)
            }
            _ => None,
        };
        let left_to_vendor = match sight {
            Sight::There(pod) if self.by_pod.nodes_tell => {
                node.map(|_| index.is_left_to_vendor(&pod.pod))
            }
            Sight::Unseen | Sight::Refused(_) if self.by_pod.nodes_tell => None,
            _ => Some(true),
        };
        let looked_for = pod.filter(|entry| matches!(entry.sight, Seen::NotYet | Seen::Refused(_)));
        let entry = self.requests.get_mut(key)?;
        entry.memory.unseen_since = looked_for.map(|entry| entry.since);
        entry.observe(sight, index, since_start);
        let room = |restarts| match sight {
            Sight::There(pod) => index.room_for_restarts(&pod.pod, restarts),
            _ => Headroom::TooEarly,
        };
        let park = self.park.as_ref();
        let kubelet = match sight {
            Sight::There(pod) => index.kubelet_for_restart(&pod.pod),
            _ => None,
        };
        let around = Around {
            exit_images: index.exit_images(),
            park,
            node,
            kubelet,
            room: &room,
            is_first,
            left_to_vendor,
            now: since_start,
            today,
        };
        let decision = decide(&entry.request, sight, &entry.memory, &around);
        entry.memory.note(&decision, since_start);
        let unseen = matches!(sight, Sight::There(_))
            && node.is_none()
            && decision.reason == Reason::RequestWaits;
        let again = decision
            .again
            .into_iter()
            .chain(unseen.then(|| since_start + NODE_AGAIN))
            .min();
        // A time that is over would be now again at once, for ever.
        let later = |at| match at > since_start {
            true => at,
            false => since_start + NODE_AGAIN,
        };
        self.look_later(key, again.map(later));
        Some(decision)
    }
}

impl Entry {
    /// Brings what is remembered of the request up to date.
    fn observe(&mut self, sight: Sight<'_>, index: &Index, now: Duration) {
        if self.request.is_taken() {
            let is_gone = index.has_daemon_for_restart(&self.request.node) == Some(false);
            self.memory.without_daemon = is_gone.then(|| self.memory.without_daemon.unwrap_or(now));
        }
        if let Sight::There(pod) = sight {
            self.memory.observe(&self.request, pod, now);
        }
    }
}

impl Seen {
    fn as_sight(&self) -> Sight<'_> {
        match self {
            Self::NotYet => Sight::Unseen,
            Self::Refused(why) => Sight::Refused(why),
            Self::Absent => Sight::Absent,
            Self::There(pod) => Sight::There(pod),
        }
    }
}

/// A provider that has failed on a change of ours fails on those for other pods as well.
fn learn(
    request: &RestartRequest,
    pod: &RestartPod,
    index: &mut Index,
    now: Duration,
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
