//! Judges whether SidecarPolicies have the intended effect.

use super::super::ask::Leash;
use super::super::policies::{Policies, Policy};
use super::{Said, State, some};

pub(super) fn policies(policies: &Policies) -> Said {
    let there = count(policies.count);
    if !policies.are_on {
        return match policies.count {
            0 => State::Note.says("off: only variables and annotations name sidecars (--sidecar-policies, in the chart sidecarPolicies.enabled)"),
            _ => State::Attention.says(format!("{there}, and they are not read: start it with --sidecar-policies (in the chart sidecarPolicies.enabled)")),
        };
    }
    if !policies.missing.is_empty() {
        return State::Attention.says(format!(
            "on, and {} are not served: apply deploy/crds",
            policies.missing.join(", ")
        ));
    }
    if let Some(words) = policies.unread.first() {
        return State::Unknown.says(format!("on; {words}"));
    }
    if let Some(policy) = policies
        .all
        .iter()
        .find(|policy| !policy.problems.is_empty())
    {
        return with_problems(policies, policy);
    }
    let unseen: Vec<_> = places(policies, |policy| !policy.is_seen);
    if !unseen.is_empty() {
        return State::Note.says(format!(
            "on, {there}; the status of {} is not up to date yet: see the logs if it stays so",
            some(&unseen)
        ));
    }
    State::Ok.says(format!("on, {there}{}", come_to(policies)))
}

fn with_problems(policies: &Policies, first: &Policy) -> Said {
    let wrong = places(policies, |policy| !policy.problems.is_empty());
    let problem = first.problems.first().cloned().unwrap_or_default();
    let counts = if first.is_invalid {
        "is about no pod"
    } else {
        "counts only in part"
    };
    let more = match wrong.len() {
        1 => String::new(),
        all => format!(" ({all} have problems: {})", some(&wrong)),
    };
    State::Attention.says(format!("on; {} {counts}: {problem}{more}", first.place))
}

fn places(policies: &Policies, is: impl Fn(&Policy) -> bool) -> Vec<String> {
    let those = policies.all.iter().filter(|policy| is(policy));
    those.map(|policy| policy.place.clone()).collect()
}

fn count(number: usize) -> String {
    match number {
        0 => "no policy is there".to_owned(),
        1 => "1 policy is there".to_owned(),
        number => format!("{number} policies are there"),
    }
}

/// Describes how many pods they match and have ended, and why not others.
fn come_to(policies: &Policies) -> String {
    if policies.count == 0 {
        return String::new();
    }
    let sum = |of: fn(&Policy) -> u64| policies.all.iter().map(of).sum::<u64>();
    let (matched, ended) = (sum(|policy| policy.matched), sum(|policy| policy.ended));
    let mut words = format!("; pods that match: {matched}, ended: {ended}");
    let other = policies
        .all
        .iter()
        .find_map(|policy| policy.installation.as_deref());
    if let Some(other) = other {
        words.push_str(&format!(
            ", as the installation with the state namespace {other} counts its own"
        ));
    }
    let refused = policies.all.iter().flat_map(|policy| {
        let reasons = policy.refused.iter();
        reasons.map(|(reason, count)| format!("{count} by {reason} ({})", policy.place))
    });
    let refused: Vec<_> = refused.collect();
    if !refused.is_empty() {
        words.push_str(&format!(", not ended: {}", some(&refused)));
    }
    words
}

/// Judges whether the admission policies open the named containers; `None` if that does not matter.
pub(super) fn opened(policies: &Policies, leash: &Result<Leash, String>) -> Option<Said> {
    let opened = leash.as_ref().ok()?.opened.as_ref()?;
    if !policies.are_on || policies.count == 0 {
        return None;
    }
    let closed = policies.not_opened(opened);
    if closed.is_empty() {
        let words = "they open every container that a policy names";
        return Some(State::Ok.says(words));
    }
    let words = format!(
        "the admission policies do not open {}: a pod of these is ended only where its annotation swaplet.io/sidecars, or that of its namespace, \
         names the container; or list it in sidecarPolicies.containers of the chart (docs/sidecars.md)",
        some(&closed)
    );
    Some(State::Note.says(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(place: &str) -> Policy {
        Policy {
            place: place.to_owned(),
            installation: None,
            is_seen: true,
            is_invalid: false,
            matched: 2,
            ended: 3,
            refused: [("NoHeadroom".to_owned(), 1)].into(),
            problems: Vec::new(),
            names: vec![(0, "istio-proxy".to_owned()), (1, "log-*".to_owned())],
        }
    }

    fn with(all: Vec<Policy>) -> Policies {
        Policies {
            are_on: true,
            count: all.len(),
            all,
            ..Policies::default()
        }
    }

    #[test]
    fn policies_that_nobody_reads_need_attention_and_none_are_only_noted() {
        let off = Policies {
            are_on: false,
            ..with(vec![policy("SidecarPolicy mesh")])
        };
        assert_eq!(policies(&off).0, State::Attention);
        assert_eq!(policies(&Policies::default()).0, State::Note);
        let (state, words) = policies(&with(vec![policy("SidecarPolicy mesh")]));
        assert_eq!(state, State::Ok);
        assert_eq!(
            words,
            "on, 1 policy is there; pods that match: 2, ended: 3, not ended: 1 by NoHeadroom (SidecarPolicy mesh)"
        );
        let of_another = Policy {
            installation: Some("first".to_owned()),
            ..policy("SidecarPolicy mesh")
        };
        let (_, words) = policies(&with(vec![of_another]));
        assert!(words.contains("state namespace first counts"), "{words}");
    }

    #[test]
    fn what_is_wrong_comes_before_what_is_well() {
        let wrong = Policy {
            is_invalid: true,
            problems: vec!["spec.sidecars: write one".to_owned()],
            ..policy("SidecarPolicy b")
        };
        let all = with(vec![policy("SidecarPolicy a"), wrong]);
        let (state, words) = policies(&all);
        assert_eq!(state, State::Attention);
        assert_eq!(
            words,
            "on; SidecarPolicy b is about no pod: spec.sidecars: write one"
        );
        let missing = Policies {
            missing: vec!["sidecarpolicies"],
            ..all
        };
        assert!(policies(&missing).1.contains("are not served"));
    }

    #[test]
    fn what_the_admission_policies_keep_closed_is_named() {
        let leash = |opened: &[&str]| {
            Ok(Leash {
                opened: Some(opened.iter().map(|name| (*name).to_owned()).collect()),
                ..Leash::default()
            })
        };
        let all = with(vec![policy("SidecarPolicy mesh")]);
        let said = |names: &[&str]| opened(&all, &leash(names)).unwrap();
        assert_eq!(said(&["istio-proxy", "log-*"]).0, State::Ok);
        let (state, words) = said(&["istio-proxy", "log-1"]);
        assert_eq!(state, State::Note);
        assert!(
            words.contains("log-* (SidecarPolicy mesh, sidecars[1])")
                && !words.contains("istio-proxy ("),
            "{words}"
        );
        assert_eq!(opened(&all, &Ok(Leash::default())), None);
    }
}
