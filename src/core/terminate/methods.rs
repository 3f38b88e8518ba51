//! Which ways there are to end the sidecars of a pod, and in which order they are tried.
//!
//! A method answers with what is to be done on it ([`Step::Here`]), or why it does not lead on
//! ([`Step::Next`]). Each is bounded in time, and tried once per life of a container.

pub mod finish;
pub(crate) mod preflight;
pub mod recreate;
pub mod swap;

use std::time::Duration;

use crate::cluster::node_class::NodeClass;
use crate::cluster::owner;
use crate::objects::pod::{Pod, RestartPolicy};
use crate::report::decision::{Decision, Method, Report};

/// What the administrator allows, and prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowedMethods {
    /// The method to try first, where the node has it.
    pub prefer: Option<Method>,
    /// Whether the phase of pods may be written.
    pub finish: bool,
    /// Whether `ContainerRecreateRequest`s may be created.
    pub recreate: bool,
    /// Whether images are swapped on virtual nodes that replace containers also under `Never`,
    /// whatever is known of their provider: it may judge the pod while no container runs.
    pub swap_under_never: bool,
}

impl AllowedMethods {
    /// Returns the methods allowed for this pod: what adds no restart comes first where its owner
    /// counts them, or may.
    pub(crate) fn of_pod(&self, pod: &Pod) -> Self {
        let first = owner::may_count(pod).then_some(Method::Finish);
        Self {
            prefer: self.prefer.or(first),
            ..*self
        }
    }
}

/// What a method answers.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// This is to be done, or waited for.
    Here(Decision),
    /// Not this way (any more), for these reasons; an empty list is a way that was never open.
    Next {
        /// What to tell if no other method is left.
        reports: Vec<Report>,
        /// When this method is to be asked again.
        again: Option<Duration>,
    },
}

impl AllowedMethods {
    /// The methods for a pod with this restart policy on a node of this class, in the order in
    /// which they are tried. `bears_swap`: a pod under `Never` may be swapped there.
    #[must_use]
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
            // What is known of replaced containers says nothing about nodes of which even that is
            // not known.
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
