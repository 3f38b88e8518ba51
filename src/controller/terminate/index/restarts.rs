//! The part of the index that restarts of single containers need: the surroundings of their pods,
//! and the headroom of the Jobs.

use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::{Headroom, Ledger, Need};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;

use super::{Begun, Index};

impl Index {
    /// Returns the exit images of the installation.
    pub const fn exit_images(&self) -> &ExitImages {
        &self.rules.exit_images
    }

    /// Returns the class of a pod's node; `None` if it is not known yet. `since` is when the pod
    /// was first requested.
    pub fn node_for_restart(&self, pod: &Pod, since: Moment, now: Moment) -> Option<NodeClass> {
        let (class, facts) = self.nodes.about(pod, Some(since), now);
        let known = facts.unseen_until.is_none() && self.openkruise.around(pod).seen;
        // A daemon that is not Ready may become so and handle the request.
        known.then(|| {
            if self.openkruise.has_daemon(&pod.node) {
                NodeClass::Daemon
            } else {
                class
            }
        })
    }

    /// Returns whether this many restarts fit into the headroom of the pod's Job, beside those that
    /// may still come of an earlier request. That is unknown while a swap of the pod is in flight,
    /// or is not shown: what it takes must not be taken for theirs.
    pub fn room_for_restarts(&self, pod: &Pod, restarts: u32) -> Headroom {
        let swapped = self.entries.get(&pod.uid);
        if Ledger::counts(pod) && swapped.is_some_and(|entry| entry.may_have_written()) {
            return Headroom::TooEarly;
        }
        let earlier = self.earlier(pod);
        let all = restarts.saturating_add(earlier);
        match self.headroom.answer_restarts(pod, all) {
            // There may be room once those have come, or cannot come any more.
            Headroom::NeverFits(shortage) if earlier > 0 => Headroom::Wait(shortage),
            answer => answer,
        }
    }

    /// Returns the number of restarts that may still come of requests for a pod that ended before.
    fn earlier(&self, pod: &Pod) -> u32 {
        self.restarting
            .get(&pod.uid)
            .map_or(0, |begun| match begun.until {
                Some(_) => begun.coming(),
                None => begun.earlier.min(begun.coming()),
            })
    }

    /// Records what a restart has proved about the node of a pod.
    pub fn learn_by_restart(&mut self, pod: &Pod, proved: Proved, now: Moment) {
        if let Some(learned) = self.nodes.learn(pod, proved, now) {
            self.learned(learned, &pod.uid);
        }
    }

    /// Records that this many containers of the pod are about to be restarted: they count against
    /// its Job until the restarts are observed.
    pub fn restarts_begin(&mut self, pod: &Pod, restarts: u32) {
        if Ledger::counts(pod) {
            let earlier = self.earlier(pod);
            let restarts = restarts.saturating_add(earlier);
            let begun = Begun {
                pod: pod.clone(),
                restarts,
                earlier,
                shown: 0,
                until: None,
                list: self.list,
            };
            self.restarting.insert(pod.uid.clone(), begun);
            self.headroom.need(pod, Need::Begun(restarts));
        }
    }

    /// Records that this many restarts of the pod are still to come, unless that is known: an
    /// earlier run of the process has begun them.
    pub fn restarts_go_on(&mut self, pod: &Pod, restarts: u32) {
        if restarts > 0 && !self.restarting.contains_key(&pod.uid) {
            self.restarts_begin(pod, restarts);
        }
    }

    /// Records that this many containers of the pod are about to be restarted for no request,
    /// unless restarts of the pod are counted already: those of its last request include these.
    pub fn restarts_for_nobody(&mut self, pod: &Pod, restarts: u32, now: Moment) {
        if restarts > 0 && !self.restarting.contains_key(&pod.uid) {
            self.restarts_begin(pod, restarts);
            self.restarts_cut_short(&pod.namespace, &pod.uid, now);
        }
    }

    /// Records that nothing waits any more for the restarts in the pod with this uid, if it is in
    /// this namespace: requests may say any uid. The restarts may still happen, so they count until
    /// they are shown or cannot come any more.
    pub fn restarts_cut_short(&mut self, namespace: &str, uid: &str, now: Moment) {
        let begun = self.restarting.get_mut(uid);
        if let Some(begun) = begun.filter(|begun| &*begun.pod.namespace == namespace) {
            begun.until.get_or_insert(now + begun.late_effect());
            self.give_back(now);
        }
    }

    /// Handles a state of a pod whose containers are being restarted.
    pub(crate) fn restarts_shown(&mut self, pod: &Pod, now: Moment) {
        if pod.phase.is_terminal() {
            self.restarting.remove(&pod.uid);
        } else if let Some(begun) = self.restarting.get_mut(&pod.uid) {
            (begun.shown, begun.list) = (pod.restarts(), self.list);
            self.give_back(now);
        }
    }

    /// Returns the number of pods with restarts that have begun.
    #[cfg(test)]
    pub(crate) fn restarts_begun(&self) -> usize {
        self.restarting.len()
    }

    /// Returns the next time at which a restart that nothing waits for can no longer come.
    pub(crate) fn next_given_back(&self) -> Option<Moment> {
        self.restarting
            .values()
            .filter_map(|begun| begun.until)
            .min()
    }

    /// Releases the headroom of restarts that nothing waits for.
    pub(crate) fn give_back(&mut self, now: Moment) {
        let over = self.restarting.extract_if(|_, begun| {
            begun
                .until
                .is_some_and(|until| until <= now || begun.is_shown())
        });
        for (uid, begun) in over {
            // The claim of a pod whose swap is in flight, or not shown yet, is that of the swap.
            let entry = self.entries.get(&uid);
            if !entry.is_some_and(|entry| entry.may_have_written()) {
                self.headroom.need(&begun.pod, Need::Nothing);
            }
        }
    }
}
