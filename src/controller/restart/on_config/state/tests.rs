//! Requests that others change.

use swaplet_core::restart::on_config::annotation::RESTART_ON;
use swaplet_core::restart::request::POD_UID;

use super::*;

fn request(pod: &str) -> RestartRequest {
    RestartRequest {
        namespace: "team".into(),
        name: "r".into(),
        pod_uid: Some(pod.into()),
        restart_on: Some("{}".into()),
        ..RestartRequest::default()
    }
}

#[test]
fn a_request_counts_once_whatever_pods_it_has_named() {
    let mut state = State::default();
    let count = |state: &State| (state.requests.len(), state.named.len());
    for number in 0..100 {
        state.know(&request(&format!("u{number}")));
    }
    assert_eq!(count(&state), (1, 1));
    state.know(&RestartRequest {
        restart_on: None,
        ..request("u99")
    });
    assert_eq!(count(&state), (0, 0));
    state.know(&request("u1"));
    state.forget("team", &"u1".into(), "r");
    assert_eq!(count(&state), (0, 0));
}

/// No other pod of its owner is restarted meanwhile.
#[test]
fn a_request_that_was_or_may_have_been_created_counts_until_a_later_list_leaves_it_out() {
    let mut state = State::default();
    state.handle(Event::ListStart, Moment::START);
    let pod = pod("u1").read().unwrap();
    state.assume(&pod, "lost", "", Contents::new());
    state.know(&RestartRequest {
        uid: "answered".into(),
        ..request("u1")
    });
    state.handle(Event::ListEnd, Moment::START);
    assert_eq!(state.requests_of(&pod).len(), 2);
    for event in Event::list_of([]) {
        state.handle(event, Moment::START);
    }
    assert!(state.requests_of(&pod).is_empty() && state.named.is_empty());
}

/// The answer and the events come by two connections.
#[test]
fn u256_an_answer_that_comes_after_the_watch_has_shown_more_takes_nothing_back() {
    let mut state = State::default();
    let wire = serde_json::json!({
        "metadata": {"namespace": "team", "name": "r", "uid": "u", "resourceVersion": "2",
            "labels": {POD_UID: "u1"}, "annotations": {RESTART_ON: "{}"}},
        "spec": {"podName": "u1", "containers": [{"name": "app"}]},
        "status": {"phase": "Completed"},
    });
    let completed = serde_json::from_value(wire).unwrap();
    state.handle(Event::Applied(completed), Moment::START);
    let progress = |state: &State| {
        let mut asked = state.requests.values();
        asked.next().map(|asked| asked.progress.clone())
    };
    assert_eq!(progress(&state), Some(Progress::Succeeded));
    state.know(&RestartRequest {
        uid: "u".into(),
        version: "1".into(),
        ..request("u1")
    });
    assert_eq!(progress(&state), Some(Progress::Succeeded));
}

/// The first object of the next list ends what is known to be hidden, and most are still to come.
#[test]
fn u257_no_record_is_dropped_while_pods_are_being_listed_again() {
    let mut state = State::default();
    for event in Event::list_of([pod("a"), pod("b")]) {
        state.observe_pod(event, Moment::START);
    }
    state.observe_pod(Event::Deleted(pod("a")), Moment::START);
    state.observe_pod(Event::Hidden("forbidden".into()), Moment::START);
    let late = Moment::START + TIDY * 2;
    assert!(!state.may_prune(late));
    state.observe_pod(Event::ListStart, late);
    state.observe_pod(Event::Listed(pod("b")), late);
    assert!(!state.may_prune(late));
    state.observe_pod(Event::ListEnd, late);
    assert!(!state.may_prune(late) && state.may_prune(late + TIDY));
}

/// A pod that names a ConfigMap.
fn pod(uid: &str) -> ConfiguredPodWire {
    let annotations = serde_json::json!({"swaplet.io/restart-on": "app=configmap/a"});
    let container = serde_json::json!({"name": "app"});
    let pod = serde_json::json!({"metadata": {"namespace": "team", "name": uid, "uid": uid, "annotations": annotations},
        "spec": {"containers": [container]}});
    serde_json::from_value(pod).unwrap()
}

#[test]
fn what_is_known_of_an_object_stays_while_it_cannot_be_read() {
    let mut state = State::default();
    for event in Event::list_of([pod("1")]) {
        state.observe_pod(event, Moment::START);
    }
    let object = state.objects().unwrap().next().unwrap().clone();
    let content = |state: &State| match &state.objects[&object].sight {
        Sight::Seen { content, .. } => Some(content.clone()),
        Sight::Unseen | Sight::Forbidden => None,
    };
    let list = |of: Content| Event::list_of([of]).collect::<Vec<_>>();
    let is = Content::Is("1".into());
    for (events, expected) in [
        (list(Content::Unclear), None),
        (list(is.clone()), Some(is.clone())),
        (vec![Event::Applied(Content::Unclear)], Some(is.clone())),
        (list(Content::Unclear), Some(is)),
        (
            vec![Event::Deleted(Content::Unclear)],
            Some(Content::Absent),
        ),
    ] {
        for event in events {
            state.observe_object(&object, event, Moment::START);
        }
        assert_eq!(content(&state), expected);
    }
}

#[test]
fn the_objects_to_watch_are_looked_for_once_the_pods_are_listed() {
    let mut state = State::default();
    state.observe_pod(Event::ListStart, Moment::START);
    for uid in ["1", "2"] {
        state.observe_pod(Event::Listed(pod(uid)), Moment::START);
        assert!(state.objects().is_none());
    }
    state.observe_pod(Event::ListEnd, Moment::START);
    assert_eq!(state.objects().map(Iterator::count), Some(1));
    assert!(state.objects().is_none());
}
