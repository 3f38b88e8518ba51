//! What is counted in protected Namespaces and CRDs, and when it is written on them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use proptest::prelude::*;
use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::protect::decide::{
    AGAIN, Counts, Memory, RENEWED, SETTLED, Step, UNKNOWN, decide, lets_go, text,
};
use swaplet_core::protect::held::{Held, MOST};
use swaplet_core::protect::kinds::{Cascading, KINDS};
use swaplet_core::protect::object::{
    ClaimWire, Guarded, GuardedKind, GuardedWire, HOLDS, LABEL, MetadataWire, Mode, Served,
};

const NONE: Counts = Counts {
    objects: 0,
    claims: 0,
};
const BUSY: Counts = Counts {
    objects: 3,
    claims: 1,
};

fn namespace(mode: &str) -> Guarded {
    let object = json!({"metadata": {"name": "shop", "uid": "u1", "labels": {LABEL: mode}}});
    serde_json::from_value::<GuardedWire<Namespace>>(object)
        .unwrap()
        .read()
        .unwrap()
        .0
}

fn at(milliseconds: u64) -> Moment {
    Moment::after_start(Duration::from_millis(milliseconds))
}

/// Does what is decided, and says it.
fn done(object: &mut Guarded, counts: Option<Counts>, memory: &mut Memory, now: Moment) -> Step {
    let step = decide(object, counts, memory, now);
    if let Step::Write(text) = &step {
        object.holds = text.clone().map(Into::into);
    }
    step
}

#[test]
fn what_is_read_of_them() {
    let versions = json!([{"name": "v1alpha1", "served": false}, {"name": "v1", "served": true, "storage": true}]);
    let crd = json!({
        "metadata": {"name": "widgets.example.com", "uid": "u2", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": {LABEL: "Cascading"}, "annotations": {HOLDS: "objects=1,uid=u2"}},
        "spec": {"group": "example.com", "names": {"plural": "widgets"}, "versions": versions},
    });
    let read = |object: Value| {
        serde_json::from_value::<GuardedWire<CustomResourceDefinition>>(object)
            .unwrap()
            .read()
            .map(|it| it.0)
    };
    let expected = Guarded {
        kind: GuardedKind::CustomResourceDefinition,
        name: "widgets.example.com".into(),
        uid: "u2".into(),
        version: "7".into(),
        mode: Some(Mode::Cascading),
        holds: Some("objects=1,uid=u2".into()),
        deleting: true,
        served: Some(Served {
            group: "example.com".into(),
            version: "v1".into(),
            plural: "widgets".into(),
        }),
    };
    assert_eq!(read(crd), Some(expected));
    // Null is absent, and so is what has no uid.
    let strange = json!({"metadata": {"name": "n", "uid": "u", "labels": {LABEL: null}}, "spec": {"versions": null}});
    let read_strange = read(strange).unwrap();
    assert_eq!((read_strange.mode, read_strange.served), (None, None));
    assert_eq!(read(json!({"metadata": {"name": "n"}})), None);
    // With labels missing it would pass for unprotected, and with annotations for never counted.
    let many = |field: &str| {
        let texts = (0..2_000).map(|nth| (format!("k{nth}"), json!("v")));
        let texts = serde_json::Map::from_iter(texts);
        json!({"metadata": {"name": "n", "uid": "u", field: texts}})
    };
    assert_eq!(read(many("labels")), None);
    assert_eq!(read(many("annotations")), None);
    for (mode, expected) in [
        ("Always", Some(Mode::Always)),
        ("always", None),
        ("", None),
        ("true", None),
    ] {
        assert_eq!(namespace(mode).mode, expected, "{mode}");
    }
}

#[test]
fn a_claim_counts_that_is_bound_and_not_being_deleted() {
    let claim = |phase: &str, deletion: Value| {
        let object = json!({"metadata": {"uid": "u", "deletionTimestamp": deletion}, "status": {"phase": phase}});
        serde_json::from_value::<ClaimWire>(object)
            .unwrap()
            .read()
            .unwrap()
            .0
            .1
    };
    assert!(claim("Bound", Value::Null));
    assert!(!claim("Pending", Value::Null));
    assert!(!claim("Lost", Value::Null));
    assert!(!claim("Bound", json!("2026-01-01T00:00:00Z")));
}

/// Kubernetes takes and sends this time, and nobody else reads it.
#[test]
fn what_its_author_writes_into_its_metadata_hides_no_object() {
    let read = |deletion: Value| {
        let entry = json!({"manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z"});
        let metadata = json!({"name": "p", "uid": "u", "resourceVersion": "7", "managedFields": [entry],
            "deletionTimestamp": deletion});
        serde_json::from_value::<MetadataWire<Pod>>(json!({"metadata": metadata}))
            .unwrap()
            .read()
            .unwrap()
            .0
    };
    assert_eq!(read(Value::Null), ("u".into(), true));
    assert_eq!(read(json!("2026-01-01T00:00:00Z")), ("u".into(), false));
    assert!(<MetadataWire<Pod> as kube::Resource>::metadata_api());
}

/// The two sides of one text.
#[test]
fn the_policy_lets_go_by_the_text_that_is_written() {
    let policy = include_str!("../../deploy/protection.yaml");
    let mut object = namespace("Cascading");
    assert_eq!(text(&object, NONE), "pods=0,pvcs=0,uid=u1");
    assert_eq!(text(&object, BUSY), "pods=3,pvcs=1,uid=u1");
    object.kind = GuardedKind::CustomResourceDefinition;
    assert_eq!(text(&object, NONE), "objects=0,uid=u1");
    // What lets go, and what only swaplet may write.
    assert_eq!(
        policy.matches(
            r#"(request.resource.resource == "namespaces" ? "pods=0,pvcs=0" : "objects=0") + ",uid=" + string(oldObject.metadata.uid)"#
        )
        .count(),
        2
    );
    assert!(policy.contains(LABEL) && policy.contains(HOLDS));
    for (holds, free) in [
        (None, false),
        (Some("objects=0,uid=u1"), true),
        (Some("objects=0,uid=u2"), false),
        (Some("objects=1,uid=u1"), false),
        (Some("pods=0,pvcs=0,uid=u1"), false),
    ] {
        object.holds = holds.map(Into::into);
        assert_eq!(lets_go(&object), free, "{holds:?}");
    }
}

#[test]
fn that_there_is_nothing_is_said_late_and_taken_back_at_once() {
    let (mut object, mut memory) = (namespace("Cascading"), Memory::default());
    let mut step = |counts, now| done(&mut object, counts, &mut memory, at(now));
    let write = |text: &str| Step::Write(Some(text.to_owned()));
    assert_eq!(
        step(None, 0),
        Step::Rest,
        "nothing is known, nothing is said"
    );
    assert_eq!(step(Some(NONE), 0), Step::Wait(at(0) + SETTLED));
    assert_eq!(step(Some(BUSY), 500), write("pods=3,pvcs=1,uid=u1"));
    assert_eq!(step(Some(BUSY), 600), Step::Rest);
    assert_eq!(step(Some(NONE), 1000), Step::Wait(at(2000)), "anew");
    assert_eq!(step(Some(NONE), 2000), write("pods=0,pvcs=0,uid=u1"));
    assert_eq!(step(Some(NONE), 2001), Step::Rest);
    let one = Counts { objects: 1, ..NONE };
    assert_eq!(step(Some(one), 2002), write("pods=1,pvcs=0,uid=u1"));
    let claim = Counts { claims: 1, ..NONE };
    assert_eq!(
        step(Some(claim), 3000),
        Step::Wait(at(2002) + RENEWED),
        "it stays by either"
    );
    assert_eq!(step(Some(claim), 32_002), write("pods=0,pvcs=1,uid=u1"));
}

#[test]
fn what_is_not_known_is_not_left_to_be_believed() {
    let mut memory = Memory::default();
    for (holds, expected) in [
        ("pods=0,pvcs=0,uid=u1", Step::Write(None)),
        ("pods=2,pvcs=0,uid=u1", Step::Rest),
        ("pods=0,pvcs=0,uid=of another", Step::Rest),
    ] {
        let mut object = namespace("Cascading");
        object.holds = Some(holds.into());
        assert_eq!(
            done(&mut object, None, &mut memory, at(0)),
            expected,
            "{holds}"
        );
        assert_eq!(done(&mut object, None, &mut memory, at(0)), Step::Rest);
    }
    // What was counted of another object of this name is replaced.
    let mut object = namespace("Cascading");
    object.holds = Some("pods=0,pvcs=0,uid=of another".into());
    let step = done(&mut object, Some(BUSY), &mut memory, at(0));
    assert_eq!(step, Step::Write(Some("pods=3,pvcs=1,uid=u1".to_owned())));
}

/// As by a list: it is not known in the meantime, and nothing was missed.
#[test]
fn u211_what_is_not_known_for_a_moment_is_not_withdrawn() {
    let (mut object, mut memory) = (namespace("Cascading"), Memory::default());
    let mut step = |counts, now| done(&mut object, counts, &mut memory, at(now));
    let empty = || Step::Write(Some("pods=0,pvcs=0,uid=u1".to_owned()));
    step(Some(NONE), 0);
    assert_eq!(step(Some(NONE), 1000), empty());
    for now in [2000, 9000] {
        assert_eq!(step(None, now), Step::Wait(at(now) + UNKNOWN));
        assert_eq!(step(Some(NONE), now + 1900), Step::Rest);
    }
    step(None, 20_000);
    assert_eq!(step(None, 22_000), Step::Write(None));
    assert_eq!(step(Some(NONE), 30_000), Step::Wait(at(1000) + AGAIN));
    // Where something was seen in it, it has changed.
    let busy = step(Some(BUSY), 31_000);
    assert_eq!(busy, Step::Write(Some("pods=3,pvcs=1,uid=u1".to_owned())));
    assert_eq!(step(Some(NONE), 32_000), Step::Wait(at(33_000)));
    assert_eq!(step(Some(NONE), 33_000), empty());
}

#[test]
fn u211_what_is_known_and_not_known_by_turns_is_written_once_a_minute() {
    let (mut object, mut memory) = (namespace("Cascading"), Memory::default());
    let mut writes = 0;
    for second in 0..600 {
        let counts = (second % 10 < 5).then_some(NONE);
        let step = done(&mut object, counts, &mut memory, at(1000 * second));
        writes += usize::from(matches!(step, Step::Write(_)));
    }
    assert!((4..=10).contains(&writes), "{writes} writes");
}

#[test]
fn what_is_not_protected_so_keeps_no_count() {
    for mode in ["Always", "other"] {
        let (mut object, mut memory) = (namespace(mode), Memory::default());
        for counts in [None, Some(NONE), Some(BUSY)] {
            assert_eq!(done(&mut object, counts, &mut memory, at(0)), Step::Rest);
        }
        object.holds = Some("pods=0,pvcs=0,uid=u1".into());
        let step = done(&mut object, None, &mut memory, at(0));
        assert_eq!(step, Step::Write(None), "{mode}");
        assert_eq!(done(&mut object, None, &mut memory, at(0)), Step::Rest);
    }
    let (mut object, mut memory) = (namespace("Cascading"), Memory::default());
    object.deleting = true;
    for counts in [None, Some(NONE), Some(BUSY)] {
        assert_eq!(done(&mut object, counts, &mut memory, at(9000)), Step::Rest);
    }
}

/// What a list says is what a denial says.
#[test]
fn every_kind_is_held_as_its_policy_holds_it() {
    let policy = include_str!("../../deploy/protection.yaml");
    for kind in KINDS {
        assert!(policy.contains(&format!("\"{}\"", kind.plural)));
        let held = |spec: Value, holds: &str| {
            let metadata = json!({"name": "n", "uid": "u1", "annotations": {HOLDS: holds}});
            let object = BoundedObject::from(json!({"metadata": metadata, "spec": spec}));
            let always = kind.held_by(&object, Mode::Always);
            assert_eq!(always.as_deref(), Some("the label"));
            kind.held_by(&object, Mode::Cascading)
        };
        let said = |words: &str| Some(words.to_owned());
        match kind.cascading {
            Cascading::Never => assert_eq!(held(json!({"replicas": 1}), ""), None),
            Cascading::Replicas => {
                assert_eq!(held(json!({"replicas": 2}), ""), said("replicas 2>0"));
                assert_eq!(held(json!({"replicas": 0}), ""), None);
                assert_eq!(held(json!({}), ""), None);
                assert!(held(json!({"replicas": "2"}), "").is_some());
            }
            Cascading::Contents(kind) => {
                let nobody = said("contents that nobody counts");
                let (free, busy, words) = match kind {
                    GuardedKind::Namespace => {
                        ("pods=0,pvcs=0", "pods=0,pvcs=2", "\"Bound\" status pvc 2>0")
                    }
                    GuardedKind::CustomResourceDefinition => {
                        ("objects=0", "objects=2", "active CRs 2>0")
                    }
                };
                assert_eq!(held(json!({}), &format!("{free},uid=u1")), None);
                assert_eq!(held(json!({}), &format!("{busy},uid=u1")), said(words));
                for forged in ["", free, "uid=u1"] {
                    assert_eq!(held(json!({}), forged), nobody, "{forged}");
                }
                assert_eq!(held(json!({}), &format!("{free},uid=u2")), nobody);
            }
        }
    }
}

fn seen() -> Held {
    let mut held = Held::default();
    held.list_begins();
    held.list_ends();
    held.comes_in_sight();
    held
}

#[test]
fn a_count_is_known_while_everything_is_told() {
    let mut held = Held::default();
    assert_eq!(held.count(), None);
    held.list_begins();
    held.is_there("a".into(), true);
    held.comes_in_sight();
    assert_eq!(held.count(), None, "the list is not complete");
    held.is_there("b".into(), false);
    held.list_ends();
    assert_eq!(held.count(), Some(1));
    held.is_there("b".into(), true);
    held.is_there("b".into(), true);
    assert_eq!(held.count(), Some(2));
    held.goes_out_of_sight();
    assert_eq!(held.count(), None);
    held.comes_in_sight();
    held.is_gone("a");
    held.is_there("b".into(), false);
    assert_eq!(held.count(), Some(0));
    // Another list: who is not in it is gone.
    held.is_there("c".into(), true);
    held.list_begins();
    held.is_there("d".into(), true);
    assert_eq!(held.count(), Some(2), "until it is complete");
    held.list_ends();
    assert_eq!(held.count(), Some(1));
    // That there is nothing is not known while changes may have been missed.
    held.is_gone("d");
    assert_eq!(held.count(), Some(0));
    held.list_begins();
    assert_eq!(held.count(), None);
    held.list_ends();
    assert_eq!(held.count(), Some(0));
}

#[test]
fn of_very_many_it_is_known_that_there_are_more() {
    let mut held = seen();
    for number in 0..MOST + 5 {
        held.is_there(number.to_string().into(), true);
    }
    assert_eq!(held.count(), Some(MOST + 1));
    assert!(!held.needs_list());
    for number in 0..MOST {
        held.is_gone(&number.to_string());
    }
    assert_eq!(held.count(), Some(1), "nobody knows which are left");
    assert!(held.needs_list());
    held.list_begins();
    assert_eq!(held.count(), Some(1));
    held.list_ends();
    assert_eq!(held.count(), Some(0));
}

proptest! {
    /// However it comes: what has something in it, or is not known, is never left as if it had
    /// nothing; and what has had nothing for long enough is let go.
    #[test]
    fn only_what_is_known_to_hold_nothing_is_let_go(
        steps in proptest::collection::vec((0..5_usize, prop_oneof![0..3000_u64, 0..300_000_u64]), 1..40)
    ) {
        let (mut object, mut memory, mut now) = (namespace("Cascading"), Memory::default(), 0);
        let (mut empty_for, mut unknown_for) = (0, 0);
        let (mut was_empty, mut was_unknown) = (false, false);
        // True if it may have been withdrawn since something was seen in it.
        let mut in_doubt = false;
        for (kind, later) in steps {
            now += later;
            let counts = match kind {
                0 => None,
                1 => Some(BUSY),
                2 => Some(Counts { claims: 1, ..NONE }),
                _ => Some(NONE),
            };
            empty_for = if was_empty { empty_for + later } else { 0 };
            unknown_for = if was_unknown { unknown_for + later } else { 0 };
            (was_empty, was_unknown) = (counts == Some(NONE), counts.is_none());
            in_doubt = was_unknown || (was_empty && in_doubt);
            done(&mut object, counts, &mut memory, at(now));
            let late = if in_doubt { AGAIN } else { SETTLED };
            if was_unknown && Duration::from_millis(unknown_for) < UNKNOWN {
                continue;
            }
            if !was_empty {
                prop_assert!(!lets_go(&object));
            } else if Duration::from_millis(empty_for) >= late {
                prop_assert!(lets_go(&object));
            }
        }
    }
}
