//! Handles the watch events of requests and their pods.

use std::collections::BTreeSet;

use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::request::{RestartRequest, RestartRequestWire};

use super::{Entry, Key, MOST_GONE, Restarts, pod_key};
use crate::frame::isolated::read;
use crate::frame::queue::reschedule;
use crate::frame::store::Changes;
use crate::frame::watch::Event;

impl Restarts {
    /// Handles an event of the watch of requests.
    pub fn handle(&mut self, event: Event<RestartRequestWire>, now: Moment) {
        let read = |request: RestartRequestWire| {
            let request = read("request", || request.read());
            if request.is_none() {
                tracing::warn!(
                    "a ContainerRecreateRequest of the watch has no name, namespace or uid; it is left alone"
                );
            }
            request
        };
        // The loop reports troubles.
        let changes = self.requests.observe(event, now, read);
        self.follow(changes, now);
    }

    /// Handles changes of requests, by the watch or by an answer.
    pub(super) fn follow(&mut self, changes: Changes<RestartRequest, Entry>, now: Moment) {
        let mut pods = BTreeSet::new();
        for (key, request, mut entry) in changes.gone {
            reschedule(&mut self.due, &key, &mut entry.due, None);
            pods.insert(self.ends(&request, false));
        }
        if let Some((key, before)) = changes.put {
            let request = self.requests.get(&key).map(|(request, _)| request);
            let goes_on = request.is_some_and(is_under_way);
            pods.extend(before.map(|before| self.ends(&before, goes_on)));
            if let Some((request, _)) = self.requests.get(&key) {
                self.by_pod.add(request);
                pods.insert(pod_key(request));
            }
            self.enqueue(key);
        }
        let Self {
            fresh, requests, ..
        } = self;
        // A namespace that may begin no write now keeps its place in the queue.
        if fresh.len() > 2 * requests.len() + MOST_GONE {
            fresh.retain(|key| requests.has(key));
        }
        pods.iter().for_each(|pod| self.pod_has_changed(pod, now));
    }

    /// Handles the end of a state of a request; in the next one its restarts may go on. Returns its
    /// pod.
    fn ends(&mut self, request: &RestartRequest, goes_on: bool) -> Key {
        self.by_pod.remove(request);
        if is_under_way(request) && !goes_on {
            self.cut_short(request);
        }
        pod_key(request)
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
    pub fn observe(&mut self, key: &Key, event: Event<RestartPodWire>, now: Moment) {
        let Some(entry) = self.pods.get_mut(key) else {
            return;
        };
        if matches!(event, Event::Current(_)) {
            return;
        }
        let before = entry.kind();
        // The loop reports trouble.
        entry.observe(event, now);
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
        let gone = self.requests.forget(key);
        let gone = gone.map(|(request, entry)| (key.clone(), request, entry));
        let gone = gone.into_iter().collect();
        self.follow(Changes { gone, put: None }, now);
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
