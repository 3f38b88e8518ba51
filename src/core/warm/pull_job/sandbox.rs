//! The labels and annotations that jobs may give to the pods that pull for them (`sandboxConfig`).
//! Webhooks, networks and autoscalers of the cluster act on such keys, in a namespace that is not
//! the job's. So only keys that the administrator has listed are copied.

use std::collections::BTreeMap;

use crate::image::pattern::matches_glob;
use crate::warm::pull_job::object::PodWishes;

/// The prefix of swaplet's own keys, some of which identify its pods.
const OWN: &str = "swaplet.io/";
/// The longest key that Kubernetes accepts: a prefix, a slash and a name.
const MOST_BYTES: usize = 253 + 1 + 63;

/// The patterns of the keys that are copied; `*` matches any characters but `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxKeys(Vec<Box<str>>);

impl SandboxKeys {
    /// Creates the list from patterns; without patterns no key is copied.
    pub fn new(patterns: impl IntoIterator<Item = String>) -> Self {
        Self(patterns.into_iter().map(Into::into).collect())
    }

    fn has(&self, key: &str) -> bool {
        let is_listed = || {
            self.0
                .iter()
                .any(|pattern| matches_glob(pattern.as_bytes(), key.as_bytes()))
        };
        key.len() <= MOST_BYTES && !key.starts_with(OWN) && is_listed()
    }

    /// Removes all other keys from `wishes`, and records them in its `left_out`.
    pub fn keep_to(&self, wishes: &mut PodWishes) {
        let left_out =
            [&mut wishes.labels, &mut wishes.annotations].map(|keys| self.taken_from(keys));
        wishes.left_out = left_out.into_iter().flatten().collect();
    }

    fn taken_from(&self, keys: &mut BTreeMap<String, String>) -> Vec<Box<str>> {
        let (kept, left_out): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(keys)
            .into_iter()
            .partition(|(key, _)| self.has(key));
        *keys = kept;
        left_out.into_keys().map(Into::into).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(patterns: &[&str], keys: &[&str]) -> (Vec<String>, Vec<String>) {
        let wish = || {
            keys.iter()
                .map(|key| ((*key).to_owned(), "x".to_owned()))
                .collect()
        };
        let mut wishes = PodWishes {
            labels: wish(),
            annotations: BTreeMap::new(),
            ..PodWishes::default()
        };
        SandboxKeys::new(patterns.iter().map(|pattern| (*pattern).to_owned())).keep_to(&mut wishes);
        (
            wishes.labels.into_keys().collect(),
            wishes.left_out.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn a15_no_key_is_taken_over_that_is_not_listed() {
        let hostile = [
            "cni.projectcalico.org/ipAddrs",
            "k8s.v1.cni.cncf.io/networks",
            "linkerd.io/inject",
            "vault.hashicorp.com/agent-image",
        ];
        assert_eq!(
            kept(&[], &hostile),
            (Vec::new(), hostile.map(str::to_owned).into())
        );
        assert_eq!(kept(&["team"], &["team", "teams", "x/team"]).0, ["team"]);
        assert_eq!(
            kept(
                &["example.com/*"],
                &[
                    "example.com/a",
                    "example.com.evil/a",
                    "example.com/a/b",
                    "x.example.com/a"
                ]
            )
            .0,
            ["example.com/a"]
        );
        assert_eq!(kept(&["*"], &["team", "linkerd.io/inject"]).0, ["team"]);
    }

    #[test]
    fn a15_swaplets_own_keys_and_keys_that_kubernetes_refuses_never_are() {
        let long = format!("example.com/{}", "x".repeat(400));
        assert_eq!(
            kept(
                &["*/*"],
                &["swaplet.io/warm-before", "swaplet.io/pull-job", &long]
            )
            .0,
            [""; 0]
        );
    }
}
