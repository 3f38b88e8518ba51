//! Requests that others change.

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

#[test]
fn the_objects_to_watch_are_looked_for_once_the_pods_are_listed() {
    let pod = |uid: &str| -> ConfiguredPodWire {
        let annotations = serde_json::json!({"swaplet.io/restart-on": "app=configmap/a"});
        let container = serde_json::json!({"name": "app"});
        let pod = serde_json::json!({"metadata": {"namespace": "team", "name": uid, "uid": uid, "annotations": annotations},
            "spec": {"containers": [container]}});
        serde_json::from_value(pod).unwrap()
    };
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
