//! What restarts of single containers need to know of what is around their pods, and what they tell the Jobs of these.

use std::time::Duration;

use super::{Effect, Index};
use crate::decide::exit_images::ExitImages;
use crate::decide::headroom::{Headroom, Need};
use crate::decide::node_class::NodeClass;
use crate::decide::node_verdicts::Proved;
use crate::objects::node::KubeletVersion;
use crate::objects::pod::Pod;

impl Index {
    /// Restarts of single containers are decided with this index.
    #[must_use]
    pub const fn with_restarts(mut self) -> Self {
        self.openkruise.is_wanted();
        self
    }

    /// The exit images of the installation.
    #[must_use]
    pub const fn exit_images(&self) -> &ExitImages {
        &self.rules.exit_images
    }

    /// The class of a pod's node; `None` where it is not known yet. `since` is when the pod was first wanted.
    #[must_use]
    pub fn node_for_restart(&self, pod: &Pod, since: Duration, now: Duration) -> Option<NodeClass> {
        let (class, facts) = self.nodes.about(pod, Some(since), now);
        let known = facts.unseen_until.is_none() && self.openkruise.around(pod).seen;
        // A daemon that is not Ready may become so, and find the request.
        known.then(|| if self.openkruise.has_daemon(&pod.node) { NodeClass::Daemon } else { class })
    }

    /// The version of the kubelet of a pod's node.
    #[must_use]
    pub fn kubelet_for_restart(&self, pod: &Pod) -> Option<KubeletVersion> {
        self.nodes.kubelet(pod)
    }

    /// Whether so many restarts fit into what the Job of the pod allows.
    #[must_use]
    pub fn room_for_restarts(&self, pod: &Pod, restarts: u32) -> Headroom {
        self.headroom.answer_restarts(pod, restarts)
    }

    /// What a restart has proved of the node of a pod, if that is news.
    pub fn learn_by_restart(&mut self, pod: &Pod, proved: Proved, now: Duration) -> Option<Effect> {
        let learned = self.nodes.learn(pod, proved, now)?;
        Some(self.learned(learned, &pod.uid))
    }

    /// So many containers of the pod are about to be restarted: this counts against its Job until the restarts are seen.
    pub fn restarts_begin(&mut self, pod: &Pod, restarts: u32) {
        self.restarting.insert(pod.uid.clone(), restarts);
        self.headroom.need(pod, Need::Asked(restarts));
    }

    /// What was said to begin is seen, or does not come any more.
    pub fn restarts_end(&mut self, pod: &Pod) {
        if self.restarting.remove(&pod.uid).is_some() {
            self.headroom.need(pod, Need::Nothing);
        }
    }
}
