//! What a request waits for before anything is done, and what is denied, has an end: ten minutes,
//! or its own deadline if it has one.

use serde_json::{Value, json};
use swaplet_core::cluster::headroom::{Headroom, Shortage};
use swaplet_core::objects::pod::ContainerState;
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::{Action, orphan};
use swaplet_core::restart::request::StatePhase;

use super::parking::parked;
use super::world::{PARK, World, images, park_image, pod, request};

const REQUESTS: &str = "containerrecreaterequests";

fn no_room() -> Headroom {
    Headroom::Wait(Shortage {
        limit: 6,
        restarts: 5,
        under_way: 2,
        swaps: 1,
        spared: 0,
    })
}

/// A request that allows so many seconds.
fn with_deadline(seconds: u32) -> Value {
    let mut request = request(&["app"], &json!({}));
    request["spec"]["activeDeadlineSeconds"] = json!(seconds);
    request
}

/// It waits now and for ten minutes less a second, whatever its controller looks at in between.
fn assert_waits_for_ten_minutes(world: &mut World) {
    for seconds in [0, 300, 299] {
        let waits = world.later(seconds).settle();
        assert_eq!(
            (waits.reason, world.swaps),
            (Reason::RequestWaits, 0),
            "{:?}",
            world.request
        );
    }
    world.later(1);
}

#[test]
fn bugs_b_a_request_that_waits_for_room_in_the_job_ends_in_words() {
    let mut world = World::of("OnFailure");
    world.room = no_room();
    assert_waits_for_ten_minutes(&mut world);
    let (phase, words) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && words.starts_with("not restarted: no room in the pod's Job"),
        "{words}"
    );
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 0));

    // What was waited for is over, and another wait is another one.
    let mut again = World::of("OnFailure");
    again.room = no_room();
    assert_waits_for_ten_minutes(again.later(1));
    again.room = Headroom::Fits;
    again.settle_until(|action| matches!(action, Action::Swap(..)));
    again.room = no_room();
    again.later(599).settle();
    again.room = Headroom::Fits;
    again.later(1).settle();
    assert_eq!(again.swaps, 1);

    // Its own deadline is what the user has said.
    let mut patient = World::new(&with_deadline(3000), &pod("OnFailure"));
    patient.room = no_room();
    assert_eq!(patient.later(2000).settle().reason, Reason::RequestWaits);
    let words = patient.later(1000).assert_over("app").1;
    assert!(words.contains("activeDeadlineSeconds"), "{words}");
}

#[test]
fn bugs_b_a_request_whose_node_has_not_seen_the_spec_ends_in_words() {
    let mut world = World::of("Always");
    let there = world.pod.as_mut().unwrap();
    (there.generation, there.observed_generation) = (Some(7), Some(6));
    assert_waits_for_ten_minutes(&mut world);
    let (phase, words) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed
            && words.starts_with("not restarted in 600 s: node n has not reported"),
        "{words}"
    );
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 0));
}

/// The API server denies the change of the pod each minute, from now on for so many minutes.
fn denies(world: &mut World, minutes: u64) {
    for _ in 0..=minutes {
        let action = world.settle_until(|action| matches!(action, Action::Swap(..)));
        assert!(matches!(action, Action::Swap(..)));
        world
            .memory
            .note_in_vain("pods", "policy says no", world.now);
        world.later(60);
    }
}

#[test]
fn bugs_b_a_denial_that_lasts_ends_what_was_not_begun() {
    let mut world = World::of("Always");
    denies(&mut world, 10);
    let (phase, words) = world.assert_over("app");
    assert_eq!(phase, StatePhase::Failed);
    assert_eq!(
        words,
        "not restarted: the API server has not applied the change of the pod for 600 s: policy says no"
    );
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 0));

    // A change that was applied is the end of them.
    let mut applied = World::of("Always");
    denies(&mut applied, 7);
    denies(&mut applied, 0);
    applied.memory.note_applied("pods");
    denies(&mut applied, 0);
    applied.settle();
    assert_eq!(applied.swaps, 1);
    // Two denials between which nothing was tried say nothing of the time between them.
    let mut rare = World::of("Always");
    denies(&mut rare, 0);
    rare.room = no_room();
    assert_eq!(rare.settle().reason, Reason::RequestWaits);
    rare.room = Headroom::Free;
    denies(rare.later(600), 0);
    rare.settle();
    assert_eq!(rare.swaps, 1);

    let mut patient = World::new(&with_deadline(3000), &pod("Always"));
    denies(&mut patient, 30);
    assert!(patient.decide().action.is_some());
}

/// The request ends, with a deadline or without one. The record stays, and with it the search for
/// orphans brings the container back, however long that is denied.
#[test]
fn bugs_b_a_container_that_is_parked_is_brought_back_however_long_that_is_denied() {
    for deadline in [None, Some(60)] {
        let mut world = parked("Always");
        world.request.active_deadline_seconds = deadline;
        denies(&mut world, 10);
        assert_eq!(world.image("app"), PARK);
        let last = world.settle();
        assert_eq!((last.reason, last.action), (Reason::RequestOver, None));
        let (phase, words) = world.state("app");
        assert!(
            phase == StatePhase::Failed
                && words.contains("stays in the park image")
                && words.contains("policy says no"),
            "{words}"
        );
        let pod = world.pod.as_ref().unwrap();
        assert!(pod.parked.is_some());
        let found = orphan(pod, std::iter::once(&world.request), |image| {
            park_image().is(image)
        });
        let change = found.unwrap().change.unwrap();
        assert_eq!(*change.swaps[0].to, *images("app").0);
    }
}

/// Each write meets a newer version of the pod. What was denied between them says more.
#[test]
fn u203_a_pod_that_keeps_changing_ends_what_was_not_begun() {
    for (denied, words) in [(None, "it keeps changing"), (Some(UNDONE), UNDONE)] {
        let mut world = World::of("Always");
        for minute in 0..=10 {
            let action = world.settle_until(|action| matches!(action, Action::Swap(..)));
            assert!(matches!(action, Action::Swap(..)), "{minute}");
            match denied {
                Some(denied) if minute == 0 => {
                    world.memory.note_in_vain("pods", denied, world.now);
                }
                _ => world.memory.note_conflict("pods", world.now),
            }
            world.later(60);
        }
        let said = world.assert_over("app").1;
        assert_eq!(
            said,
            format!(
                "not restarted: the API server has not applied the change of the pod for 600 s: {words}"
            )
        );
        assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 0));
    }
}

/// With a deadline the reason is told beside it.
#[test]
fn what_is_not_applied_until_the_deadline_is_told_with_it() {
    let mut world = World::new(&with_deadline(90), &pod("Always"));
    denies(&mut world, 1);
    let words = world.assert_over("app").1;
    assert!(
        words.contains("activeDeadlineSeconds") && words.contains("policy says no"),
        "{words}"
    );
}

/// A new leader has no memory of the ten minutes before.
#[test]
fn r10_a_denial_that_lasts_ends_what_was_not_begun_under_new_leaders_too() {
    let mut world = World::of("Always");
    for _ in 0..3 {
        denies(&mut world, 2);
        world.succeeds();
    }
    denies(&mut world, 1);
    let (phase, words) = world.assert_over("app");
    assert_eq!(phase, StatePhase::Failed);
    assert!(words.ends_with("for 60 s: policy says no"), "{words}");
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 0));
}

/// Only a process that is young itself may have had one before it that has tried all the time.
#[test]
fn u128_an_old_request_has_its_ten_minutes_under_a_process_that_is_not_new() {
    let mut world = World::of("Always");
    world.is_first = false;
    assert_eq!(world.later(3600).settle().reason, Reason::RequestWaits);
    world.is_first = true;
    denies(&mut world, 9);
    assert!(world.decide().action.is_some());
    denies(&mut world, 0);
    let (phase, words) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && words.ends_with("for 600 s: policy says no"),
        "{words}"
    );
}

/// A container that waits for an alias which the registry does not have any more, and which is to be
/// recorded to go back, and to go back: no write to this part is stored each minute, for an hour, in
/// these words.
fn cannot_write(world: &mut World, part: &'static str, words: &str) {
    world.settle();
    assert_eq!((world.image("app"), world.swaps), (&*images("app").1, 1));
    world.node_says("app", |pod, index| {
        let status = pod.pod.containers[index].status.as_mut().unwrap();
        status.state = ContainerState::Waiting {
            reason: "ImagePullBackOff".into(),
            message: "manifest unknown".into(),
        };
    });
    for _ in 0..60 {
        let Some(action) = world.decide().action else {
            return;
        };
        let of = match action {
            Action::Swap(_) => "pods",
            Action::Report(_) => "status",
            _ => REQUESTS,
        };
        if of == part {
            world.memory.note_in_vain(part, words, world.now);
        } else {
            world.write(&action);
        }
        world.later(60);
    }
}

fn with_pulls(deadline: Option<u32>) -> World {
    let mut asks = pod("Always");
    asks["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    let mut request = request(&["app"], &json!({}));
    request["spec"]["activeDeadlineSeconds"] = deadline.map_or(Value::Null, Value::from);
    World::new(&request, &asks)
}

/// Nothing else says what the image was. The webhook for requests is not called for their status, and
/// the finalizer would go with the first write that is stored again.
#[test]
fn u126_what_only_the_request_records_is_not_given_up_while_the_request_cannot_be_changed() {
    let down = "failed calling webhook \"w.example\"";
    for (deadline, deletes) in [(None, false), (Some(90), false), (None, true)] {
        let when = format!("{deadline:?}, {deletes}");
        let mut world = with_pulls(deadline);
        world.settle();
        world.request.deleting = deletes;
        cannot_write(&mut world, REQUESTS, down);
        assert!(world.request.is_held_back(), "{when}");
        assert!(!world.request.is_completed(), "{when}");
        // The webhook is back.
        let action = world.settle_until(|action| matches!(action, Action::WriteDown(_)));
        world.write(&action);
        world.memory.note_applied(REQUESTS);
        world.settle();
        assert_eq!(
            (world.image("app"), world.swaps),
            (&*images("app").0, 2),
            "{when}"
        );
        assert!(!world.request.is_held_back(), "{when}");
    }
    // A webhook that leaves the record out does so for ever.
    let mut undone = with_pulls(None);
    cannot_write(&mut undone, REQUESTS, UNDONE);
    let words = undone.assert_over("app").1;
    assert!(words.contains("its image is not put back"), "{words}");
}

/// A webhook for pods is down: the record is not given up for that either.
#[test]
fn u200_what_only_the_request_records_is_not_given_up_while_the_pod_cannot_be_changed() {
    for (deadline, deletes) in [(None, false), (Some(90), false), (None, true)] {
        let when = format!("{deadline:?}, {deletes}");
        let mut world = with_pulls(deadline);
        world.settle();
        world.request.deleting = deletes;
        cannot_write(&mut world, "pods", "failed calling webhook \"w.example\"");
        assert!(world.request.is_held_back(), "{when}");
        assert!(!world.request.is_completed(), "{when}");
        // The webhook is back.
        let action = world.settle_until(|action| matches!(action, Action::Swap(_)));
        world.write(&action);
        world.memory.note_applied("pods");
        world.settle();
        assert_eq!(
            (world.image("app"), world.swaps),
            (&*images("app").0, 2),
            "{when}"
        );
        assert!(!world.request.is_held_back(), "{when}");
    }
    // A webhook that sets the alias again does so for ever.
    let mut undone = with_pulls(None);
    cannot_write(&mut undone, "pods", UNDONE);
    let words = undone.assert_over("app").1;
    assert!(words.contains("its image is not put back"), "{words}");
}
