//! What must hold in a world.

use swaplet_controller::cluster::nodes::Learned;
use swaplet_controller::terminate::index::Write;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::report::decision::Finish;

use super::objects::{Container, Kind, Place, Pod, State, Tries};
use super::server::Answer;
use super::world::World;

/// No world takes more calls.
const STEPS: u64 = 2_000_000;
/// So many tries follow each other within a minute, as each back-off doubles from half a second:
/// that after denials, and that after writes without an answer.
const QUICK_TRIES: u32 = 16;
/// After so many tries of an exit image that does not start, the pod has to be ended otherwise.
const BAD_TRIES: u32 = 12;

impl World {
    /// Returns false if the loop goes on and on.
    pub fn comes_to_an_end(&mut self) -> bool {
        if self.steps > STEPS {
            self.problem("too many steps".to_owned());
        } else if self.controller.wakes.1 > 400 {
            self.problem("it wakes more than 400 times in a second".to_owned());
        } else {
            return true;
        }
        false
    }

    pub fn check_wake(&mut self) {
        let second = self.now / 1000;
        let (of, number) = self.controller.wakes;
        self.controller.wakes = (second, if of == second { number + 1 } else { 1 });
    }

    /// An object that does not change gets a write a minute at most, after the first few.
    pub fn check_try(&mut self, write: &Write) {
        let now = self.now;
        let uid = &*write.target.uid;
        let pod = self.pods.iter_mut().find(|pod| pod.uid == uid).unwrap();
        let tries = &mut pod.tries;
        if tries.version != pod.version {
            *tries = Tries {
                version: pod.version,
                ..Tries::default()
            };
        }
        let passed = now - tries.last;
        tries.quick += u32::from(tries.last > 0 && passed < 60_000);
        tries.last = now;
        if tries.quick > QUICK_TRIES && passed < 60_000 {
            let (name, method) = (pod.name.clone(), write.action.method());
            self.problem(format!(
                "{name} has not changed, and is written again after {passed} ms, by {method:?}"
            ));
        }
    }

    /// The next life does not know them.
    pub fn forget_tries(&mut self) {
        for pod in &mut self.pods {
            pod.tries = Tries::default();
        }
    }

    /// Returns when a sidecar may be ended at the earliest.
    fn due(&self, pod: &Pod, sidecar: &Container) -> u64 {
        let seconds = sidecar.delay.unwrap_or(0) + sidecar.wait.unwrap_or(0);
        pod.mains_done.unwrap_or(self.now) + 1000 * seconds
    }

    pub fn check_swap(&mut self, at: usize, places: &[usize]) {
        let pod = self.pods[at].clone();
        if !pod.mains_are_over() {
            self.problem(format!("pod-{at}: swapped while a main runs"));
        }
        for &place in places {
            let one = &pod.containers[place];
            let (name, due) = (&one.name, self.due(&pod, one));
            if self.now + 1 < due {
                let early = due - self.now;
                self.problem(format!(
                    "pod-{at} {name}: swapped {early} ms before it was due"
                ));
            }
            if matches!(one.kind, Kind::Main | Kind::Volume) {
                self.problem(format!("pod-{at} {name}: a {:?} was swapped", one.kind));
            }
            if one.is_doubtful() && pod.place == Place::Kubelet {
                self.problem(format!(
                    "pod-{at} {name}: swapped on a kubelet, though it is not certain that {:?} ends well",
                    one.kind
                ));
            }
            self.check_order(&pod, one, places);
        }
    }

    /// A step begins when those before it have ended, or cannot be ended by swaps.
    fn check_order(&mut self, pod: &Pod, one: &Container, places: &[usize]) {
        let of = |one: &Container| one.order.unwrap_or(0);
        let sidecars = pod.sidecars().count() as u64;
        let patience = 60_000 + pod.grace * 1000 * sidecars;
        let fails = |low: &Container| {
            low.attempts > 0
                || matches!(low.state, State::Waiting(..))
                || low.kind != Kind::Plain
                || low.ignored
        };
        for (place, low) in pod.containers.iter().enumerate() {
            if !low.is_sidecar() || of(low) >= of(one) || places.contains(&place) {
                continue;
            }
            let is_awaited = low.swapped_at.is_none_or(|at| self.now < at + patience);
            let is_denied = low.swapped_at.is_none()
                && self.namespaces[pod.namespace].to_swaps != Answer::Applied;
            // What one pod has shown of the exit image, others do not try; a lone sidecar that fails by
            // itself during its swap is taken for that.
            let does_not_start = |other: &Container| other.name == low.name && other.attempts > 0;
            let has_failed = |other: &Pod| {
                other.namespace == pod.namespace
                    && (other.phase == "Failed" || other.containers.iter().any(does_not_start))
            };
            let is_doubted = self.options.broken_exits
                || self.options.pulls_fail
                || self.pods.iter().any(has_failed);
            let is_blocked = fails(low) || is_denied || is_doubted && low.swapped_at.is_none();
            if !low.is_over(pod.never) && is_awaited && !is_blocked {
                self.problem(format!(
                    "{} {}: swapped before {} of a lower order has ended ({:?}, swapped {:?})",
                    pod.name, one.name, low.name, low.state, low.swapped_at
                ));
            }
        }
    }

    pub fn check_finish(&mut self, at: usize, finish: &Finish) {
        let pod = self.pods[at].clone();
        if !pod.mains_are_over() {
            self.problem(format!("pod-{at}: finished while a main runs"));
        }
        let phase = finish.phase.as_str();
        if pod.mains_succeeded() != (phase == "Succeeded") {
            self.problem(format!("pod-{at}: wrong phase {phase} written"));
        }
        if finish.nudge != (pod.place == Place::Kubelet) {
            self.problem(format!("pod-{at}: nudge is {}", finish.nudge));
        }
        // An exit image that has failed twice in a pod is not run a third time, whoever has time left.
        if pod.sidecars().map(|sidecar| sidecar.attempts).sum::<u32>() >= 2 {
            return;
        }
        for sidecar in pod.sidecars() {
            let due = self.due(&pod, sidecar);
            let was_ended = sidecar.is_over(pod.never) || sidecar.swapped_at.is_some();
            if !was_ended && self.now + 1 < due {
                let (name, early) = (&sidecar.name, due - self.now);
                self.problem(format!(
                    "pod-{at} {name}: finished {early} ms before it was due"
                ));
            }
        }
    }

    /// An exit image that does not start is not tried without end.
    pub fn check_attempt(&mut self, at: usize, place: usize) {
        let pod = &self.pods[at];
        let one = &pod.containers[place];
        let (attempts, name) = (one.attempts, one.name.clone());
        let is_watched = !self.options.losses && !self.options.deaths && !self.options.relists;
        if attempts == BAD_TRIES && self.can_be_finished(pod) && is_watched {
            self.problem(format!(
                "pod-{at} {name}: an exit image that does not start was tried {attempts} times"
            ));
        }
    }

    fn can_be_finished(&self, pod: &Pod) -> bool {
        self.options.finish && self.namespaces[pod.namespace].to_finishes.lets_through()
    }

    /// A pod has just ended.
    pub fn check_end(&mut self, at: usize) {
        let pod = self.pods[at].clone();
        let is_now = pod.ended_at == Some(self.now);
        if !is_now || !pod.mains_succeeded() || pod.phase != "Failed" || pod.deleting {
            return;
        }
        let mut by_swaps = pod
            .sidecars()
            .filter(|one| one.swapped_at.is_some() && one.code() != Some(0));
        let is_doubtful = |one: &Container| !one.exit_starts && one.is_doubtful();
        let is_known = |one: &Container| {
            let is_good = one.exit_starts && !pod.pull_fails;
            is_good || is_doubtful(one) && pod.place == Place::Kubelet
        };
        if let Some(one) = by_swaps.find(|one| is_known(one)) {
            let (name, image) = (&one.name, &one.image);
            self.problem(format!(
                "pod-{at}: failed although its mains succeeded, by the swap of {name} to {image}"
            ));
        }
    }

    /// A node that has ended what was swapped well is not blamed for what was not.
    pub fn check_proof(&mut self, learned: &Learned) {
        self.log(|| format!("  learned {learned:?}"));
        let is_bad = |one: &Container| one.swapped_at.is_some() && one.code() != Some(0);
        let is_to_blame =
            |pod: &Pod| pod.place.node() == &*learned.node && pod.sidecars().any(is_bad);
        let fails = learned.proved == Proved::FailsUnderNever;
        if fails && !self.pods.iter().any(is_to_blame) {
            self.problem(format!(
                "{} was taken for failing under Never, though every swap ended well there",
                learned.node
            ));
        }
    }

    /// Who has not ended, although the main containers are done?
    pub fn check_ends(&mut self) {
        for at in 0..self.pods.len() {
            let pod = &self.pods[at];
            let job = &self.jobs[pod.job];
            let is_left = pod.gone || pod.deleting || pod.phase != "Running";
            if is_left || pod.mains_done.is_none() || job.failed.is_some() {
                continue;
            }
            if self.can_be_finished(pod) {
                let told = pod.told.join("; ");
                self.problem(format!("pod-{at} never ends, told {told}"));
            } else if pod.told.is_empty() && job.told.is_empty() {
                self.problem(format!("pod-{at} never ends, and nothing is told"));
            }
        }
    }
}
