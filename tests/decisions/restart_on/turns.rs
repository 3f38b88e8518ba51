//! Whose turn it is: which restart is asked for, what is told, and which requests are deleted.

use std::collections::BTreeSet;

use serde_json::json;
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::on_config::annotation::Reference;
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::round::{Action, Member, Round, decide};
use swaplet_core::restart::on_config::{Around, Asked, Progress, Sight, Standing, stand};
use swaplet_core::restart::rollout::Budget;

use super::{MOUNT_DELAY, asked, contents, env_from, is, pod, pod_with, seen, source, stand_at};
use crate::expect::moment;

#[test]
fn an_object_that_may_not_be_seen_holds_up_no_other() {
    let pod = pod_with(
        "p",
        "app=configmap/a,secret-metadata/s",
        &env_from(false),
        &json!({"running": {}}),
    );
    let find = |reference: &Reference| {
        if *reference == Reference::read("configmap/a").unwrap() {
            seen(is("2"), 0)
        } else {
            Sight::Forbidden
        }
    };
    let around = Around {
        find: &find,
        mount_delay: MOUNT_DELAY,
        park: None,
        edited_at: Moment::START,
        now: moment(1000),
    };
    let standing = stand(&pod, &contents(is("1")), &[], &around);
    assert_eq!(
        (&standing.stale, &standing.forbidden),
        (
            &contents(is("2")),
            &BTreeSet::from([source("secret-metadata/s")])
        )
    );
    let round = decide(
        &[Member {
            pod: &pod,
            standing,
            requests: Vec::new(),
            budgets: Vec::new(),
        }],
        Vec::new(),
    );
    let [(0, report)] = &*round.reports else {
        panic!("{round:?}")
    };
    assert_eq!(report.reason, Reason::RestartOnForbidden);
    assert!(
        report.note.contains("secret-metadata/s")
            && report.note.contains("swaplet-restart-on-secrets"),
        "{}",
        report.note
    );
    assert_eq!(round.actions.len(), 1);
}

/// A pod of which `configmap/a` has changed from 1 to 2.
fn member<'a>(pod: &'a ConfiguredPod, requests: &[&'a Asked]) -> Member<'a> {
    let standing = stand_at(pod, &contents(is("1")), requests, &seen(is("2"), 0), 1000);
    Member {
        pod,
        standing,
        requests: requests.to_vec(),
        budgets: Vec::new(),
    }
}

/// Whose restart is asked for.
fn asks(round: &Round) -> Vec<usize> {
    round
        .actions
        .iter()
        .filter(|(_, action)| matches!(action, Action::Ask { .. }))
        .map(|(index, _)| *index)
        .collect()
}

#[test]
fn one_pod_after_another() {
    let (first, second) = (pod("a"), pod("b"));
    let round = decide(&[member(&first, &[]), member(&second, &[])], Vec::new());
    assert_eq!(
        (asks(&round), round.actions.len(), &round.reports),
        (vec![0], 1, &Vec::new())
    );
    let [(0, Action::Ask { name, target, done })] = &*round.actions else {
        panic!("{round:?}")
    };
    assert!(
        name.starts_with("a-restart-on-") && *target == contents(is("2")),
        "{name}"
    );
    assert_eq!(done.reason, Reason::RestartOnChanged);
    assert!(
        done.note
            .contains("configmap/a has changed: restarting app")
            && done.note.contains(name.as_str()),
        "{}",
        done.note
    );

    let open = asked("r", is("2"), Progress::Open);
    assert_eq!(
        decide(
            &[member(&first, &[&open]), member(&second, &[])],
            Vec::new()
        ),
        Round::default()
    );
    let done = asked("r", is("2"), Progress::Succeeded);
    assert_eq!(
        asks(&decide(
            &[member(&first, &[&done]), member(&second, &[])],
            Vec::new()
        )),
        [1]
    );
    let mut unready = first.clone();
    unready.ready = false;
    assert_eq!(
        decide(
            &[member(&unready, &[&done]), member(&second, &[])],
            Vec::new()
        ),
        Round::default(),
        "the one before is not Ready"
    );
}

#[test]
fn the_same_restart_always_has_the_same_name_and_another_one_has_another() {
    let name = |pod: &ConfiguredPod| match &*decide(&[member(pod, &[])], Vec::new()).actions {
        [(0, Action::Ask { name, .. })] => name.clone(),
        other => panic!("{other:?}"),
    };
    let mut again = pod("a");
    assert_eq!(name(&pod("a")), name(&again));
    again.uid = "another".into();
    assert_ne!(
        name(&pod("a")),
        name(&again),
        "another pod of the same name"
    );
}

#[test]
fn a_budget_holds_the_round() {
    let pod = pod("a");
    let mut held = member(&pod, &[]);
    held.budgets = vec![0];
    let budget = |allowed| Budget {
        name: "web".into(),
        allowed,
        allows_unready: false,
    };
    let round = decide(&[held.clone()], vec![budget(0)]);
    assert_eq!(
        (round.actions.len(), round.held_by.as_deref()),
        (0, Some("web"))
    );
    assert_eq!(asks(&decide(&[held], vec![budget(1)])).len(), 1);
}

#[test]
fn a_failure_stops_the_round_until_the_object_changes_or_the_request_is_deleted() {
    let (first, second) = (pod("a"), pod("b"));
    let failed = asked("r", is("2"), Progress::Failed("the image is gone".into()));
    let round = decide(
        &[member(&first, &[&failed]), member(&second, &[])],
        Vec::new(),
    );
    assert_eq!(round.actions, []);
    let [(0, report)] = &*round.reports else {
        panic!("{round:?}")
    };
    assert_eq!(report.reason, Reason::RestartOnStopped);
    for words in [
        "restarting app for configmap/a has failed: the image is gone",
        "kubectl delete crr -n ns r",
        "change the object",
    ] {
        assert!(report.note.contains(words), "{}", report.note);
    }
    let before = asked("r", is("0"), Progress::Failed("why".into()));
    let changed = decide(
        &[member(&first, &[&before]), member(&second, &[])],
        Vec::new(),
    );
    assert_eq!(
        (asks(&changed), changed.reports.len()),
        (vec![0], 0),
        "that was for another content"
    );
}

#[test]
fn the_last_request_is_kept_and_those_before_it_are_not() {
    let pod = pod("a");
    let (old, new) = (
        asked("old", is("1"), Progress::Succeeded),
        asked("new", is("2"), Progress::Succeeded),
    );
    let round = decide(&[member(&pod, &[&old, &new])], Vec::new());
    assert_eq!(
        round.actions,
        [(
            0,
            Action::Forget {
                name: "old".into(),
                uid: "uid-old".into()
            }
        )]
    );
    assert_eq!(
        decide(&[member(&pod, &[&new])], Vec::new()),
        Round::default()
    );
    let open = asked("old", is("1"), Progress::Open);
    assert_eq!(
        decide(&[member(&pod, &[&open, &new])], Vec::new()),
        Round::default()
    );
}

#[test]
fn a_request_that_may_not_have_been_made_is_made_again_and_no_other() {
    let (first, second) = (pod("a"), pod("b"));
    let unknown = Asked {
        uid: Box::default(),
        ..asked("r", is("2"), Progress::Open)
    };
    let round = decide(
        &[member(&first, &[&unknown]), member(&second, &[])],
        Vec::new(),
    );
    let [(0, Action::Ask { name, target, .. })] = &*round.actions else {
        panic!("{round:?}")
    };
    assert_eq!((name.as_str(), target), ("r", &contents(is("2"))));
}

/// An object that gets back a content of before: the request of then is in the way.
#[test]
fn a_name_that_is_taken_is_freed_first() {
    let pod = pod("a");
    let [(0, Action::Ask { name, .. })] = &*decide(&[member(&pod, &[])], Vec::new()).actions else {
        panic!()
    };
    let before = asked(name, is("3"), Progress::Succeeded);
    let round = decide(&[member(&pod, &[&before])], Vec::new());
    assert_eq!(
        round.actions,
        [(
            0,
            Action::Forget {
                name: before.name.clone(),
                uid: before.uid.clone()
            }
        )]
    );
}

#[test]
fn a_bad_annotation_is_told_and_holds_up_no_other_pod() {
    let bad = pod_with(
        "bad",
        "web=configmap/a",
        &env_from(false),
        &json!({"running": {}}),
    );
    let standing = stand_at(&bad, &contents(is("1")), &[], &seen(is("2"), 0), 1000);
    assert_eq!(standing, Standing::default());
    let good = pod("good");
    let round = decide(
        &[
            Member {
                pod: &bad,
                standing,
                requests: Vec::new(),
                budgets: Vec::new(),
            },
            member(&good, &[]),
        ],
        Vec::new(),
    );
    let [(0, report)] = &*round.reports else {
        panic!("{round:?}")
    };
    assert_eq!(report.reason, Reason::RestartOnInvalid);
    assert!(
        report
            .note
            .contains("annotation swaplet.io/restart-on: the pod has no container web"),
        "{}",
        report.note
    );
    assert_eq!(asks(&round), [1]);
}
