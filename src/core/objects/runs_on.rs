//! The operating system and the processor that containers of a pod run on, as far as anything says
//! it: its node first, in labels and then in `status.nodeInfo`, which kubelets always write; then
//! the pod, in `spec.os`, its node affinity and its `nodeSelector`.
//!
//! It decides whether a program of swaplet can be started there, for the end of a sidecar, for a
//! restart by the park image and for warmer pods alike.

use super::command::Obstacle;
use crate::image::exit::Platform;

/// What is said of both. `None` if nothing says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunsOn {
    /// True for Linux, the one operating system that the programs are built for.
    linux: Option<bool>,
    /// True for a processor that they are built for.
    processor: Option<bool>,
}

/// Returns true for the name of the operating system that the programs are built for.
pub(crate) fn is_linux(system: &str) -> bool {
    system.eq_ignore_ascii_case("linux")
}

/// Returns true for the name of a processor that the programs are built for.
pub(crate) fn is_ours(processor: &str) -> bool {
    Platform::ALL
        .iter()
        .any(|platform| platform.architecture() == processor)
}

impl RunsOn {
    /// Reads the names of an operating system and of a processor.
    pub fn named(system: Option<&str>, processor: Option<&str>) -> Self {
        let written = |name: &&str| !name.is_empty();
        Self {
            linux: system.filter(written).map(is_linux),
            processor: processor.filter(written).map(is_ours),
        }
    }

    /// Returns what is common to all of these: where they differ, nothing is said.
    pub(crate) fn common(all: impl IntoIterator<Item = Self>) -> Self {
        let same = |one: Option<bool>, other: Option<bool>| one.filter(|_| one == other);
        let both = |one: Self, other: Self| Self {
            linux: same(one.linux, other.linux),
            processor: same(one.processor, other.processor),
        };
        all.into_iter().reduce(both).unwrap_or_default()
    }

    /// Returns the same, and what `other` says of what this one leaves open.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            linux: self.linux.or(other.linux),
            processor: self.processor.or(other.processor),
        }
    }

    /// Returns why no program of swaplet can be started there; `None` if nothing says so.
    pub fn obstacle(self) -> Option<Obstacle> {
        if self.linux == Some(false) {
            Some(Obstacle::Windows)
        } else if self.processor == Some(false) {
            Some(Obstacle::Architecture)
        } else {
            None
        }
    }

    /// Returns true if both are known.
    pub const fn is_known(self) -> bool {
        self.linux.is_some() && self.processor.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_first_counts_and_the_rest_fills_the_gaps() {
        let node = RunsOn::named(Some("linux"), None);
        let pod = RunsOn::named(Some("windows"), Some("s390x"));
        assert_eq!(node.or(pod), RunsOn::named(Some("linux"), Some("s390x")));
        assert_eq!(pod.obstacle(), Some(Obstacle::Windows));
        assert_eq!(node.or(pod).obstacle(), Some(Obstacle::Architecture));
        assert_eq!(node.obstacle(), None);
        assert!(!node.is_known() && node.or(pod).is_known());
        assert_eq!(RunsOn::named(Some(""), Some("")), RunsOn::default());
    }

    #[test]
    fn terms_that_differ_say_nothing() {
        let term = |processor| RunsOn::named(Some("linux"), Some(processor));
        let common = |terms: &[&'static str]| RunsOn::common(terms.iter().copied().map(term));
        assert_eq!(common(&["amd64", "arm64"]), term("amd64"), "both are ours");
        assert_eq!(
            common(&["amd64", "s390x"]),
            RunsOn::named(Some("linux"), None)
        );
        assert_eq!(common(&[]), RunsOn::default());
    }
}
