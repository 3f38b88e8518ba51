//! The patches of pods.

use super::*;

/// A request may park a container and give a native sidecar another spelling at once.
#[test]
fn each_container_is_patched_in_its_own_list() {
    let swap = |name: &str, is_native_sidecar| Swap {
        index: 0,
        is_native_sidecar,
        container: name.into(),
        from: "r.example/x:1".into(),
        to: "r.example/x:2".into(),
    };
    let spec = |swaps: Vec<Swap>| {
        let change = Change {
            swaps,
            generation: Some(1),
            note: None,
            coming: 0,
            tried: Vec::new(),
        };
        let note = Note {
            version: "7".into(),
            parked: None,
        };
        parked("u", &change, &note)["spec"].take()
    };
    let named = |name: &str| json!([{"name": name, "image": "r.example/x:2"}]);
    assert_eq!(
        spec(vec![swap("app", false), swap("mesh", true)]),
        json!({"containers": named("app"), "initContainers": named("mesh")})
    );
    assert_eq!(
        spec(vec![swap("app", false)]),
        json!({"containers": named("app")})
    );
    assert_eq!(spec(Vec::new()), Value::Null);
}
