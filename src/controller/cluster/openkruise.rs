//! The state of OpenKruise on the cluster: where its daemon runs, the requests to it, and whether
//! its SidecarTerminator is on. [`Known`] holds the state; [`observe`] watches the cluster.

mod beside;
mod followed;
pub(crate) mod manager;
pub mod observe;

use std::collections::HashMap;

use swaplet_core::cluster::daemon_pod::DaemonPod;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::recreate_request::RecreateRequest;
use swaplet_core::terminate::openkruise::{Coexist, Daemon, Daemons, OpenKruise, Terminator};

use super::rules::Rules;
use crate::frame::serve::rights::Right;

/// An event about OpenKruise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A check is complete: the events before this one report all that exists.
    Seen,
    /// The state of its SidecarTerminator.
    Terminator(Terminator),
    /// A pod of its daemon was added or has changed.
    Daemon(DaemonPod),
    /// The pod of its daemon with this name was deleted.
    DaemonGone(Box<str>),
    /// A request to its daemon was added or has changed; with its key.
    Request(Box<str>, RecreateRequest),
    /// The request with this key was deleted.
    RequestGone(Box<str>),
    /// A watch or check has failed for this reason; it is retried automatically.
    Trouble(String),
    /// This right is missing, with the error of the API server.
    Lacks(Right, String),
    /// This right is not missing.
    Has(Right),
}

/// The pods to reconcile after an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerns {
    /// No pod at all.
    Nobody,
    /// The pod with this uid.
    Pod(Box<str>),
    /// The pods on this node.
    Node(Box<str>),
    /// Every pod that is kept.
    Everybody,
}

/// The known state of OpenKruise.
#[derive(Debug)]
pub struct Known {
    seen: bool,
    coexist: Coexist,
    terminator: Terminator,
    daemons: Daemons,
    /// The requests to its daemon, by namespace and uid of the pod.
    requests: HashMap<Box<str>, RecreateRequest>,
}

/// Returns the key of the request for a pod: its namespace and the uid of the pod. The uid comes
/// from the name of the request, which anybody may choose in a namespace of their own.
fn request_key(namespace: &str, pod_uid: &str) -> Box<str> {
    format!("{namespace}/{pod_uid}").into()
}

fn request_for<'a>(
    requests: &'a HashMap<Box<str>, RecreateRequest>,
    pod: &Pod,
) -> Option<&'a RecreateRequest> {
    // Where OpenKruise is not asked there are none, and no key is made for each event of a pod.
    if requests.is_empty() {
        return None;
    }
    requests.get(&request_key(&pod.namespace, &pod.uid))
}

/// Returns true if the rules depend on OpenKruise at all.
fn matters(rules: &Rules) -> bool {
    rules.coexist != Coexist::Own || rules.allowed.recreate
}

impl Known {
    /// Returns the state before the first check of the cluster.
    #[must_use]
    pub fn new(rules: &Rules) -> Self {
        Self {
            seen: !matters(rules),
            coexist: rules.coexist,
            terminator: Terminator::Absent,
            daemons: Daemons::default(),
            requests: HashMap::new(),
        }
    }

    /// Requires another check before anything is written: some loop has to know where the daemon
    /// runs, even if nothing else matters.
    pub const fn require_sight(&mut self) {
        self.seen = false;
    }

    /// Returns true if a pod of its daemon is on the node, Ready or not.
    #[must_use]
    pub fn has_daemon(&self, node: &str) -> bool {
        self.daemons.on(node) != Daemon::None
    }

    /// Like [`has_daemon`](Self::has_daemon), but `None` before the first check. An empty `node`
    /// means any node.
    #[must_use]
    pub fn has_daemon_if_seen(&self, node: &str) -> Option<bool> {
        self.seen.then(|| {
            if node.is_empty() {
                !self.daemons.are_none()
            } else {
                self.has_daemon(node)
            }
        })
    }

    /// Returns what decisions about a pod have to know of OpenKruise.
    #[must_use]
    pub fn around(&self, pod: &Pod) -> OpenKruise<'_> {
        OpenKruise {
            seen: self.seen,
            coexist: self.coexist,
            terminator: self.terminator,
            daemon: self.daemons.on(&pod.node),
            request: request_for(&self.requests, pod),
        }
    }

    /// Returns `class`, or [`NodeClass::Daemon`] for a kubelet beside which the daemon is Ready.
    #[must_use]
    pub fn class(&self, pod: &Pod, class: NodeClass) -> NodeClass {
        if class == NodeClass::Kubelet && self.daemons.on(&pod.node) == Daemon::Ready {
            NodeClass::Daemon
        } else {
            class
        }
    }

    /// Applies an event, and returns the pods to reconcile.
    pub fn handle(&mut self, news: News) -> Concerns {
        match news {
            News::Seen => {
                self.seen = true;
                Concerns::Everybody
            }
            News::Trouble(_) | News::Lacks(..) | News::Has(_) => Concerns::Nobody,
            News::Terminator(terminator) if terminator == self.terminator => Concerns::Nobody,
            News::Terminator(terminator) => {
                self.terminator = terminator;
                Concerns::Everybody
            }
            News::Daemon(pod) => self
                .daemons
                .apply(pod)
                .map_or(Concerns::Nobody, Concerns::Node),
            News::DaemonGone(name) => self
                .daemons
                .remove(&name)
                .map_or(Concerns::Nobody, Concerns::Node),
            News::Request(key, request) => {
                let uid = request.pod_uid.clone();
                self.requests.insert(key, request);
                Concerns::Pod(uid)
            }
            News::RequestGone(key) => match self.requests.remove(&key) {
                Some(request) => Concerns::Pod(request.pod_uid),
                None => Concerns::Nobody,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::cluster::exit_images::ExitImages;
    use swaplet_core::cluster::node_table::NodeTable;
    use swaplet_core::objects::pod::wire::PodWire;
    use swaplet_core::objects::recreate_request::RecreateRequestWire;
    use swaplet_core::terminate::methods::AllowedMethods;

    use super::beside::read_request;
    use super::*;

    fn request(namespace: &str) -> (Box<str>, News) {
        let name = RecreateRequest::name_for("u1");
        let request = json!({"metadata": {"name": name, "namespace": namespace}});
        let request: RecreateRequestWire = serde_json::from_value(request).unwrap();
        read_request(request).unwrap()
    }

    #[test]
    fn a_request_of_another_namespace_is_not_that_of_the_pod() {
        let mut known = Known::new(&Rules {
            exit_images: ExitImages::default(),
            allowed: AllowedMethods::default(),
            node_table: NodeTable::built_in(),
            coexist: Coexist::Auto,
        });
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "u1"}});
        let pod = serde_json::from_value::<PodWire>(pod).unwrap().read();
        let pod = pod.unwrap();
        let (of_others, news) = request("others");
        known.handle(news);
        assert_eq!(known.around(&pod).request, None);
        let (own, news) = request("default");
        assert_eq!(known.handle(news), Concerns::Pod("u1".into()));
        known.handle(News::RequestGone(of_others));
        assert!(known.around(&pod).request.is_some());
        known.handle(News::RequestGone(own));
        assert_eq!(known.around(&pod).request, None);
    }
}
