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
