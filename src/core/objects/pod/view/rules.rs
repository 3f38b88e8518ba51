//! The decoder of a container's `restartPolicyRules`.

use serde::Deserialize;

use crate::objects::pod::RestartRule;
use crate::objects::values::fields::{List, Text};

/// The action that starts the container again, and no other.
const RESTART: &str = "Restart";

/// One rule. Each known action starts the container again, alone or with all others
/// (`RestartAllContainers`); an unknown one counts as the second.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuleView {
    action: Text,
    exit_codes: Option<Box<ExitCodesView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExitCodesView {
    operator: Text,
    values: List<i64>,
}

/// Returns the rules that restart the container; an unreadable one counts as one that always does.
pub(crate) fn read(rules: &List<RuleView>) -> Vec<RestartRule> {
    let unreadable = rules.too_long.then(|| RestartRule::after_any_code(true));
    unreadable
        .into_iter()
        .chain(rules.iter().filter_map(restarts))
        .collect()
}

/// Reads one rule; `None` for a rule without exit codes, which matches nothing.
fn restarts(rule: &RuleView) -> Option<RestartRule> {
    let codes = rule.exit_codes.as_ref()?;
    let restarts_all = rule.action.as_deref() != Some(RESTART);
    let not_in = match codes.operator.as_deref() {
        Some("In") => Some(false),
        Some("NotIn") => Some(true),
        _ => None,
    };
    let not_in = not_in.filter(|_| !codes.values.too_long);
    Some(not_in.map_or_else(
        || RestartRule::after_any_code(restarts_all),
        |not_in| RestartRule {
            not_in,
            codes: codes.values.to_vec(),
            restarts_all,
        },
    ))
}
