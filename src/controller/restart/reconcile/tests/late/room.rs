//! The room that restarts take in their Job, and when it is given back.

use swaplet_core::cluster::headroom::Headroom;
use swaplet_core::image::path_set::PathSet;

use super::*;

/// The park image of these tests.
const PARK: &str = "r.example/park:1";

/// The images of the pods of the Job that are to be changed now.
fn swaps(index: &mut Index, now: Now) -> Vec<Box<str>> {
    index.wake(now.moment);
    std::iter::from_fn(|| index.next_write(now.moment))
        .map(|write| write.target.name)
        .collect()
}

/// `b`, whose main container is done.
fn done(version: &str) -> Value {
    let mut pod = pod_of_job("b", version);
    pod["status"]["containerStatuses"][0]["state"] =
        json!({"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}});
    pod
}

#[test]
fn bug6_room_is_given_back_when_a_request_is_deleted_halfway() {
    for is_shown in [true, false] {
        let mut index = index_with_job();
        let (mut restarts, write) = about_to_swap(&mut index);
        restarts.written(
            write,
            Ok(stored_pod(&changed(pod_of_job("a", "10"), "12"))),
            at(1).moment,
        );
        applies(&mut index, &done("13"), at(2));
        assert!(swaps(&mut index, at(2)).is_empty(), "the room is taken");
        restarts.handle(
            Event::Deleted(serde_json::from_value(begun()).unwrap()),
            at(3).moment,
        );
        assert!(turn(&mut restarts, &mut index, at(3)).is_empty());
        assert!(
            swaps(&mut index, at(3)).is_empty(),
            "what was written may still come"
        );
        if is_shown {
            applies(&mut index, &restarted(pod_of_job("a", "10"), "14"), at(4));
            assert_eq!(swaps(&mut index, at(4)), ["b".into()]);
        } else {
            assert!(index.next_due().unwrap() <= at(123).moment);
            assert!(swaps(&mut index, at(122)).is_empty());
            assert_eq!(swaps(&mut index, at(123)), ["b".into()]);
        }
    }
}

/// A request that is deleted while its alias cannot be pulled goes when the image before is back,
/// and what it took of the Job's room when the container runs again.
#[test]
fn d1c_deleted_room_is_given_back_when_the_image_before_runs_again() {
    let mut index = index_with_job();
    let (mut restarts, write) = about_to_swap(&mut index);
    let answer = stored_pod(&changed(pod_of_job("a", "10"), "12"));
    restarts.written(write, Ok(answer), at(1).moment);
    let mut pod = changed(pod_of_job("a", "10"), "14");
    pod["spec"]["containers"][1]["imagePullPolicy"] = json!("Always");
    pod["status"]["observedGeneration"] = json!(2);
    pod["status"]["containerStatuses"][1]["state"] =
        json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
    shows(&mut restarts, pod.clone());
    applies(&mut index, &pod, at(2));
    applies(&mut index, &done("13"), at(2));

    let mut request = begun();
    request["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:02Z");
    request["metadata"]["finalizers"] = json!(["crr.apps.kruise.io/unready-acquired"]);
    hears(&mut restarts, request.clone());
    let write = turn(&mut restarts, &mut index, at(3)).remove(0);
    let Action::WriteDown(journal) = &write.action else {
        panic!("{write:?}")
    };
    request["metadata"]["annotations"]["swaplet.io/restart-journal"] = json!(journal.as_text());
    request["metadata"]["resourceVersion"] = json!("20");
    let answer = stored_request(&request);
    restarts.written(write, Ok(answer), at(3).moment);
    let write = turn(&mut restarts, &mut index, at(4)).remove(0);
    assert!(
        matches!(&write.action, Action::Swap(change) if &*change.swaps[0].to == "r.example/side:1"),
        "{write:?}"
    );
    assert!(swaps(&mut index, at(4)).is_empty(), "the room is taken");

    pod["metadata"]["resourceVersion"] = json!("15");
    pod["metadata"]["generation"] = json!(3);
    pod["spec"]["containers"][1]["image"] = json!("r.example/side:1");
    restarts.written(write, Ok(stored_pod(&pod)), at(4).moment);
    let write = turn(&mut restarts, &mut index, at(5)).remove(0);
    assert!(
        matches!(&write.action, Action::Finalize(left) if left.is_empty()),
        "{write:?}"
    );
    let gone = serde_json::from_value(request).unwrap();
    restarts.handle(Event::Deleted(gone), at(5).moment);
    assert!(turn(&mut restarts, &mut index, at(6)).is_empty());

    let mut runs = restarted(pod_of_job("a", "10"), "16");
    runs["metadata"]["generation"] = json!(3);
    runs["spec"]["containers"][1]["image"] = json!("r.example/side:1");
    runs["status"]["observedGeneration"] = json!(3);
    applies(&mut index, &runs, at(6));
    assert_eq!(swaps(&mut index, at(6)), ["b".into()]);
}

/// What begins is forgotten with its pod, also where only a list tells that it is gone.
#[test]
fn bug6_nothing_is_kept_of_restarts_in_pods_that_are_gone() {
    for by_list in [true, false] {
        let mut index = index_with_job();
        let (_restarts, _write) = about_to_swap(&mut index);
        if by_list {
            index.list_starts();
        } else {
            index.remove(
                &serde_json::from_value::<PodWire>(pod_of_job("a", "12"))
                    .unwrap()
                    .read()
                    .unwrap(),
                at(2).moment,
            );
        }
        applies(&mut index, &done("13"), at(2));
        index.list_ends(at(2).moment);
        assert_eq!(
            (index.restarts_begun(), swaps(&mut index, at(3))),
            (0, vec!["b".into()]),
            "{by_list}"
        );
    }
}

/// What a request that has ended may still cause is no room for the next one in the same pod.
#[test]
fn a_restart_that_may_still_come_leaves_no_room_for_another_in_its_pod() {
    let mut index = index_with_job();
    let (mut restarts, write) = about_to_swap(&mut index);
    let pod = serde_json::from_value::<PodWire>(pod_of_job("a", "10"))
        .unwrap()
        .read()
        .unwrap();
    // Its limit lets two restarts pass, and one is claimed by the write that is in flight.
    assert_eq!(index.room_for_restarts(&pod, 2), Headroom::Fits);
    restarts.written(
        write,
        Ok(stored_pod(&changed(pod_of_job("a", "10"), "12"))),
        at(1).moment,
    );
    restarts.handle(
        Event::Deleted(serde_json::from_value(begun()).unwrap()),
        at(3).moment,
    );
    assert!(turn(&mut restarts, &mut index, at(3)).is_empty());
    for _ in 0..2 {
        assert_eq!(index.room_for_restarts(&pod, 1), Headroom::Fits);
        assert!(matches!(
            index.room_for_restarts(&pod, 2),
            Headroom::Wait(_)
        ));
        // The next request begins, and asks once more after its write has failed.
        index.restarts_begin(&pod, 1);
    }
}

/// OpenKruise's manager completes a request whose deadline has passed.
#[test]
fn room_is_given_back_when_another_controller_completes_the_request() {
    let mut index = index_with_job();
    let (mut restarts, write) = about_to_swap(&mut index);
    let alias = changed(pod_of_job("a", "10"), "12");
    restarts.written(write, Ok(stored_pod(&alias)), at(1).moment);
    applies(&mut index, &done("13"), at(2));
    assert!(swaps(&mut index, at(2)).is_empty(), "the room is taken");
    let mut over = begun();
    over["metadata"]["resourceVersion"] = json!("20");
    over["status"]["phase"] = json!("Completed");
    hears(&mut restarts, over);
    turn(&mut restarts, &mut index, at(3));
    assert!(swaps(&mut index, at(3)).is_empty(), "it may still come");
    applies(&mut index, &restarted(pod_of_job("a", "10"), "14"), at(4));
    assert_eq!(swaps(&mut index, at(4)), ["b".into()]);
}

#[test]
fn another_run_counts_the_restarts_that_are_still_coming() {
    let alias = changed(pod_of_job("a", "10"), "12");
    let over = restarted(alias.clone(), "12");
    for (pod, expected) in [(alias, vec![]), (over, vec!["b".into()])] {
        let mut index = index_with_job();
        let mut restarts = Restarts::new(None, false);
        hears(&mut restarts, begun());
        shows(&mut restarts, pod);
        turn(&mut restarts, &mut index, at(1));
        applies(&mut index, &done("13"), at(2));
        assert_eq!(swaps(&mut index, at(2)), expected);
    }
}

/// Pods of requests and pods of Jobs are watched separately.
#[test]
fn a_restart_that_only_one_of_two_watches_has_shown_leaves_no_room_for_another() {
    let index = index_with_job();
    let read = |pod: &Value| {
        let pod = serde_json::from_value::<PodWire>(pod.clone()).unwrap();
        pod.read().unwrap()
    };
    let before = pod_of_job("a", "10");
    let after = restarted(before.clone(), "12");
    assert_eq!(index.room_for_restarts(&read(&before), 2), Headroom::Fits);
    assert_eq!(index.room_for_restarts(&read(&after), 1), Headroom::Fits);
    let two = index.room_for_restarts(&read(&after), 2);
    assert!(matches!(two, Headroom::NeverFits(_)), "{two:?}");
}

/// Its outcome is known soon, and until then it takes room of its own.
#[test]
fn a_swap_that_is_in_flight_leaves_its_room_to_no_restart_of_the_pod() {
    let mut index = index_with_job();
    let pod = serde_json::from_value::<PodWire>(done("13"))
        .unwrap()
        .read()
        .unwrap();
    applies(&mut index, &done("13"), at(2));
    assert_eq!(index.room_for_restarts(&pod, 2), Headroom::Fits);
    assert_eq!(swaps(&mut index, at(2)), ["b".into()]);
    assert_eq!(index.room_for_restarts(&pod, 2), Headroom::TooEarly);
}

/// It ends before its turn, and has begun nothing that could end with it.
#[test]
fn a_request_that_is_refused_cuts_nothing_short_of_another_for_the_same_pod() {
    let mut index = index_with_job();
    let (mut restarts, write) = about_to_swap(&mut index);
    let alias = changed(pod_of_job("a", "10"), "12");
    restarts.written(write, Ok(stored_pod(&alias)), at(1).moment);
    applies(&mut index, &done("13"), at(2));
    let mut refused = request("team", 1, "a");
    refused["spec"]["containers"] = json!([{"name": "none"}]);
    hears(&mut restarts, refused);
    let writes = turn(&mut restarts, &mut index, at(3));
    let is_over = |write: &RestartWrite| matches!(&write.action, Action::Report(status) if status.phase == RequestPhase::Completed);
    let of_refused = writes.iter().find(|write| &*write.request.name == "r1");
    assert!(of_refused.is_some_and(is_over), "{writes:?}");
    assert!(swaps(&mut index, at(123)).is_empty(), "the room is taken");
    applies(&mut index, &restarted(pod_of_job("a", "10"), "14"), at(124));
    restarts.handle(
        Event::Deleted(serde_json::from_value(begun()).unwrap()),
        at(124).moment,
    );
    turn(&mut restarts, &mut index, at(124));
    assert_eq!(swaps(&mut index, at(124)), ["b".into()]);
}

/// The request was deleted while no controller ran: nothing else says that a restart is coming.
#[test]
fn a_container_that_is_brought_back_for_no_request_takes_room_until_it_is_seen() {
    for is_shown in [true, false] {
        let mut index = index_with_job();
        let no_paths = PathSet::new([""; 0]).unwrap();
        let park = ParkImage::new(PARK.parse().unwrap(), no_paths);
        let mut restarts = Restarts::new(Some(park), false);
        restarts.handle(Event::ListStart, at(1).moment);
        restarts.handle(Event::ListEnd, at(1).moment);
        let record = json!({"pod": "u-a", "name": "r", "request": "ru", "park": PARK, "images": {"side": "r.example/side:1"}});
        let mut parked = pod_of_job("a", "12");
        parked["metadata"]["annotations"] = json!({"swaplet.io/parked": record.to_string()});
        parked["spec"]["containers"][1]["image"] = json!(PARK);
        applies(&mut index, &parked, at(1));
        restarts.observe_parked(
            Event::Applied(serde_json::from_value(parked).unwrap()),
            at(1).moment,
        );
        assert!(turn(&mut restarts, &mut index, at(1)).is_empty());
        assert_eq!(turn(&mut restarts, &mut index, at(11)).len(), 1);
        applies(&mut index, &done("13"), at(12));
        assert!(swaps(&mut index, at(12)).is_empty(), "the room is taken");
        if is_shown {
            applies(&mut index, &restarted(pod_of_job("a", "10"), "14"), at(13));
            assert_eq!(swaps(&mut index, at(13)), ["b".into()]);
        } else {
            assert!(swaps(&mut index, at(130)).is_empty());
            assert_eq!(swaps(&mut index, at(131)), ["b".into()]);
        }
    }
}

/// Requests may say any uid.
#[test]
fn a_request_of_another_namespace_cuts_nothing_short() {
    let mut index = index_with_job();
    let (_restarts, _write) = about_to_swap(&mut index);
    applies(&mut index, &done("13"), at(2));
    index.restarts_cut_short("other", "u-a", at(3).moment);
    assert!(swaps(&mut index, at(123)).is_empty(), "the room is taken");
}

/// A restart that has begun and a swap of the same container are two restarts (`docs/measured.md`,
/// row 19).
#[test]
fn a_swap_waits_for_the_restart_of_its_own_pod_where_both_do_not_fit() {
    for (limit, expected) in [(2, vec![]), (3, vec!["a".into()])] {
        let mut index = index_with_job();
        let job = Job {
            uid: "ju".into(),
            namespace: Box::default(),
            backoff_limit: limit,
            failures_borne: limit,
        };
        index.jobs(|ledger| ledger.job(&job), at(0).moment);
        let (mut restarts, write) = about_to_swap(&mut index);
        let alias = changed(pod_of_job("a", "10"), "12");
        restarts.written(write, Ok(stored_pod(&alias)), at(1).moment);
        let mut done = alias;
        done["metadata"]["resourceVersion"] = json!("13");
        done["status"]["containerStatuses"][0]["state"] =
            json!({"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}});
        applies(&mut index, &done, at(2));
        assert_eq!(swaps(&mut index, at(2)), expected, "{limit}");
        if limit == 2 {
            assert!(swaps(&mut index, at(301)).is_empty());
            let late = swaps(&mut index, at(302));
            assert_eq!(late, ["a".into()], "it does not come any more");
        }
    }
}
