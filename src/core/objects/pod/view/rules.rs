//! The decoder of a container's `restartPolicyRules`.

use serde::Deserialize;

use crate::objects::pod::RestartRule;
use crate::objects::pod::container_spec::Rule;
use crate::objects::values::lenient::{Lenient, Member, Object, Objects, Text};

/// The action that starts the container again, and no other.
const RESTART: &str = "Restart";

/// One rule. Each known action starts the container again, alone or with all others
/// (`RestartAllContainers`); an unknown one counts as the second.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuleView {
    action: Text,
    exit_codes: Member<ExitCodesView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExitCodesView {
    operator: Text,
    values: Lenient<Vec<Lenient<Option<i64>>>>,
}

/// Returns the rules that restart the container; an unreadable one counts as one that always does.
pub(crate) fn read(rules: &Objects<RuleView>) -> Vec<RestartRule> {
    let unreadable = rules.malformed.then(|| RestartRule::after_any_code(true));
    unreadable
        .into_iter()
        .chain(rules.value.iter().filter_map(restarts))
        .collect()
}

/// Reads one rule; `None` for a rule without exit codes, which matches nothing.
fn restarts(rule: &Lenient<Object<RuleView>>) -> Option<RestartRule> {
    let wire = &rule.value.0;
    let (exit_codes, restarts_all) = (&wire.exit_codes, wire.restarts_all());
    let after_any_code = || RestartRule::after_any_code(restarts_all);
    let Some(codes) = exit_codes.value.as_deref() else {
        return (rule.malformed || exit_codes.malformed).then(after_any_code);
    };
    let not_in = match codes.operator.value.as_deref() {
        Some("In") => false,
        Some("NotIn") => true,
        _ => return Some(after_any_code()),
    };
    let values: Option<_> = codes.values.value.iter().map(|code| code.value).collect();
    let values = values.filter(|_| !codes.values.malformed);
    Some(values.map_or_else(after_any_code, |codes| RestartRule {
        not_in,
        codes,
        restarts_all,
    }))
}

impl RuleView {
    fn restarts_all(&self) -> bool {
        self.action.value.as_deref() != Some(RESTART)
    }

    /// Reads the rule; an unreadable one counts as the worse case.
    pub(crate) fn read(&self) -> Rule {
        if self.restarts_all() {
            return Rule::RestartsAll;
        }
        let codes = self.exit_codes.value.as_ref();
        let has_zero =
            |codes: &ExitCodesView| codes.values.value.iter().any(|code| code.value == Some(0));
        match codes.and_then(|codes| codes.operator.value.as_deref()) {
            Some("In") if !codes.is_some_and(|codes| has_zero(codes)) => Rule::OnFailure,
            Some("NotIn") if codes.is_some_and(|codes| has_zero(codes)) => Rule::OnFailure,
            _ => Rule::OnSuccess,
        }
    }
}
