//! However many requests there are, a turn of the loop is bounded, and one of another namespace is
//! not behind them.

mod late;
mod parked;

use serde_json::{Value, json};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;

use super::*;
use crate::cluster::rules::Rules;
use crate::frame::watch::Event;

const NOW: Now = Now {
    moment: Moment::after_start(Duration::from_secs(1)),
    today: jiff::Timestamp::UNIX_EPOCH,
};

fn index() -> Index {
    let exit_images = ExitImages::new(Some("exit:1".parse().unwrap()), Vec::new());
    Index::new(Rules {
        exit_images,
        allowed: AllowedMethods::default(),
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    })
}

fn request(namespace: &str, number: usize, pod: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": format!("r{number}"), "uid": format!("{namespace}-{number}"), "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"podName": pod, "containers": [{"name": "app"}]},
    })
}

fn hears(restarts: &mut Restarts, request: Value) {
    restarts.handle(
        Event::Applied(serde_json::from_value(request).unwrap()),
        NOW.moment,
    );
}

fn pod(namespace: &str, name: &str, version: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": version},
        "spec": {"nodeName": "n", "restartPolicy": "Always", "containers": [{"name": "app", "image": "app:1"}]},
        "status": {"phase": "Running"}})
}

fn shows(restarts: &mut Restarts, pod: Value) {
    let key = |field: &str| Box::from(pod["metadata"][field].as_str().unwrap());
    restarts.observe(
        &(key("namespace"), key("name")),
        Event::Applied(serde_json::from_value(pod.clone()).unwrap()),
        NOW.moment,
    );
}

/// The writes of one turn of the loop.
fn turn(restarts: &mut Restarts, index: &mut Index, now: Now) -> Vec<RestartWrite> {
    restarts.begin_turn(now.moment);
    std::iter::from_fn(|| restarts.next_write(index, now, &|_| true)).collect()
}

#[test]
fn bug2_a_turn_of_the_loop_decides_about_so_many_requests_however_many_there_are() {
    let (mut restarts, mut index) = (Restarts::new(None, false), index());
    (0..5000).for_each(|number| {
        hears(
            &mut restarts,
            request("greedy", number, &format!("p{number}")),
        )
    });
    assert_eq!(restarts.fresh.len(), 5000);
    assert!(turn(&mut restarts, &mut index, NOW).is_empty());
    assert_eq!(restarts.fresh.len(), 5000 - AT_A_TIME);
    assert_eq!(
        restarts.next_due(NOW.moment),
        Some(NOW.moment),
        "the rest has the next turns"
    );
    hears(&mut restarts, request("modest", 0, "x=1"));
    let writes = turn(&mut restarts, &mut index, NOW);
    println!(
        "bug2: the modest one has its verdict in the next turn, behind {} requests of the other",
        restarts.fresh.len()
    );
    assert!(
        writes.len() == 1 && &*writes[0].request.namespace == "modest",
        "{writes:?}"
    );
    let turns = (1..)
        .find(|_| turn(&mut restarts, &mut index, NOW).is_empty() && restarts.fresh.is_empty())
        .unwrap();
    assert!(turns <= 5000 / AT_A_TIME + 1, "{turns}");
    assert!(
        restarts.next_due(NOW.moment) > Some(NOW.moment),
        "nobody is asked for again and again"
    );
}

#[test]
fn bug2_an_event_of_a_pod_concerns_the_request_whose_turn_it_is_and_not_thousands_that_wait() {
    let (mut restarts, mut index) = (Restarts::new(None, false), index());
    (0..5000).for_each(|number| hears(&mut restarts, request("greedy", number, "p")));
    while !restarts.fresh.is_empty() {
        turn(&mut restarts, &mut index, NOW);
    }
    shows(&mut restarts, pod("greedy", "p", "1"));
    assert_eq!(
        restarts.fresh.len(),
        5000,
        "that the pod is there is news for all"
    );
    while !restarts.fresh.is_empty() {
        turn(&mut restarts, &mut index, NOW);
    }
    shows(&mut restarts, pod("greedy", "p", "2"));
    assert_eq!(restarts.fresh.len(), 1);
    hears(&mut restarts, request("greedy", 4000, "p"));
    assert_eq!(
        restarts.fresh.len(),
        2,
        "this one, and the one whose turn it is"
    );
    let gone = Event::Deleted(serde_json::from_value(pod("greedy", "p", "3")).unwrap());
    restarts.observe(&("greedy".into(), "p".into()), gone, NOW.moment);
    assert_eq!(restarts.fresh.len(), 5000);
}

/// As in a namespace whose writes hang: nothing is taken out of the queue.
#[test]
fn the_queue_does_not_grow_by_requests_that_are_gone() {
    let mut restarts = Restarts::new(None, false);
    for number in 0..5000 {
        let request = request("team", number, "p");
        hears(&mut restarts, request.clone());
        let gone = Event::Deleted(serde_json::from_value(request).unwrap());
        restarts.handle(gone, NOW.moment);
    }
    assert!(restarts.fresh.len() <= MOST_GONE);
}

#[test]
fn a_request_that_names_another_pod_than_before_leaves_the_first_one() {
    let mut restarts = Restarts::new(None, false);
    hears(&mut restarts, request("team", 0, "a"));
    assert_eq!(
        restarts
            .pods()
            .map(|pods| pods.cloned().collect::<Vec<_>>()),
        Some(vec![("team".into(), "a".into())])
    );
    hears(&mut restarts, request("team", 0, "b"));
    assert_eq!(
        restarts
            .pods()
            .map(|pods| pods.cloned().collect::<Vec<_>>()),
        Some(vec![("team".into(), "b".into())])
    );
    let over = Event::Deleted(serde_json::from_value(request("team", 0, "b")).unwrap());
    restarts.handle(over, NOW.moment);
    assert_eq!(restarts.pods().map(Iterator::count), Some(0));
}

#[test]
fn u142_what_was_seen_of_a_pod_counts_for_no_request_that_comes_later() {
    let (mut restarts, mut index) = (Restarts::new(None, false), index());
    let mut there = pod("team", "p", "1");
    there["spec"]["nodeName"] = json!(null);
    let watched = |restarts: &mut Restarts| restarts.pods().map(Iterator::count);
    for number in 0..2 {
        hears(&mut restarts, request("team", number, "p"));
        assert_eq!(watched(&mut restarts), Some(1));
        assert!(turn(&mut restarts, &mut index, NOW).is_empty(), "{number}");
        shows(&mut restarts, there.clone());
        assert_eq!(turn(&mut restarts, &mut index, NOW).len(), 1, "{number}");
        let gone = serde_json::from_value(request("team", number, "p")).unwrap();
        restarts.handle(Event::Deleted(gone), NOW.moment);
        assert_eq!(watched(&mut restarts), Some(0));
    }
}

#[test]
fn bug5_a_deadline_ends_a_request_whose_pod_is_not_in_sight_and_the_loop_does_not_spin() {
    let (mut restarts, mut index) = (Restarts::new(None, false), index());
    let deadline = |namespace: &str, journal: Option<&str>| {
        let mut request = request(namespace, 0, "p");
        request["spec"]["activeDeadlineSeconds"] = json!(5);
        if let Some(journal) = journal {
            request["metadata"]["annotations"] = json!({"swaplet.io/restart-journal": journal});
            request["status"] = json!({"phase": "Recreating"});
        }
        request
    };
    hears(&mut restarts, deadline("waits", None));
    let begun = r#"{"app": {"containerID": "c", "restartCount": 0, "intent": {"from": "a:1", "to": "b:1"}}}"#;
    hears(&mut restarts, deadline("begun", Some(begun)));
    let at = |moment: Moment| Now {
        moment,
        today: "2026-01-01T00:00:00Z"
            .parse::<jiff::Timestamp>()
            .unwrap()
            .checked_add(moment.since_start())
            .unwrap(),
    };
    let (mut ended, mut now) = (Vec::new(), at(NOW.moment));
    for _ in 0..100 {
        for write in turn(&mut restarts, &mut index, now) {
            ended.push((
                write.request.namespace.to_string(),
                now.moment.since_start().as_secs(),
            ));
            restarts.forget(&(write.request.namespace, write.request.name), now.moment);
        }
        let Some(due) = restarts.next_due(now.moment) else {
            break;
        };
        assert!(due > now.moment, "at once, for ever: {due:?}");
        now = at(due);
    }
    assert_eq!(ended, [("waits".to_owned(), 5), ("begun".to_owned(), 605)]);
}
