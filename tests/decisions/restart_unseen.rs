//! Requests whose pod is not in sight, or can be in nobody's.

use serde_json::{Value, json};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::Headroom;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::{
    Action, Around, Decision, Memory, Sight, decide, needs_pod,
};
use swaplet_core::restart::request::{RestartRequest, RestartRequestWire};

use crate::expect::moment;

fn request(change: impl FnOnce(&mut Value)) -> RestartRequest {
    let mut request = json!({
        "metadata": {"namespace": "team", "name": "r", "uid": "ru", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"podName": "p", "containers": [{"name": "app"}], "activeDeadlineSeconds": 10},
    });
    change(&mut request);
    serde_json::from_value::<RestartRequestWire>(request)
        .unwrap()
        .read()
        .unwrap()
}

/// What is decided so many seconds after it was made.
fn decided(request: &RestartRequest, sight: Sight<'_>, seconds: u64) -> Decision {
    decided_by(request, sight, &Memory::default(), seconds)
}

fn decided_by(
    request: &RestartRequest,
    sight: Sight<'_>,
    memory: &Memory,
    seconds: u64,
) -> Decision {
    let now = moment(seconds);
    let today = "2026-01-01T00:00:00Z"
        .parse::<jiff::Timestamp>()
        .unwrap()
        .checked_add(now.since_start())
        .unwrap();
    let (exit_images, room) = (ExitImages::new(None, Vec::new()), |_| Headroom::Free);
    let exit_images = &exit_images;
    let left_to_vendor = Some(true);
    let around = Around {
        exit_images,
        park: None,
        node: None,
        kubelet: None,
        runs_on: swaplet_core::objects::runs_on::RunsOn::default(),
        room: &room,
        is_first: true,
        left_to_vendor,
        now,
        today,
    };
    decide(request, sight, memory, &around)
}

/// As swaplet leaves a request that it has taken up.
fn begun(change: impl FnOnce(&mut Value)) -> RestartRequest {
    let journal = json!({"app": {"containerID": "c", "restartCount": 0, "intent": {"from": "a:1", "to": "b:1"}}}).to_string();
    request(|request| {
        request["metadata"]["annotations"] = json!({"swaplet.io/restart-journal": journal});
        request["metadata"]["labels"] =
            json!({"crr.apps.kruise.io/pod-uid": "pu", "crr.apps.kruise.io/active": "true"});
        request["status"] = json!({"phase": "Recreating"});
        change(request);
    })
}

fn without_deadline(request: &mut Value) {
    request["spec"]
        .as_object_mut()
        .unwrap()
        .remove("activeDeadlineSeconds");
}

/// The words with which it is ended.
fn given_up(decision: &Decision) -> String {
    let Some(Action::Report(status)) = &decision.action else {
        panic!("{decision:?}")
    };
    assert_eq!(
        (decision.reason, status.states.len()),
        (Reason::RestartFailed, 1)
    );
    status.message.to_string()
}

#[test]
fn b2_a5_a_deadline_ends_a_request_whose_pod_was_never_seen() {
    let request = request(|_| ());
    let waits = decided(&request, Sight::Unseen, 3);
    assert_eq!((waits.action, waits.again), (None, Some(moment(10))));
    assert_eq!(
        given_up(&decided(&request, Sight::Unseen, 10)),
        "recreating has exceeded the activeDeadlineSeconds"
    );
}

#[test]
fn b2_a5_what_was_begun_waits_for_its_pod_but_not_without_end_or_for_a_time_that_is_over() {
    let begun = begun(|_| ());
    let decision = decided(&begun, Sight::Unseen, 60);
    assert_eq!(
        (decision.reason, decision.action, decision.again),
        (Reason::RequestWaits, None, Some(moment(610)))
    );
    assert!(given_up(&decided(&begun, Sight::Unseen, 610)).contains("its pod cannot be observed"));
}

#[test]
fn b2_what_was_begun_without_a_deadline_ends_after_an_hour_in_which_its_pod_was_looked_for_in_vain()
{
    let begun = begun(without_deadline);
    let mut looks = Memory::default();
    looks.unseen_since = Some(moment(100));
    for sight in [Sight::Unseen, Sight::Refused("400")] {
        let waits = decided_by(&begun, sight, &looks, 3699);
        assert_eq!(
            (waits.reason, waits.action, waits.again),
            (Reason::RequestWaits, None, Some(moment(3700)))
        );
        let words = given_up(&decided_by(&begun, sight, &looks, 3700));
        assert_eq!(
            words,
            "the pod was not observed for 3600 s; its pod cannot be observed, so the result of what was begun is not known"
        );
    }
    // That it has gone is a fact, and no patience is needed.
    assert_eq!(
        given_up(&decided_by(&begun, Sight::Absent, &looks, 101)),
        "pod has gone"
    );
    // Who waits for a place has not been looked for.
    assert_eq!(decided(&begun, Sight::Unseen, 100_000).action, None);
    // What is not begun ends as well, for it holds up the later ones.
    let fresh = request(without_deadline);
    assert_eq!(decided_by(&fresh, Sight::Unseen, &looks, 3699).action, None);
    assert_eq!(
        given_up(&decided_by(&fresh, Sight::Unseen, &looks, 3700)),
        "the pod was not observed for 3600 s"
    );
    assert_eq!(decided(&fresh, Sight::Unseen, 100_000).action, None);
}

#[test]
fn d3_a_question_that_the_api_server_does_not_take_ends_a_request_at_once_unless_it_was_begun() {
    let refused = Sight::Refused("list: 400");
    for request in [request(|_| ()), request(without_deadline)] {
        assert_eq!(
            given_up(&decided(&request, refused, 1)),
            "the pod p cannot be read: list: 400"
        );
    }
    let begun = begun(|_| ());
    assert_eq!(decided(&begun, refused, 60).again, Some(moment(610)));
    assert!(given_up(&decided(&begun, refused, 610)).contains("its pod cannot be observed"));
}

#[test]
fn d38_a_finalizer_of_openkruises_own_request_is_left_to_openkruise() {
    for phase in ["Recreating", "Completed"] {
        let request = request(|request| {
            without_deadline(request);
            request["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
            request["metadata"]["finalizers"] = json!(["crr.apps.kruise.io/unready-acquired"]);
            request["status"] = json!({"phase": phase});
        });
        assert!(!needs_pod(&request, false));
        for sight in [Sight::Unseen, Sight::Absent] {
            let decision = decided(&request, sight, 100_000);
            assert_eq!(
                (decision.reason, decision.action, decision.again),
                (Reason::RequestOver, None, None),
                "{phase}"
            );
        }
    }
}

#[test]
fn d3_bug4_a_name_that_no_pod_has_is_refused_in_words_and_nobody_is_asked_for_it() {
    let named = |name: &str| request(|request| request["spec"]["podName"] = name.into());
    let long = "a".repeat(254);
    for name in [
        "x=1",
        "p,metadata.name=p",
        "p\\",
        "",
        "P",
        "-p",
        "p-",
        "p..q",
        ".",
        "p q",
        &long,
    ] {
        let request = named(name);
        assert!(!needs_pod(&request, false), "{name}");
        assert!(
            given_up(&decided(&request, Sight::Unseen, 1)).contains("podName is not a valid"),
            "{name}"
        );
    }
    for name in ["p", "web-0", "a.b-c.1", &long[1..]] {
        assert!(needs_pod(&named(name), false), "{name}");
        assert_eq!(decided(&named(name), Sight::Unseen, 1).action, None);
    }
    // Its finalizer, which a tenant can write too, is taken away without the pod.
    let held = request(|request| {
        request["spec"]["podName"] = "x=1".into();
        request["metadata"]["finalizers"] = json!(["crr.apps.kruise.io/unready-acquired"]);
        request["metadata"]["annotations"] = json!({"swaplet.io/restart-journal": "{}"});
        request["status"] = json!({"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z"});
    });
    assert_eq!(
        decided(&held, Sight::Unseen, 1).action,
        Some(Action::Finalize(Vec::new()))
    );
}
