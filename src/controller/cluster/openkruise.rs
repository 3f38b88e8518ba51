//! What is known of OpenKruise on the cluster: where its daemon runs, what has become of the
//! requests to it, and whether its SidecarTerminator is on. [`Known`] is state only; [`observe`]
//! looks at the cluster.

mod beside;
mod followed;
pub(crate) mod manager;
pub mod observe;

use std::collections::HashMap;
use std::time::Duration;

use swaplet_core::cluster::daemon_pod::DaemonPod;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::recreate_request::RecreateRequest;
use swaplet_core::terminate::memory::past_exits::PastExits;
use swaplet_core::terminate::methods::recreate::patience;
use swaplet_core::terminate::openkruise::{Coexist, Daemon, Daemons, OpenKruise, Terminator};

use super::rules::Rules;

/// Something new about OpenKruise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Somebody has looked; what was told before is all there is.
    Seen,
    /// Whether its SidecarTerminator is on.
    Terminator(Terminator),
    /// A pod of its daemon is there, or has changed.
    Daemon(DaemonPod),
    /// The pod of its daemon with this name is gone.
    DaemonGone(Box<str>),
    /// A request to it is there, or has changed.
    Request(RecreateRequest),
    /// The request for the pod with this uid is gone.
    RequestGone(Box<str>),
    /// Something of it cannot be looked at, for this reason; another try follows by itself.
    Trouble(String),
    /// This cannot be done, because a right is missing; in the words of the API server.
    Lacks(&'static str, String),
    /// No right is missing for this.
    Has(&'static str),
}

/// Which pods are to be looked at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerns {
    /// None.
    Nobody,
    /// The pod with this uid.
    Pod(Box<str>),
    /// The pods on this node.
    Node(Box<str>),
    /// All.
    Everybody,
}

/// OpenKruise as far as it is known.
#[derive(Debug)]
pub struct Known {
    seen: bool,
    coexist: Coexist,
    terminator: Terminator,
    daemons: Daemons,
    /// By the uid of the pod.
    requests: HashMap<Box<str>, RecreateRequest>,
    /// Of use where its daemon may be asked to stop containers, and kept only there.
    past_exits: PastExits,
    may_ask: bool,
}

/// Whether OpenKruise matters at all.
fn matters(rules: &Rules) -> bool {
    rules.coexist != Coexist::Own || rules.allowed.recreate
}

impl Known {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(rules: &Rules) -> Self {
        Self {
            seen: !matters(rules),
            coexist: rules.coexist,
            terminator: Terminator::Absent,
            daemons: Daemons::default(),
            requests: HashMap::new(),
            past_exits: PastExits::new(),
            may_ask: rules.allowed.recreate,
        }
    }

    /// Has it looked for again before anything is written: somebody has to know where its daemon
    /// runs, whatever else matters.
    pub const fn require_sight(&mut self) {
        self.seen = false;
    }

    /// Whether a pod of its daemon is on the node, Ready or not.
    #[must_use]
    pub fn has_daemon(&self, node: &str) -> bool {
        self.daemons.on(node) != Daemon::None
    }

    /// As [`has_daemon`](Self::has_daemon), once somebody has looked; where no node is named,
    /// whether it is on any.
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

    /// What decisions about a pod have to know.
    #[must_use]
    pub fn around(&self, pod: &Pod) -> OpenKruise<'_> {
        OpenKruise {
            seen: self.seen,
            coexist: self.coexist,
            terminator: self.terminator,
            daemon: self.daemons.on(&pod.node),
            request: self.requests.get(&pod.uid),
            past_exits: &self.past_exits,
        }
    }

    /// A kubelet beside which the daemon is Ready is of another class.
    #[must_use]
    pub fn class(&self, pod: &Pod, class: NodeClass) -> NodeClass {
        if class == NodeClass::Kubelet && self.daemons.on(&pod.node) == Daemon::Ready {
            NodeClass::Daemon
        } else {
            class
        }
    }

    /// A pod was seen: how its sidecars ended is remembered. Whether others may wait for that.
    pub fn learn(&mut self, pod: &Pod, exit_images: &ExitImages) -> bool {
        self.may_ask
            && self
                .past_exits
                .learn(pod, self.requests.get(&pod.uid), exit_images)
    }

    /// A request for these containers of a pod is about to be made.
    pub fn request_begins(&mut self, pod: &Pod, containers: &[Box<str>], now: Duration) {
        self.past_exits
            .try_starts(pod, containers, now.saturating_add(patience(pod)));
    }

    /// The pod is forgotten, or its request was not made.
    pub fn request_ends(&mut self, uid: &str) {
        self.past_exits.try_ends(uid);
    }

    /// Takes in what is new.
    pub fn hear(&mut self, news: News) -> Concerns {
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
            News::Request(request) => {
                let uid = request.pod_uid.clone();
                self.requests.insert(uid.clone(), request);
                Concerns::Pod(uid)
            }
            News::RequestGone(uid) => {
                self.requests.remove(&uid);
                Concerns::Pod(uid)
            }
        }
    }
}
