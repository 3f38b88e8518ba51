//! What is recorded of the configuration of a container, and what is a change of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use swaplet::image::build::derived_paths;
use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::on_config::annotation::{RESTART_ON, Reference};
use swaplet_core::restart::on_config::pod::{ConfiguredPod, ConfiguredPodWire};
use swaplet_core::restart::on_config::{
    Around, Asked, Content, Contents, Progress, QUIET, Sight, as_text, from_text, stand,
};
use swaplet_core::restart::reconcile::ParkImage;

use super::{
    MOUNT_DELAY, asked, contents, env_from, is, is_silent, pod, pod_with, seen, source, stand_at,
};
use crate::expect::moment;

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
    assert_eq!(early.due, Some(moment(100 + quiet)));
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
        (Contents::new(), Some(moment(220)))
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
            find: &|_| unreachable!("no object is named"),
            mount_delay: MOUNT_DELAY,
            park: None,
            edited_at: moment(100),
            now: moment(now),
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
        (Contents::new(), Some(moment(100 + quiet)))
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
        find: &|_| Sight::Unseen,
        mount_delay: MOUNT_DELAY,
        park: None,
        edited_at: moment(100),
        now: moment(1000),
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
    let find = |_: &Reference| seen(is("2"), 0);
    let at = |now| {
        stand(
            &pod,
            &both("1", "1"),
            &[],
            &Around {
                find: &find,
                mount_delay: MOUNT_DELAY,
                park: None,
                edited_at: Moment::START,
                now: moment(now),
            },
        )
    };
    assert!(at(119).stale.is_empty(), "b alone would be due at once");
    assert_eq!(at(120).stale, both("2", "2"));
}

/// The idle one of a pair that is hot-upgraded would be refused, and its request fail that of the
/// working one.
#[test]
fn u86_a_container_with_the_park_image_is_never_stale() {
    let park = ParkImage::new(
        "r.example/park:1".parse().unwrap(),
        derived_paths([""; 0]).unwrap(),
    );
    for (image, stale) in [("r.example/park:1", false), ("r.example/app:1", true)] {
        let mut spec = env_from(false);
        spec["image"] = json!(image);
        let pod = pod_with("p", "app=configmap/a", &spec, &json!({"running": {}}));
        let at = |now| {
            stand(
                &pod,
                &contents(is("1")),
                &[],
                &Around {
                    find: &|_| seen(is("2"), 0),
                    mount_delay: MOUNT_DELAY,
                    park: Some(&park),
                    edited_at: Moment::START,
                    now: moment(now),
                },
            )
        };
        // What the container would load now, if it began, is not known.
        let early = at(4);
        assert_eq!(
            (early.record, early.due),
            (contents(is("1")), Some(moment(5)))
        );
        let standing = at(1000);
        assert_eq!(standing.stale.is_empty(), !stale, "{image}");
        let recorded = if stale { "1" } else { "2" };
        assert_eq!(standing.record, contents(is(recorded)), "{image}");
    }
}

/// Requests and `swaplet restart` restart them too.
#[test]
fn u155_a_native_sidecar_is_restarted_like_any_other_container() {
    let read = |annotation: &str| {
        let uses = json!([{"configMapRef": {"name": "a"}}]);
        let color = json!([{"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['c']"}}}]);
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"c": "red"}, "annotations": {RESTART_ON: annotation}},
            "spec": {"containers": [{"name": "app", "image": "r.example/app:1", "envFrom": uses}], "initContainers": [
                {"name": "init", "image": "r.example/init:1", "envFrom": uses},
                {"name": "mesh", "image": "r.example/mesh:1", "restartPolicy": "Always", "envFrom": uses, "env": color},
            ]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "app", "state": {"running": {}}}],
                "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 0}}}, {"name": "mesh", "state": {"running": {}}}]},
        });
        let pod: ConfiguredPodWire = serde_json::from_value(pod).unwrap();
        pod.read().unwrap()
    };
    let pod = read("app=configmap/a; mesh=configmap/a,pod-metadata");
    assert_eq!(pod.images.len(), 2);
    assert!(
        pod.metadata.contains_key("mesh") && pod.usage("mesh", &source("configmap/a")).required
    );
    let first = stand_at(&pod, &Contents::new(), &[], &seen(is("1"), 0), 1000);
    let stale = stand_at(&pod, &first.record, &[], &seen(is("2"), 0), 1000).stale;
    let names: Vec<_> = stale.keys().map(|name| &**name).collect();
    assert_eq!(names, ["app", "mesh"]);
    let problem = read("app=configmap/a; init=configmap/a").wish.unwrap_err();
    assert!(
        problem.to_string().contains("native sidecars can"),
        "{problem}"
    );
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
