//! An index of the requests by pod, so that nothing scans all requests for one pod: a tenant may
//! have thousands, also for one pod.

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::restart::reconcile::needs_pod;
use swaplet_core::restart::request::RestartRequest;
use swaplet_core::restart::request::place::Place;

/// A namespace and a name.
pub type Key = (Box<str>, Box<str>);

/// Returns the key of the pod of a request.
pub(crate) fn pod_key(request: &RestartRequest) -> Key {
    (request.namespace.clone(), request.pod_name.clone())
}

/// All requests, by pod.
#[derive(Default)]
pub(crate) struct ByPod {
    pods: BTreeMap<Key, Requests>,
    /// True if a node may report that its vendor does not handle requests with OpenKruise's label
    /// for virtual nodes.
    pub nodes_tell: bool,
}

/// The names of the requests for one pod.
#[derive(Default)]
struct Requests {
    all: BTreeSet<Box<str>>,
    /// The requests that can be decided only if the pod is watched.
    needing: BTreeSet<Box<str>>,
    /// The completed requests that still need the pod.
    held: BTreeSet<Box<str>>,
    /// The requests that somebody else carries out.
    left: BTreeSet<Box<str>>,
    /// The requests that are carried out one after another.
    line: BTreeSet<Place>,
}

impl ByPod {
    /// Returns an empty index.
    pub fn new(nodes_tell: bool) -> Self {
        Self {
            nodes_tell,
            ..Self::default()
        }
    }

    /// Adds a request.
    pub fn add(&mut self, request: &RestartRequest) {
        let needs_pod = needs_pod(request, self.nodes_tell);
        let requests = self.pods.entry(pod_key(request)).or_default();
        requests.all.insert(request.name.clone());
        let place = Place::of(request);
        if needs_pod {
            requests.needing.insert(request.name.clone());
            if place.is_none() {
                requests.held.insert(request.name.clone());
            }
        }
        requests.line.extend(place);
    }

    /// Removes a request, before it is deleted or replaced.
    pub fn remove(&mut self, request: &RestartRequest) {
        let pod = pod_key(request);
        let Some(requests) = self.pods.get_mut(&pod) else {
            return;
        };
        for names in [
            &mut requests.all,
            &mut requests.needing,
            &mut requests.held,
            &mut requests.left,
        ] {
            names.remove(&request.name);
        }
        if let Some(place) = Place::of(request) {
            requests.line.remove(&place);
        }
        if requests.all.is_empty() {
            self.pods.remove(&pod);
        }
    }

    /// Returns true if a pod must be watched.
    pub fn needs(&self, pod: &Key) -> bool {
        self.pods
            .get(pod)
            .is_some_and(|requests| !requests.needing.is_empty())
    }

    /// Returns true if no other request precedes this one.
    pub fn is_first(&self, request: &RestartRequest) -> bool {
        let line = self
            .pods
            .get(&pod_key(request))
            .map(|requests| &requests.line);
        let others_before = line
            .and_then(BTreeSet::first)
            .filter(|first| first.name != request.name);
        others_before.is_none_or(|first| Place::of(request).is_some_and(|place| place < *first))
    }

    /// Records whether somebody else carries a request out. Returns true if that holds for all
    /// requests for its pod.
    pub fn leave(&mut self, request: &RestartRequest, left: bool) -> bool {
        let Some(requests) = self.pods.get_mut(&pod_key(request)) else {
            return false;
        };
        if left {
            requests.left.insert(request.name.clone())
        } else {
            requests.left.remove(&request.name)
        };
        requests.left.len() == requests.all.len()
    }

    /// Returns the names of all requests for a pod.
    pub fn names(&self, pod: &Key) -> impl Iterator<Item = &Box<str>> {
        self.pods
            .get(pod)
            .into_iter()
            .flat_map(|requests| &requests.all)
    }

    /// Returns the names of the requests that the state of the pod matters for: those that are
    /// begun, the next one, and those that hold something of it. The others are queued.
    pub fn concerned(&self, pod: &Key) -> Vec<Box<str>> {
        let Some(requests) = self.pods.get(pod) else {
            return Vec::new();
        };
        let begun = requests.line.iter().take_while(|place| !place.waits);
        let next = requests.line.iter().find(|place| place.waits);
        begun
            .chain(next)
            .map(|place| &place.name)
            .chain(&requests.held)
            .cloned()
            .collect()
    }
}
