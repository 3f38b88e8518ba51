//! Containers whose configuration has changed: what is recorded, what is a change, and whose turn
//! it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::on_config::annotation::{RESTART_ON, Reference, Source};
use swaplet_core::restart::on_config::content::Content;
use swaplet_core::restart::on_config::pod::{ConfiguredPod, ConfiguredPodWire};
use swaplet_core::restart::on_config::round::{Action, Member, Round, decide};
use swaplet_core::restart::on_config::{
    Around, Asked, Contents, Progress, QUIET, Sight, Standing, as_text, from_text, stand,
};
use swaplet_core::restart::rollout::Budget;

const MOUNT_DELAY: Duration = Duration::from_secs(120);

fn source(text: &str) -> Source {
    Source::read(text).unwrap()
}

fn is(text: &str) -> Content {
    Content::Is(text.into())
}

/// Of the container `app` and `configmap/a`.
fn contents(content: Content) -> Contents {
    BTreeMap::from([(
        "app".into(),
        BTreeMap::from([(source("configmap/a"), content)]),
    )])
}

fn pod_with(name: &str, annotation: &str, spec: &Value, state: &Value) -> ConfiguredPod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "annotations": {RESTART_ON: annotation}},
        "spec": {"containers": [{"name": "app"}, {"name": "log"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "app", "state": state}, {"name": "log", "state": {"running": {}}}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"]["containers"][0][field] = value.clone();
    }
    pod["spec"]["volumes"] = json!([{"name": "files", "configMap": {"name": "a"}}]);
    serde_json::from_value::<ConfiguredPodWire>(pod)
        .unwrap()
        .read()
        .unwrap()
}

/// It has `configmap/a` in its environment.
fn env_from(optional: bool) -> Value {
    json!({"envFrom": [{"configMapRef": {"name": "a", "optional": optional}}]})
}

fn pod(name: &str) -> ConfiguredPod {
    pod_with(
        name,
        "app=configmap/a",
        &env_from(false),
        &json!({"running": {}}),
    )
}

fn seen(content: Content, since: u64) -> Sight {
    Sight::Seen {
        content,
        since: Duration::from_secs(since),
    }
}

fn stand_at(
    pod: &ConfiguredPod,
    recorded: &Contents,
    requests: &[&Asked],
    sight: &Sight,
    now: u64,
) -> Standing {
    stand(
        pod,
        recorded,
        requests,
        &Around {
            look: &|_| sight.clone(),
            mount_delay: MOUNT_DELAY,
            edited_at: Duration::ZERO,
            now: Duration::from_secs(now),
        },
    )
}

fn asked(name: &str, content: Content, progress: Progress) -> Asked {
    Asked {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        target: contents(content),
        progress,
        created_at: None,
    }
}

/// Nothing is restarted, now or later, and nothing is said.
fn is_silent(standing: &Standing) -> bool {
    standing.stale.is_empty() && standing.due.is_none() && standing.forbidden.is_empty()
}

#[test]
fn a_pod_that_is_new_is_recorded_and_not_restarted() {
    let standing = stand_at(&pod("p"), &Contents::new(), &[], &seen(is("1"), 0), 1000);
    assert_eq!(standing.record, contents(is("1")));
    assert!(is_silent(&standing));
    let again = stand_at(&pod("p"), &standing.record, &[], &seen(is("1"), 0), 2000);
    assert!(again.record == standing.record && is_silent(&again));
}

#[test]
fn nothing_is_known_of_an_object_that_was_not_seen() {
    let standing = stand_at(&pod("p"), &Contents::new(), &[], &Sight::Unseen, 1000);
    assert!(standing.record.is_empty() && is_silent(&standing));
    let standing = stand_at(&pod("p"), &contents(is("1")), &[], &Sight::Unseen, 1000);
    assert_eq!(
        standing.record,
        contents(is("1")),
        "and what was recorded stays"
    );
    assert!(is_silent(&standing));
}

#[test]
fn a_change_counts_once_it_has_stayed_for_a_while() {
    let quiet = QUIET.as_secs();
    let early = stand_at(
        &pod("p"),
        &contents(is("1")),
        &[],
        &seen(is("2"), 100),
        100 + quiet - 1,
    );
    assert!(early.stale.is_empty());
    assert_eq!(early.due, Some(Duration::from_secs(100 + quiet)));
    let standing = stand_at(
        &pod("p"),
        &contents(is("1")),
        &[],
        &seen(is("2"), 100),
        100 + quiet,
    );
    assert_eq!(
        (&standing.stale, standing.due, &standing.record),
        (&contents(is("2")), None, &contents(is("1")))
    );
}

#[test]
fn files_of_a_volume_take_their_time() {
    let mounted = pod_with(
        "p",
        "app=configmap/a",
        &json!({"volumeMounts": [{"name": "files"}]}),
        &json!({"running": {}}),
    );
    let at = |now| stand_at(&mounted, &contents(is("1")), &[], &seen(is("2"), 100), now);
    assert_eq!(
        (at(219).stale, at(219).due),
        (Contents::new(), Some(Duration::from_secs(220)))
    );
    assert_eq!(at(220).stale, contents(is("2")));
}

/// The environment of `app` takes the annotation `color`.
fn colored(color: &str, state: &Value) -> ConfiguredPod {
    let env = json!([{"name": "COLOR", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['color']"}}}]);
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {RESTART_ON: "app=pod-metadata", "color": color}},
        "spec": {"containers": [{"name": "app", "env": env}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "app"}]},
    });
    pod["status"]["containerStatuses"][0]["state"] = state.clone();
    let pod: ConfiguredPodWire = serde_json::from_value(pod).unwrap();
    pod.read().unwrap()
}

#[test]
fn metadata_of_the_pod_is_compared_with_what_a_container_has_taken_of_it() {
    let running = json!({"running": {}});
    let at = |pod: &ConfiguredPod, recorded: &Contents, now: u64| {
        let around = Around {
            look: &|_| unreachable!("no object is named"),
            mount_delay: MOUNT_DELAY,
            edited_at: Duration::from_secs(100),
            now: Duration::from_secs(now),
        };
        stand(pod, recorded, &[], &around)
    };
    let (red, blue) = (colored("red", &running), colored("blue", &running));
    let first = at(&red, &Contents::new(), 1000);
    assert!(is_silent(&first) && !first.record.is_empty());
    let same = at(&red, &first.record, 1000);
    assert!(is_silent(&same) && same.record == first.record);
    let quiet = QUIET.as_secs();
    let early = at(&blue, &first.record, 100 + quiet - 1);
    assert_eq!(
        (early.stale, early.due),
        (Contents::new(), Some(Duration::from_secs(100 + quiet)))
    );
    let standing = at(&blue, &first.record, 100 + quiet);
    assert_eq!(
        (&standing.stale, &standing.record),
        (&standing.current, &first.record)
    );
    let done = Asked {
        name: "r".into(),
        uid: "uid-r".into(),
        target: standing.stale.clone(),
        progress: Progress::Succeeded,
        created_at: None,
    };
    let around = Around {
        look: &|_| Sight::Unseen,
        mount_delay: MOUNT_DELAY,
        edited_at: Duration::from_secs(100),
        now: Duration::from_secs(1000),
    };
    assert!(is_silent(&stand(&blue, &first.record, &[&done], &around)));
    let ended = colored("blue", &json!({"terminated": {"exitCode": 0}}));
    assert!(is_silent(&at(&ended, &first.record, 1000)));
}

#[test]
fn one_restart_for_all_objects_of_a_container() {
    let pod = pod_with(
        "p",
        "app=configmap/a,configmap/b",
        &json!({"volumeMounts": [{"name": "files"}]}),
        &json!({"running": {}}),
    );
    let both = |a: &str, b: &str| {
        Contents::from([(
            "app".into(),
            BTreeMap::from([
                (source("configmap/a"), is(a)),
                (source("configmap/b"), is(b)),
            ]),
        )])
    };
    let look = |_: &Reference| seen(is("2"), 0);
    let at = |now| {
        stand(
            &pod,
            &both("1", "1"),
            &[],
            &Around {
                look: &look,
                mount_delay: MOUNT_DELAY,
                edited_at: Duration::ZERO,
                now: Duration::from_secs(now),
            },
        )
    };
    assert!(at(119).stale.is_empty(), "b alone would be due at once");
    assert_eq!(at(120).stale, both("2", "2"));
}

#[test]
fn an_object_that_is_gone_restarts_nothing() {
    let standing = stand_at(
        &pod("p"),
        &contents(is("1")),
        &[],
        &seen(Content::Absent, 0),
        1000,
    );
    assert_eq!(standing.record, contents(is("1")));
    assert!(is_silent(&standing));
    let back = stand_at(&pod("p"), &standing.record, &[], &seen(is("1"), 1000), 2000);
    assert!(is_silent(&back), "it has come back as it was");
}

#[test]
fn an_optional_object_that_comes_later_is_a_change_and_a_required_one_was_waited_for() {
    for (optional, state, is_change) in [
        (true, json!({"running": {}}), true),
        (false, json!({"waiting": {}}), false),
        (false, json!({"running": {}}), true),
    ] {
        let pod = pod_with("p", "app=configmap/a", &env_from(optional), &state);
        let standing = stand_at(
            &pod,
            &contents(Content::Absent),
            &[],
            &seen(is("1"), 0),
            1000,
        );
        assert_eq!(!standing.stale.is_empty(), is_change, "{optional} {state}");
        assert_eq!(
            standing.record,
            contents(if is_change { Content::Absent } else { is("1") }),
            "{optional} {state}"
        );
    }
}

#[test]
fn what_does_not_run_is_not_restarted_and_stays_recorded() {
    for state in [
        json!({"waiting": {}}),
        json!({"terminated": {"exitCode": 0}}),
    ] {
        let standing = stand_at(
            &pod_with("p", "app=configmap/a", &env_from(false), &state),
            &contents(is("1")),
            &[],
            &seen(is("2"), 0),
            1000,
        );
        assert!(
            is_silent(&standing) && standing.record == contents(is("1")),
            "{state}"
        );
    }
}

#[test]
fn an_object_that_may_not_be_seen_holds_up_no_other() {
    let pod = pod_with(
        "p",
        "app=configmap/a,secret-metadata/s",
        &env_from(false),
        &json!({"running": {}}),
    );
    let look = |reference: &Reference| {
        if *reference == Reference::read("configmap/a").unwrap() {
            seen(is("2"), 0)
        } else {
            Sight::Forbidden
        }
    };
    let around = Around {
        look: &look,
        mount_delay: MOUNT_DELAY,
        edited_at: Duration::ZERO,
        now: Duration::from_secs(1000),
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

#[test]
fn what_came_of_requests_is_recorded_in_their_order() {
    let succeeded = |content: &str| asked(content, is(content), Progress::Succeeded);
    let (two, three) = (succeeded("2"), succeeded("3"));
    let standing = stand_at(
        &pod("p"),
        &contents(is("1")),
        &[&two, &three],
        &seen(is("3"), 0),
        1000,
    );
    assert!(is_silent(&standing) && standing.record == contents(is("3")));
    let open = asked("2", is("2"), Progress::Open);
    assert_eq!(
        stand_at(
            &pod("p"),
            &contents(is("1")),
            &[&open],
            &seen(is("2"), 0),
            1000
        )
        .record,
        contents(is("1"))
    );
    let failed = asked("2", is("2"), Progress::Failed("why".into()));
    let back = stand_at(
        &pod("p"),
        &contents(is("1")),
        &[&failed],
        &seen(is("1"), 0),
        1000,
    );
    assert_eq!(
        (&back.record, &back.stale),
        (&contents(Content::Unclear), &contents(is("1"))),
        "perhaps it has seen what was taken back"
    );
}

#[test]
fn contents_are_read_as_they_were_stored() {
    let all = Contents::from([
        (
            "app".into(),
            BTreeMap::from([
                (source("configmap/a"), is("1")),
                (source("secret-metadata/s"), Content::Absent),
            ]),
        ),
        (
            "log".into(),
            BTreeMap::from([(source("configmap/a"), Content::Unclear)]),
        ),
    ]);
    assert_eq!(from_text(&as_text(&all)), Some(all));
    for text in ["", "{", "[]", r#"{"app":{"secret/a":"1"}}"#, r#"{"app":1}"#] {
        assert_eq!(from_text(text), None, "{text}");
    }
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
