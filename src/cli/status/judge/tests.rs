use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::report::reason::Reason;

use super::*;
use crate::cli::status::cluster::{Facts, Pods, Stuck};

fn check(state: State) -> Check {
    Check {
        installation: String::new(),
        subject: "x",
        state,
        words: String::new(),
    }
}

#[test]
fn exit_codes_tell_well_from_attention_and_from_not_known() {
    for (states, code) in [
        (&[][..], 0),
        (&[State::Ok, State::Note], 0),
        (&[State::Ok, State::Unknown], 2),
        (&[State::Unknown, State::Attention], 1),
    ] {
        let checks: Vec<_> = states.iter().copied().map(check).collect();
        assert_eq!(exit_code(&checks), code, "{states:?}");
    }
}

#[test]
fn a_lease_is_held_while_it_is_renewed() {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let state = |holder: &str, renewed| {
        let held = Held {
            holder: holder.to_owned(),
            renewed,
        };
        held_by(&held, at(1000)).0
    };
    assert_eq!(state("a", Some(at(998))), State::Ok);
    assert_eq!(state("a", Some(at(1030))), State::Ok, "clocks differ");
    assert_eq!(state("a", Some(at(900))), State::Attention);
    assert_eq!(state("", Some(at(998))), State::Attention);
    assert_eq!(state("a", None), State::Attention);
}

#[test]
fn policies_are_missed_where_restarts_need_them_and_noted_elsewhere() {
    let leash = |parts: &[(&str, bool)]| {
        Ok(Leash {
            name: "l".to_owned(),
            opened: None,
            policies: parts
                .iter()
                .map(|(part, bound)| ((*part).to_owned(), *bound))
                .collect(),
        })
    };
    let none = leash(&[]);
    let all = [
        ("pods", true),
        ("pods-status", true),
        ("events", true),
        ("state", true),
    ];
    let plain = Flags::default();
    let restart = Flags::of(&[("restart", "true")]);
    assert_eq!(policies(&none, &plain).0, State::Note);
    assert_eq!(policies(&none, &restart).0, State::Attention);
    assert_eq!(policies(&leash(&all), &plain).0, State::Ok);
    assert_eq!(policies(&leash(&all), &restart).0, State::Attention);
    let mut unbound = all;
    unbound[2].1 = false;
    let (state, words) = policies(&leash(&unbound), &plain);
    assert!(
        state == State::Attention && words.contains("l-events"),
        "{words}"
    );
    assert_eq!(policies(&leash(&all[..2]), &plain).0, State::Attention);
    assert_eq!(policies(&Err("no".to_owned()), &plain).0, State::Unknown);
}

#[test]
fn l3_an_exit_image_that_needs_credentials_is_told_with_what_becomes_of_pods_under_never() {
    let flags = |more: &[(&str, &str)]| {
        let base = [("exit-image", "r.example/exit:v1"), ("terminate", "true")];
        Flags::of(&[&base[..], more].concat())
    };
    let (auto, never) = (flags(&[]), flags(&[("finish", "never")]));
    let private = Ok(false);
    let (state, words) = public(&auto, None).unwrap();
    assert!(
        state == State::Note && words.contains("not known here"),
        "{words}"
    );
    assert_eq!(public(&auto, Some(&Ok(true))).unwrap().0, State::Ok);
    let (state, words) = public(&auto, Some(&private)).unwrap();
    assert!(
        state == State::Note && words.contains("ended by their phase"),
        "{words}"
    );
    assert_eq!(public(&never, Some(&private)).unwrap().0, State::Attention);
    let unclear = Err("503".to_owned());
    assert_eq!(public(&auto, Some(&unclear)).unwrap().0, State::Unknown);
    let said = |value| flags(&[("exit-image-is-public", value)]);
    assert_eq!(public(&said("true"), Some(&private)).unwrap().0, State::Ok);
    assert_eq!(public(&said("false"), None).unwrap().0, State::Note);
    assert_eq!(public(&Flags::of(&[("terminate", "true")]), None), None);
}

/// What is said of pods that wait for their sidecars, by their reasons; true for those that `rescue`
/// cannot end either.
fn judged(pods: &[(Reason, bool)]) -> (State, String) {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let stuck = |(reason, needs_a_hand): &(Reason, bool)| Stuck {
        namespace: "batch".to_owned(),
        name: "p".to_owned(),
        since: Some(at(990)),
        reason: *reason,
        needs_a_hand: *needs_a_hand,
    };
    let facts = Facts {
        now: at(1000),
        nodes: Ok(BTreeMap::new()),
        node_problems: Vec::new(),
        pods: Ok(Pods {
            stuck: pods.iter().map(stuck).collect(),
            knows_exit_image: true,
            ..Pods::default()
        }),
        kept_jobs: Ok(BTreeSet::new()),
        warnings: Ok(Vec::new()),
    };
    let mut checks = cluster(&facts).into_iter();
    let stuck = checks.find(|check| check.subject == "stuck pods").unwrap();
    (stuck.state, stuck.words)
}

#[test]
fn b4_a_pod_whose_write_is_denied_needs_attention_at_once() {
    let ending = (State::Ok, "1 is being ended".to_owned());
    assert_eq!(judged(&[(Reason::SidecarSwapped, false)]), ending);
    assert_eq!(judged(&[(Reason::LeftToOpenKruise, true)]), ending);
    for reason in [Reason::WriteDenied, Reason::NotSwappable] {
        let (state, words) = judged(&[(reason, true)]);
        assert!(
            state == State::Attention && words.contains("1 of 1"),
            "{words}"
        );
    }
}

#[test]
fn rescue_is_not_said_to_end_what_it_cannot() {
    let words = |pods: &[(Reason, bool)]| judged(pods).1;
    let by_leash = (Reason::WriteDenied, false);
    let by_other = (Reason::WriteDenied, true);
    assert!(words(&[by_leash]).ends_with("swaplet rescue ends them"));
    assert!(words(&[by_other]).ends_with("swaplet explain says why, and what to change"));
    assert!(
        words(&[by_leash, by_other])
            .ends_with("what to change for 1 of them; swaplet rescue ends the others")
    );
}
