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
    let with = |has: fn(&Seen<'_>) -> bool| store.all().filter(has).count();
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
    assert_eq!(store.known.len(), 2 * MOST_IN_NAMESPACE);
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
