//! Findings about annotations and policies that name containers of the pod.

use std::collections::BTreeMap;

use super::{Finding, RULES, finding};
use crate::objects::pod::Pod;
use crate::objects::pod::roles::unended;
use crate::terminate::turn;

/// Returns a finding about a policy that names containers of the pod but is not applied.
pub(super) fn refused_policy(pod: &Pod) -> Option<Finding> {
    let rule = pod.refused_policy.as_ref()?;
    let seen = format!(
        "{} is not applied: with it no container would be a main container, so none would show when the work is done",
        rule.source
    );
    Some(finding("policy", seen, RULES))
}

/// Returns a finding about the steps in which unended sidecars are ended, if there are several.
pub(super) fn steps(pod: &Pod) -> Option<Finding> {
    let mut steps = BTreeMap::<i32, Vec<&str>>::new();
    for (_, sidecar) in unended(pod) {
        let names = steps.entry(turn::order(sidecar)).or_default();
        names.push(&sidecar.name);
    }
    if steps.len() < 2 {
        return None;
    }
    let steps: Vec<_> = steps
        .iter()
        .map(|(order, names)| format!("{} (order {order})", names.join(", ")))
        .collect();
    let seen = format!(
        "{}; each when those before it have ended",
        steps.join(", then ")
    );
    Some(finding("turns", seen, RULES))
}
