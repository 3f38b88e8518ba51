//! Handles the watch events of requests and their pods.

use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::reconcile::Memory;
use swaplet_core::restart::request::{RestartRequest, RestartRequestWire};

use super::pods::Seen;
use super::{Entry, Key, MOST_GONE, Restarts, Retry, pod_key};
use crate::frame::isolated::read;
use crate::frame::queue::reschedule;
use crate::frame::watch::Event;
use crate::frame::watch::mirror::Change;

/// Why the pod of a request is not read: its names are there, as it is watched by them.
const UNREADABLE: &str =
    "its hooks and ports are larger than 128 KiB, or reading it failed (the log says why)";

impl Restarts {
    /// Handles an event of the watch of requests.
    pub fn handle(&mut self, event: Event<RestartRequestWire>, now: Moment) {
        let read = |request: RestartRequestWire| {
            let Some(request) = read("request", || request.read()) else {
                tracing::warn!(
                    "a ContainerRecreateRequest of the watch has no name, namespace or uid; it is left alone"
                );
                return None;
            };
            let key = (request.namespace.clone(), request.name.clone());
            Some((key, request))
        };
        let known = self.requests.keys().cloned();
        // The loop reports troubles.
        match self.mirror.change(event, known, read) {
            Some(Change::Put(request)) => self.apply(request, now),
            Some(Change::Gone(keys)) => keys.iter().for_each(|key| self.forget(key, now)),
            None => {}
        }
    }

    fn apply(&mut self, request: RestartRequest, now: Moment) {
        let key = (request.namespace.clone(), request.name.clone());
        let before = self
            .requests
            .remove(&key)
            .inspect(|entry| self.by_pod.remove(&entry.request));
        self.by_pod.add(&request);
        if let Some(before) = &before {
            let goes_on = before.request.uid == request.uid && is_under_way(&request);
            if is_under_way(&before.request) && !goes_on {
                self.cut_short(&before.request);
            }
        }
        let pod = pod_key(&request);
        if let Some(other) = before
            .as_ref()
            .map(|entry| pod_key(&entry.request))
            .filter(|other| *other != pod)
        {
            self.pod_has_changed(&other, now);
        }
        let entry = match before {
            Some(entry) if entry.request.uid == request.uid => Entry { request, ..entry },
            other => {
                if let Some(mut other) = other {
                    reschedule(&mut self.due, &key, &mut other.due, None);
                }
                Entry {
                    request,
                    memory: Memory::default(),
                    retry: Retry::default(),
                    due: None,
                }
            }
        };
        self.requests.insert(key.clone(), entry);
        self.enqueue(key);
        self.pod_has_changed(&pod, now);
    }

    /// Handles a change of the requests for a pod.
    pub(crate) fn pod_has_changed(&mut self, pod: &Key, now: Moment) {
        if self.by_pod.needs(pod) {
            self.pods.want(pod, now)
        } else {
            self.pods.release(pod, now)
        }
        self.enqueue_concerned(pod);
        self.orphans.enqueue(pod);
    }

    /// Handles an event of the watch of parked pods.
    pub fn observe_parked(&mut self, event: Event<RestartPodWire>, now: Moment) {
        self.orphans.observe(event, now);
    }

    /// Handles an event of the watch of one pod.
    pub fn observe(&mut self, key: &Key, event: Event<RestartPodWire>) {
        let Some(entry) = self.pods.get_mut(key) else {
            return;
        };
        let before = entry.kind();
        match event {
            Event::ListStart => entry.listed = false,
            Event::Listed(pod) | Event::Applied(pod) => {
                entry.listed = true;
                match read("pod", || pod.read()) {
                    Some(pod) => entry.sight = Seen::There(Box::new(pod)),
                    // What was seen of it before may be all that is needed.
                    None if matches!(entry.sight, Seen::There(_)) => {}
                    None => entry.sight = Seen::Refused(UNREADABLE.into()),
                }
            }
            Event::ListEnd if !entry.listed => entry.sight = Seen::Absent,
            Event::Deleted(_) => entry.sight = Seen::Absent,
            Event::Hidden(why) if matches!(entry.sight, Seen::NotYet) => {
                entry.sight = Seen::Refused(why.into())
            }
            Event::Current(_) | Event::Relists(_) => return,
            // The loop reports trouble.
            Event::ListEnd | Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {}
        }
        if entry.kind() == before {
            self.enqueue_concerned(key);
        } else {
            let names: Vec<_> = self.by_pod.names(key).cloned().collect();
            names
                .into_iter()
                .for_each(|name| self.enqueue((key.0.clone(), name)));
        }
    }

    pub(crate) fn enqueue(&mut self, request: Key) {
        let namespace = request.0.clone();
        self.fresh.push(&namespace, request);
    }

    fn enqueue_concerned(&mut self, pod: &Key) {
        for name in self.by_pod.concerned(pod) {
            self.enqueue((pod.0.clone(), name));
        }
    }

    /// Drops a request that is gone, or for which nothing is left to do.
    pub(crate) fn forget(&mut self, key: &Key, now: Moment) {
        let Some(mut entry) = self.requests.remove(key) else {
            return;
        };
        reschedule(&mut self.due, key, &mut entry.due, None);
        self.by_pod.remove(&entry.request);
        let Self {
            fresh, requests, ..
        } = self;
        // A namespace that may begin no write now keeps its place in the queue.
        if fresh.len() > 2 * requests.len() + MOST_GONE {
            fresh.retain(|key| requests.contains_key(key));
        }
        if is_under_way(&entry.request) {
            self.cut_short(&entry.request);
        }
        self.pod_has_changed(&pod_key(&entry.request), now);
    }

    /// Records that nothing waits any more for the restarts that a request has begun.
    fn cut_short(&mut self, request: &RestartRequest) {
        let seen = || {
            let pod = self.pods.seen(&pod_key(request))?;
            Some(pod.pod.uid.clone())
        };
        let pod = request.pod_uid.clone().or_else(seen);
        let namespace = request.namespace.clone();
        self.halfway.extend(pod.map(|uid| (namespace, uid)));
    }
}

fn is_under_way(request: &RestartRequest) -> bool {
    request.has_begun() && !request.is_completed()
}
