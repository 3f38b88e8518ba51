//! Which ways there are to end the sidecars of a pod, and in which order they are tried.
//!
//! A rung answers with what is to be done on it ([`Step::Here`]), or why it does not lead on ([`Step::Next`]). Each is bounded in
//! time, and tried once per life of a container.

use std::time::Duration;

use crate::cluster::node_class::NodeClass;
use crate::cluster::owner;
use crate::objects::pod::{Pod, RestartPolicy};
use crate::report::decision::{Decision, Report, Rung};

/// What the administrator allows, and prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ladder {
    /// The rung to try first, where the node has it.
    pub prefer: Option<Rung>,
    /// Whether the phase of pods may be written.
    pub finish: bool,
    /// Whether `ContainerRecreateRequest`s may be created.
    pub recreate: bool,
    /// Whether images are swapped on virtual nodes that replace containers also under `Never`, whatever is known of their provider: it may
    /// judge the pod while no container runs.
    pub swap_under_never: bool,
}

impl Ladder {
    /// Returns the ladder for this pod: what adds no restart comes first where its owner counts them, or may.
    pub(crate) fn of_pod(&self, pod: &Pod) -> Self {
        let first = owner::may_count(pod).then_some(Rung::Finish);
        Self { prefer: self.prefer.or(first), ..*self }
    }
}

/// What a rung answers.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// This is to be done, or waited for.
    Here(Decision),
    /// Not this way (any more), for these reasons; an empty list is a way that was never open.
    Next {
        /// What to tell if no other rung is left.
        reports: Vec<Report>,
        /// When this rung is to be asked again.
        again: Option<Duration>,
    },
}

impl Ladder {
    /// The rungs for a pod with this restart policy on a node of this class, in the order in which they are tried. `bears_swap`: a pod under
    /// `Never` may be swapped there.
    #[must_use]
    pub fn rungs(&self, class: NodeClass, policy: &RestartPolicy, bears_swap: bool) -> Vec<Rung> {
        let never = *policy == RestartPolicy::Never;
        let rungs: &[Rung] = match class {
            NodeClass::Kubelet => &[Rung::Swap, Rung::Finish],
            NodeClass::Daemon => &[Rung::Swap, Rung::Finish, Rung::Recreate],
            NodeClass::VirtualUpdates if !never || bears_swap || self.swap_under_never => &[Rung::Swap, Rung::Finish],
            // A provider that rejects the update leaves a pod under OnFailure Pending, and finish still ends it.
            NodeClass::Unknown if !never => &[Rung::Swap, Rung::Finish],
            NodeClass::VirtualUpdates | NodeClass::Unknown | NodeClass::VirtualInert | NodeClass::VirtualRejects => &[Rung::Finish],
        };
        let mut rungs: Vec<_> = rungs.iter().copied().filter(|rung| self.allows(*rung)).collect();
        // Stable: the others keep their order.
        rungs.sort_by_key(|rung| Some(*rung) != self.prefer);
        rungs
    }

    const fn allows(&self, rung: Rung) -> bool {
        match rung {
            Rung::Swap => true,
            Rung::Finish => self.finish,
            Rung::Recreate => self.recreate,
        }
    }
}

#[cfg(test)]
mod tests {
    use NodeClass::{Daemon, Kubelet, Unknown, VirtualInert, VirtualRejects, VirtualUpdates};
    use Rung::{Finish, Recreate, Swap};

    use super::*;

    const ALL: Ladder = Ladder { prefer: None, finish: true, recreate: true, swap_under_never: false };

    #[test]
    fn each_class_has_its_rungs() {
        let table: [(NodeClass, &[Rung], &[Rung]); 6] = [
            (Kubelet, &[Swap, Finish], &[Swap, Finish]),
            (Daemon, &[Swap, Finish, Recreate], &[Swap, Finish, Recreate]),
            (VirtualUpdates, &[Finish], &[Swap, Finish]),
            (VirtualInert, &[Finish], &[Finish]),
            (VirtualRejects, &[Finish], &[Finish]),
            (Unknown, &[Finish], &[Swap, Finish]),
        ];
        for (class, never, on_failure) in table {
            assert_eq!(ALL.rungs(class, &RestartPolicy::Never, false), never, "{class}");
            // What is known of replaced containers says nothing about nodes of which even that is not known.
            let bearing = if class == VirtualUpdates { on_failure } else { never };
            assert_eq!(ALL.rungs(class, &RestartPolicy::Never, true), bearing, "{class}");
            assert_eq!(ALL.rungs(class, &RestartPolicy::OnFailure, false), on_failure, "{class}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_left_out_and_what_is_preferred_comes_first() {
        let rungs = |ladder: Ladder, class| ladder.rungs(class, &RestartPolicy::Never, false);
        assert_eq!(rungs(Ladder { finish: false, ..ALL }, Daemon), [Swap, Recreate]);
        assert_eq!(rungs(Ladder { finish: false, ..ALL }, Unknown), []);
        assert_eq!(rungs(Ladder { prefer: Some(Recreate), ..ALL }, Daemon), [Recreate, Swap, Finish]);
        assert_eq!(rungs(Ladder { prefer: Some(Finish), ..ALL }, Kubelet), [Finish, Swap]);
        assert_eq!(rungs(Ladder { prefer: Some(Recreate), recreate: false, ..ALL }, Daemon), [Swap, Finish]);
        assert_eq!(rungs(Ladder { swap_under_never: true, ..ALL }, VirtualUpdates), [Swap, Finish]);
    }
}
