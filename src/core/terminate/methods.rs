//! The methods that end the sidecars of a pod, and the order in which they are tried.
//!
//! A method returns what is to be done ([`Step::Here`]), or why it cannot act ([`Step::Next`]).
//! Each is bounded in time, and tried once per run of a container.

pub mod finish;
pub(crate) mod preflight;
pub mod recreate;
pub mod swap;

use crate::cluster::node_class::NodeClass;
use crate::cluster::owner;
use crate::objects::moment::Moment;
use crate::objects::pod::{Pod, RestartPolicy};
use crate::report::decision::{Decision, Method, Report};

/// The methods that the administrator allows and prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowedMethods {
    /// The method to try first, where the node has it.
    pub prefer: Option<Method>,
    /// True if the phase of pods may be written.
    pub finish: bool,
    /// True if `ContainerRecreateRequest`s may be created.
    pub recreate: bool,
    /// True if images are swapped on virtual nodes that replace containers also under `Never`,
    /// whatever is known of their provider: it may judge the pod while no container runs.
    pub swap_under_never: bool,
}

impl AllowedMethods {
    /// Returns the methods allowed for this pod: `finish`, which adds no restart, comes first if
    /// the pod's owner counts restarts, or may.
    pub(crate) fn of_pod(&self, pod: &Pod) -> Self {
        let first = owner::may_count(pod).then_some(Method::Finish);
        Self {
            prefer: self.prefer.or(first),
            ..*self
        }
    }
}

/// The result of one method for the sidecars of a pod.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// To be done, or waited for.
    Here(Decision),
    /// This method cannot act (any more), for these reasons; none if it was never open to the pod.
    Next {
        /// What to report if no other method can act.
        reports: Vec<Report>,
        /// When to try this method again.
        again: Option<Moment>,
    },
}

impl Step {
    pub(super) const fn next(reports: Vec<Report>, again: Option<Moment>) -> Self {
        Self::Next { reports, again }
    }
}

impl AllowedMethods {
    /// Returns the methods for a pod with this restart policy on a node of this class, in the order
    /// in which they are tried. `bears_swap`: a pod under `Never` may be swapped there.
    pub fn methods(
        &self,
        class: NodeClass,
        policy: &RestartPolicy,
        bears_swap: bool,
    ) -> Vec<Method> {
        let never = *policy == RestartPolicy::Never;
        let methods: &[Method] = match class {
            NodeClass::Kubelet => &[Method::Swap, Method::Finish],
            NodeClass::Daemon => &[Method::Swap, Method::Finish, Method::Recreate],
            NodeClass::VirtualUpdates if !never || bears_swap || self.swap_under_never => {
                &[Method::Swap, Method::Finish]
            }
            // A provider that rejects the update leaves a pod under OnFailure Pending, and finish
            // still ends it.
            NodeClass::Unknown if !never => &[Method::Swap, Method::Finish],
            NodeClass::VirtualUpdates
            | NodeClass::Unknown
            | NodeClass::VirtualInert
            | NodeClass::VirtualRejects => &[Method::Finish],
        };
        let mut methods: Vec<_> = methods
            .iter()
            .copied()
            .filter(|method| self.allows(*method))
            .collect();
        // Stable: the others keep their order.
        methods.sort_by_key(|method| Some(*method) != self.prefer);
        methods
    }

    const fn allows(&self, method: Method) -> bool {
        match method {
            Method::Swap => true,
            Method::Finish => self.finish,
            Method::Recreate => self.recreate,
        }
    }
}

#[cfg(test)]
mod tests {
    use Method::{Finish, Recreate, Swap};
    use NodeClass::{Daemon, Kubelet, Unknown, VirtualInert, VirtualRejects, VirtualUpdates};

    use super::*;

    const ALL: AllowedMethods = AllowedMethods {
        prefer: None,
        finish: true,
        recreate: true,
        swap_under_never: false,
    };

    #[test]
    fn each_class_has_its_methods() {
        let table: [(NodeClass, &[Method], &[Method]); 6] = [
            (Kubelet, &[Swap, Finish], &[Swap, Finish]),
            (Daemon, &[Swap, Finish, Recreate], &[Swap, Finish, Recreate]),
            (VirtualUpdates, &[Finish], &[Swap, Finish]),
            (VirtualInert, &[Finish], &[Finish]),
            (VirtualRejects, &[Finish], &[Finish]),
            (Unknown, &[Finish], &[Swap, Finish]),
        ];
        for (class, never, on_failure) in table {
            assert_eq!(
                ALL.methods(class, &RestartPolicy::Never, false),
                never,
                "{class}"
            );
            // Knowing how nodes with replaced containers behave proves nothing for nodes of unknown
            // behaviour.
            let bearing = if class == VirtualUpdates {
                on_failure
            } else {
                never
            };
            assert_eq!(
                ALL.methods(class, &RestartPolicy::Never, true),
                bearing,
                "{class}"
            );
            assert_eq!(
                ALL.methods(class, &RestartPolicy::OnFailure, false),
                on_failure,
                "{class}"
            );
        }
    }

    #[test]
    fn what_is_not_allowed_is_left_out_and_what_is_preferred_comes_first() {
        let methods =
            |allowed: AllowedMethods, class| allowed.methods(class, &RestartPolicy::Never, false);
        assert_eq!(
            methods(
                AllowedMethods {
                    finish: false,
                    ..ALL
                },
                Daemon
            ),
            [Swap, Recreate]
        );
        assert_eq!(
            methods(
                AllowedMethods {
                    finish: false,
                    ..ALL
                },
                Unknown
            ),
            []
        );
        assert_eq!(
            methods(
                AllowedMethods {
                    prefer: Some(Recreate),
                    ..ALL
                },
                Daemon
            ),
            [Recreate, Swap, Finish]
        );
        assert_eq!(
            methods(
                AllowedMethods {
                    prefer: Some(Finish),
                    ..ALL
                },
                Kubelet
            ),
            [Finish, Swap]
        );
        assert_eq!(
            methods(
                AllowedMethods {
                    prefer: Some(Recreate),
                    recreate: false,
                    ..ALL
                },
                Daemon
            ),
            [Swap, Finish]
        );
        assert_eq!(
            methods(
                AllowedMethods {
                    swap_under_never: true,
                    ..ALL
                },
                VirtualUpdates
            ),
            [Swap, Finish]
        );
    }
}
