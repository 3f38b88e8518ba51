//! Exit images of which nobody can tell beforehand whether they start in a container, and that have
//! ended one. Losing this state costs restarts that are reserved in vain, and nothing else.

use std::collections::{BTreeMap, VecDeque};

/// The number of starts kept. Beyond it the oldest of the namespace that has most is forgotten, so
/// that no tenant pushes out what others need.
const KEPT: usize = 512;

/// The start of an exit image in containers of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) namespace: Box<str>,
    /// The name of the container.
    pub(crate) container: Box<str>,
    pub(crate) image: Box<str>,
    /// The program that the container executes, and what is assumed about it.
    pub(crate) program: Box<str>,
}

/// The starts that have worked, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Started(VecDeque<Start>);

impl Started {
    pub(crate) fn has(&self, start: &Start) -> bool {
        self.0.contains(start)
    }

    pub(crate) fn learn(&mut self, start: Start) {
        if self.has(&start) {
            return;
        }
        self.0.push_back(start);
        if self.0.len() > KEPT
            && let Some(oldest) = self.first_to_go()
        {
            self.0.remove(oldest);
        }
    }

    /// Returns the place of the oldest start of the namespace that has most.
    fn first_to_go(&self) -> Option<usize> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for start in &self.0 {
            *counts.entry(&*start.namespace).or_default() += 1;
        }
        let most = counts.values().max().copied();
        self.0
            .iter()
            .position(|start| counts.get(&*start.namespace).copied() == most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(namespace: &str, program: usize) -> Start {
        Start {
            namespace: namespace.into(),
            container: "side".into(),
            image: "registry.example/exit/proxy:v2".into(),
            program: format!("/opt/{program}").into(),
        }
    }

    #[test]
    fn a_namespace_with_many_starts_pushes_out_its_own() {
        let mut started = Started::default();
        started.learn(start("quiet", 0));
        for program in 0..2 * KEPT {
            started.learn(start("loud", program));
            started.learn(start("loud", program));
        }
        assert_eq!(started.0.len(), KEPT);
        assert!(started.has(&start("quiet", 0)));
        assert!(started.has(&start("loud", 2 * KEPT - 1)));
        assert!(!started.has(&start("loud", 0)) && !started.has(&start("other", 0)));
    }
}
