//! The limit on the number of policies, and when pods are listed again for them.

use serde_json::json;

use super::*;

fn policy(kind: PolicyKind, name: usize, generation: u64) -> BoundedObject {
    let namespace = (kind == PolicyKind::Namespaced).then_some("batch");
    let metadata = json!({
        "name": format!("p{name}"), "namespace": namespace, "uid": format!("u{name}"),
        "generation": generation,
    });
    json!({"metadata": metadata, "spec": {"sidecars": [{"name": "proxy"}]}}).into()
}

fn handle(store: &mut PolicyStore, event: Event<BoundedObject>) -> bool {
    let kind = match &event {
        Event::Applied(object) | Event::Deleted(object) if object.metadata.namespace.is_none() => {
            PolicyKind::Cluster
        }
        _ => PolicyKind::Namespaced,
    };
    store.handle(kind, event, &ExitImages::default())
}

/// Returns the numbers of policies with rules, and of those with problems.
fn counted(store: &PolicyStore) -> (usize, usize) {
    let with = |has: fn(&&Known) -> bool| store.all().filter(has).count();
    (
        with(|seen| !seen.policy.rules.is_empty()),
        with(|seen| seen.problems.iter().any(|words| words.contains("too many"))),
    )
}

#[test]
fn a_policy_beyond_the_limit_does_not_count_after_later_events_either() {
    for (kind, most) in [
        (PolicyKind::Namespaced, MOST_IN_NAMESPACE),
        (PolicyKind::Cluster, MOST_OF_CLUSTER),
    ] {
        let mut store = PolicyStore::watched();
        for name in 0..most {
            assert!(handle(&mut store, Event::Applied(policy(kind, name, 1))));
        }
        // The second event is that of its own status, the third one a change.
        for generation in [1, 1, 2] {
            let beyond = policy(kind, most, generation);
            assert!(!handle(&mut store, Event::Applied(beyond)), "{kind:?}");
            assert_eq!(counted(&store), (most, 1));
        }
        // Those that count go on to count.
        assert!(!handle(&mut store, Event::Applied(policy(kind, 0, 2))));
        assert_eq!(counted(&store), (most, 1));
    }
}

#[test]
fn a_policy_that_goes_makes_room_for_the_next_that_changes() {
    let kind = PolicyKind::Namespaced;
    let mut store = PolicyStore::watched();
    for name in 0..=MOST_IN_NAMESPACE {
        handle(&mut store, Event::Applied(policy(kind, name, 1)));
    }
    // Neither another place nor one that did not count makes room.
    handle(
        &mut store,
        Event::Applied(policy(PolicyKind::Cluster, 0, 1)),
    );
    handle(
        &mut store,
        Event::Deleted(policy(PolicyKind::Cluster, 0, 1)),
    );
    let beyond = || policy(kind, MOST_IN_NAMESPACE, 2);
    assert!(!handle(&mut store, Event::Deleted(beyond())));
    assert!(!handle(&mut store, Event::Applied(beyond())));
    assert_eq!(counted(&store), (MOST_IN_NAMESPACE, 1));
    assert!(handle(&mut store, Event::Deleted(policy(kind, 3, 1))));
    assert!(handle(&mut store, Event::Applied(beyond())));
    assert_eq!(counted(&store), (MOST_IN_NAMESPACE, 0));
    assert!(!handle(&mut store, Event::Applied(policy(kind, 3, 1))));
    assert_eq!(counted(&store), (MOST_IN_NAMESPACE, 1));
}

#[test]
fn far_too_many_policies_are_not_kept_and_count_when_there_is_room() {
    let kind = PolicyKind::Namespaced;
    let mut store = PolicyStore::watched();
    for name in 0..4 * MOST_IN_NAMESPACE {
        handle(&mut store, Event::Applied(policy(kind, name, 1)));
    }
    assert_eq!(counted(&store), (MOST_IN_NAMESPACE, MOST_IN_NAMESPACE));
    assert_eq!(store.all().count(), 2 * MOST_IN_NAMESPACE);
    handle(&mut store, Event::Deleted(policy(kind, 0, 1)));
    let last = policy(kind, 4 * MOST_IN_NAMESPACE - 1, 2);
    assert!(handle(&mut store, Event::Applied(last)));
    assert_eq!(counted(&store), (MOST_IN_NAMESPACE, MOST_IN_NAMESPACE));
}

#[test]
fn a_list_of_pods_in_progress_is_not_dropped_except_at_the_start() {
    let changed = || {
        let mut store = PolicyStore::watched();
        let policy = policy(PolicyKind::Namespaced, 0, 1);
        assert!(handle(&mut store, Event::Applied(policy)));
        store.pods_are_listed(true);
        store
    };
    let late = Moment::START + PATIENCE;
    assert!(changed().take_relist(Moment::START + PATIENCE / 2));
    let mut store = changed();
    assert!(!store.take_relist(late));
    assert_eq!(store.relist_due(late), None, "nothing to wake up for");
    store.pods_are_listed(false);
    assert!(store.take_relist(late));
    assert!(!store.take_relist(late));
}

/// Returns the statuses that the installation `own` writes at this second.
fn written_by(store: &mut PolicyStore, second: u64) -> Vec<Value> {
    let now = Moment::START + Duration::from_secs(second);
    let writes = store.statuses(now, Timestamp::UNIX_EPOCH, BTreeMap::new);
    writes.into_iter().map(|write| write.status).collect()
}

#[test]
fn of_several_installations_the_first_writes_and_others_where_it_is_gone() {
    let of =
        |own: &str| PolicyStore::watched().of_installation(Some(own).filter(|own| !own.is_empty()));
    let policy_with = |generation: u64, status: &Value| {
        let mut policy = policy(PolicyKind::Cluster, 0, generation);
        policy.data["status"] = status.clone();
        Event::Applied(policy)
    };
    let theirs = json!({"observedGeneration": 1, "installation": "b", "ended": 7});
    for (own, writes, ended) in [("a", 1, 0), ("b", 1, 7), ("c", 0, 0), ("", 0, 0)] {
        let mut store = of(own);
        handle(&mut store, policy_with(1, &theirs));
        let written = written_by(&mut store, 0);
        assert_eq!(written.len(), writes, "{own}");
        for status in written {
            assert_eq!(
                (&status["installation"], &status["ended"]),
                (&json!(own), &json!(ended))
            );
        }
        // A change that nobody observes.
        handle(&mut store, policy_with(2, &theirs));
        assert_eq!(written_by(&mut store, 100).len(), writes, "{own}");
        handle(&mut store, policy_with(3, &theirs));
        assert_eq!(written_by(&mut store, 690).len(), writes, "{own}");
        handle(&mut store, policy_with(3, &theirs));
        assert_eq!(written_by(&mut store, 760).len(), 1, "{own}");
    }
    // One that was observed after all is owned as before.
    let mut store = of("c");
    handle(&mut store, policy_with(2, &theirs));
    assert_eq!(written_by(&mut store, 0).len(), 0);
    let read = json!({"observedGeneration": 2, "installation": "b"});
    handle(&mut store, policy_with(2, &read));
    assert_eq!(written_by(&mut store, 590).len(), 0);
    handle(&mut store, policy_with(3, &read));
    assert_eq!(written_by(&mut store, 610).len(), 0);
}

/// The CRD of before drops the field, so that the status comes back without it.
#[test]
fn a_status_that_cannot_name_its_installation_is_written_once() {
    let mut store = PolicyStore::watched().of_installation(Some("a"));
    handle(
        &mut store,
        Event::Applied(policy(PolicyKind::Cluster, 0, 1)),
    );
    let mut status = written_by(&mut store, 0).remove(0);
    status.as_object_mut().unwrap().remove("installation");
    let mut dropped = policy(PolicyKind::Cluster, 0, 1);
    dropped.data["status"] = status;
    handle(&mut store, Event::Applied(dropped));
    assert_eq!(written_by(&mut store, 100), Vec::<Value>::new());
}

#[test]
fn the_labels_of_a_namespace_that_a_list_leaves_out_are_forgotten() {
    let mut store = PolicyStore::watched();
    let mut policy = policy(PolicyKind::Cluster, 0, 1);
    policy.data["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "a"}});
    assert!(handle(&mut store, Event::Applied(policy)));
    let namespace = |name: &str| -> NamespaceWire {
        let metadata = json!({"name": name, "uid": name, "labels": {"team": "a"}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    };
    for names in [["a", "b"].as_slice(), &["b"]] {
        let namespaces = names.iter().map(|name| namespace(name));
        for event in Event::list_of(namespaces) {
            store.observe_namespace(event);
        }
    }
    for (name, is_news) in [("a", true), ("b", false)] {
        store.listed_anew();
        store.observe_namespace(Event::Applied(namespace(name)));
        assert_eq!(store.relist.wanted, is_news, "{name}");
    }
}
