//! The readiness gate by which OpenKruise, and controllers like it, keep a pod not ready: a
//! condition of the pod that has several users at once, whose entries are a JSON list in its
//! message (OpenKruise: `pkg/util/podreadiness`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The gate, and the type of its condition.
pub const KRUISE_POD_READY: &str = "KruisePodReady";
/// The `userAgent` of a request's entry.
const USER_AGENT: &str = "ContainerRecreateRequest";

/// The readiness of a pod that has the gate [`KRUISE_POD_READY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodReadiness {
    /// The condition of the gate; `None` if it is not set, and the pod is not ready.
    pub gate: Option<GateCondition>,
    /// True if the condition `Ready` is `True`.
    pub is_ready: bool,
}

/// The condition of the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GateCondition {
    /// True if its status is `True`.
    pub is_true: bool,
    /// Its message: the entries of all users that keep the pod not ready.
    pub message: Box<str>,
}

/// The entry of a user that keeps the pod not ready. Unknown fields are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    user_agent: String,
    key: String,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

impl Entry {
    fn is_of(&self, request: &str) -> bool {
        self.user_agent == USER_AGENT && self.key == request
    }
}

impl PodReadiness {
    /// Returns the condition with an entry of this request (namespace/name) and status `False`.
    /// `None` if it is so already, or if the message of a condition that is not `True` is no list:
    /// then somebody else keeps the pod not ready, and would be forgotten.
    #[must_use]
    pub fn kept_by(&self, request: &str) -> Option<GateCondition> {
        let GateCondition { is_true, message } = self.gate.clone().unwrap_or_default();
        let mut entries = entries(&message).or_else(|| is_true.then(Vec::new))?;
        if !entries.iter().any(|entry| entry.is_of(request)) {
            entries.push(Entry {
                user_agent: USER_AGENT.to_owned(),
                key: request.to_owned(),
                more: BTreeMap::new(),
            });
        } else if !is_true {
            return None;
        }
        Some(GateCondition {
            is_true: false,
            message: text(entries),
        })
    }

    /// Returns the condition without the entry of this request; `True` if that was the last one.
    /// `None` if it has no such entry.
    #[must_use]
    pub fn left_by(&self, request: &str) -> Option<GateCondition> {
        let gate = self.gate.as_ref()?;
        let before = entries(&gate.message)?;
        let entries: Vec<_> = before
            .iter()
            .filter(|entry| !entry.is_of(request))
            .cloned()
            .collect();
        let is_left = entries.len() < before.len();
        is_left.then(|| GateCondition {
            is_true: gate.is_true || entries.is_empty(),
            message: text(entries),
        })
    }
}

fn entries(message: &str) -> Option<Vec<Entry>> {
    if message.is_empty() {
        Some(Vec::new())
    } else {
        serde_json::from_str(message).ok()
    }
}

/// Formats the entries sorted by user and key, as OpenKruise writes them.
fn text(mut entries: Vec<Entry>) -> Box<str> {
    entries.sort_by(|one, other| (&one.user_agent, &one.key).cmp(&(&other.user_agent, &other.key)));
    serde_json::to_string(&entries).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = r#"{"userAgent":"ContainerRecreateRequest","key":"ns/r"}"#;

    fn readiness(is_true: bool, message: &str) -> PodReadiness {
        PodReadiness {
            gate: Some(GateCondition {
                is_true,
                message: message.into(),
            }),
            is_ready: is_true,
        }
    }

    fn condition(is_true: bool, entries: &[&str]) -> Option<GateCondition> {
        Some(GateCondition {
            is_true,
            message: format!("[{}]", entries.join(",")).into(),
        })
    }

    #[test]
    fn an_entry_is_added_to_those_of_others_and_taken_away_again() {
        let before = r#"{"userAgent":"Lifecycle","key":"x"}"#;
        let first = r#"{"userAgent":"Alpha","key":"z","since":1}"#;
        let others = readiness(false, &format!("[{before},{first}]"));
        let kept = others.kept_by("ns/r");
        assert_eq!(
            kept,
            condition(false, &[first, OURS, before]),
            "sorted by user"
        );
        let kept = PodReadiness {
            gate: kept,
            is_ready: false,
        };
        assert_eq!(kept.kept_by("ns/r"), None, "it is there");
        assert_eq!(kept.left_by("ns/r"), condition(false, &[first, before]));
        assert_eq!(kept.left_by("ns/other"), None);
        assert_eq!(others.left_by("ns/r"), None);
    }

    #[test]
    fn the_last_entry_that_leaves_makes_the_gate_true() {
        for message in ["", "[]"] {
            let kept = readiness(true, message).kept_by("ns/r");
            assert_eq!(kept, condition(false, &[OURS]));
            assert_eq!(
                PodReadiness {
                    gate: kept,
                    is_ready: false
                }
                .left_by("ns/r"),
                condition(true, &[])
            );
        }
        assert_eq!(
            PodReadiness::default().kept_by("ns/r"),
            condition(false, &[OURS]),
            "nobody has set it"
        );
        assert_eq!(PodReadiness::default().left_by("ns/r"), None);
        assert_eq!(
            readiness(true, &format!("[{OURS}]")).kept_by("ns/r"),
            condition(false, &[OURS]),
            "it did not count"
        );
    }

    #[test]
    fn what_is_no_list_of_entries_is_left_as_it_is() {
        for strange in ["drained by hand", "{}", "[1]", "[{\"key\":1}]"] {
            assert_eq!(
                readiness(true, strange).kept_by("ns/r"),
                condition(false, &[OURS]),
                "it keeps nobody"
            );
            let strange = readiness(false, strange);
            assert_eq!(
                (strange.kept_by("ns/r"), strange.left_by("ns/r")),
                (None, None)
            );
        }
    }
}
